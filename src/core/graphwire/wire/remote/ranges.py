"""Reads ranges of remote files: from HTTP servers, whose answers are checked, and from any other file system of fsspec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from graphwire.errors import RemoteError
from graphwire.lazy import pattern
from graphwire.wire import Attempts, ShortAnswerError
from graphwire.wire.remote.location import RemoteFile, is_http

_CONTENT_RANGE = pattern(r"bytes (\d+)-(\d+)/(\d+)\Z")
_CHUNK_BYTES = 1 << 16
_REMEDY = "Fetch the file first, or read it through a cache: simplecache::URL"


class Ranges(Protocol):
    """A remote file whose ranges can be read by several threads at once."""

    def tail(self, count: int) -> tuple[int, bytes]:
        """Return the size of the file, and its last `count` bytes; all of them if there are fewer."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return exactly the bytes of a range that is not empty."""
        ...


def ranges_of(file: RemoteFile, attempts: Attempts) -> Ranges:
    """Return the reader of ranges for a file."""
    return (_HttpRanges if is_http(file.fs) else _FileSystemRanges)(file, attempts)


class _FileSystemRanges:
    """The ranges of a file in any file system."""

    def __init__(self, file: RemoteFile, attempts: Attempts) -> None:
        self._file = file
        self._attempts = attempts

    def tail(self, count: int) -> tuple[int, bytes]:
        _, path, url = self._file
        info = self._attempts.run(url, "find the file", lambda: self._call("info", 0, path))
        if info.get("type") == "directory":
            raise IsADirectoryError(21, "this is a folder, not an archive; name the file inside it", url)
        size = info.get("size")
        if not isinstance(size, int):
            raise RemoteError("its file system does not state its size", remedy=_REMEDY).of(url)
        return size, self.read(max(0, size - count), size) if size else b""

    def read(self, start: int, end: int) -> bytes:
        return self._attempts.run(
            self._file.url, f"read bytes {start:,} to {end - 1:,}", lambda: self._read(start, end)
        )

    def _read(self, start: int, end: int) -> bytes:
        data = self._call("cat_file", end - start, self._file.path, start=start, end=end)
        if len(data) != end - start:
            raise ShortAnswerError(f"{len(data):,} bytes instead of {end - start:,}")
        return bytes(data)

    def _call(self, method: str, nbytes: int, *args: Any, **options: Any) -> Any:
        """Call a method of the file system; of an asynchronous one, for a limited time."""
        fs = self._file.fs
        if not fs.async_impl:
            return getattr(fs, method)(*args, **options)
        from fsspec.asyn import sync

        limit = self._attempts.limit(nbytes)
        return sync(fs.loop, getattr(fs, f"_{method}"), *args, timeout=limit, **options)


class _Answer(NamedTuple):
    """What an HTTP server answers to the request for a range."""

    start: int
    size: int
    """The size of the whole file."""
    data: bytes
    tag: str
    """What changes with the content: the header `ETag`; empty if there is none."""


class _NoRangeError(RemoteError):
    """A server does not send the requested part of a file."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__("the server does not send parts of files", remedy=_REMEDY)
        self.of(url)
        self.size = size
        """The size of the whole file; 0 if the server does not state it."""


class _HttpRanges:
    """The ranges of a file on an HTTP server.

    A server may ignore that a range was requested, and send the whole file, or another range than it states. So the answer is
    read only as far as it should go, and compared with the request. No `HEAD` is sent: the first range states the size, and
    signed URLs allow no other method.
    """

    def __init__(self, file: RemoteFile, attempts: Attempts) -> None:
        self._file = file
        self._attempts = attempts
        self._size = -1
        self._tag = ""

    def tail(self, count: int) -> tuple[int, bytes]:
        try:
            answer = self._end(f"-{count}", count)
        except _NoRangeError as error:
            if not error.size:
                raise
            start = max(0, error.size - count)  # Some servers know ranges from the start only.
            answer = self._end(f"{start}-{error.size - 1}", error.size - start)
        self._size, self._tag = answer.size, answer.tag
        if answer.start + len(answer.data) != answer.size or len(answer.data) < min(count, answer.size):
            raise self._lies(f"to the request for the last {count:,} bytes it sends others")
        return answer.size, answer.data

    def _end(self, wanted: str, count: int) -> _Answer:
        return self._attempts.run(self._file.url, "read the end", lambda: self._request(wanted, count))

    def read(self, start: int, end: int) -> bytes:
        what = f"read bytes {start:,} to {end - 1:,}"
        return self._attempts.run(self._file.url, what, lambda: self._read(start, end))

    def _read(self, start: int, end: int) -> bytes:
        answer = self._request(f"{start}-{end - 1}", end - start)
        if answer.size != self._size or answer.tag != self._tag:
            raise RemoteError("the file changed while it was read", remedy="Read it again").of(self._file.url)
        if answer.start != start:
            raise self._lies(f"to the request for bytes {start:,} to {end - 1:,} it sends others")
        if len(answer.data) != end - start:
            raise ShortAnswerError(f"{len(answer.data):,} bytes instead of {end - start:,}")
        return answer.data

    def _request(self, wanted: str, count: int) -> _Answer:
        from fsspec.asyn import sync

        return sync(self._file.fs.loop, self._ask, wanted, count, timeout=self._attempts.limit(count))  # type: ignore[no-any-return]

    async def _ask(self, wanted: str, count: int) -> _Answer:
        fs = self._file.fs
        options = dict(fs.kwargs)
        headers = {**options.pop("headers", {}), "Range": f"bytes={wanted}", "Accept-Encoding": "identity"}
        session = await fs.set_session()
        async with session.get(fs.encode_url(self._file.path), headers=headers, **options) as response:
            if response.status == 416:
                size = response.headers.get("Content-Range", "").removeprefix("bytes */")
                if size == "0":
                    return _Answer(0, 0, b"", "")
                raise _NoRangeError(self._file.url, int(size) if size.isdecimal() else 0)
            response.raise_for_status()
            start, size = self._range_of(response.status, response.headers, count)
            data = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                data += chunk
                if len(data) > count:
                    raise self._lies(f"it sends more than the {count:,} bytes that were requested")
            if response.status == 200 and len(data) != size:
                raise ShortAnswerError(f"{len(data):,} bytes instead of {size:,}")
            return _Answer(start, size, bytes(data), response.headers.get("ETag", ""))

    def _range_of(self, status: int, headers: Mapping[str, str], count: int) -> tuple[int, int]:
        """Return the offset of an answer's first byte, and the size of the file."""
        if headers.get("Content-Encoding", "identity") != "identity":
            raise self._lies("it compresses its answer")
        if status == 206:
            stated = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
            if stated is None:
                raise self._lies("it sends a part of the file, and does not state which")
            first, last, size = map(int, stated.groups())
            if not first <= last < size:
                raise self._lies(f"it states a range that does not exist ({stated[0]})")
            return first, size
        length = headers.get("Content-Length", "")
        if length.isdecimal() and int(length) <= count:
            return 0, int(length)  # the whole file, which is small
        raise _NoRangeError(self._file.url, int(length) if length.isdecimal() else 0)

    def _lies(self, problem: str) -> RemoteError:
        error = RemoteError(f"the server cannot be trusted: {problem}", remedy=_REMEDY)
        error.of(self._file.url)
        return error
