"""A remote file as a `Source`: what is expected to be read is fetched ahead in large chunks, by several threads."""

from __future__ import annotations

import bisect
import io
import os
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphwire.errors import ArchiveError, Ignored, RemoteError
from graphwire.process import Resource, Step, Threads
from graphwire.wire.archive.source import RemoteFile, allocate
from graphwire.wire.limits import DEFAULT_ATTEMPTS, Attempts, ShortAnswerError
from graphwire.wire.remote import is_http, protocols_of

# ----------------------------------------------------------------------------------------- reads ranges of remote files
# from HTTP servers, whose answers are checked, and from any other file system of fsspec.


_CONTENT_RANGE = r"bytes (\d+)-(\d+)/(\d+)\Z"
_CHUNK_BYTES = 1 << 16
_REMEDY = "Fetch the file first, or read it through a cache: simplecache::URL"


class Ranges(ABC):
    """A remote file whose ranges can be read by several threads at once."""

    def __init__(self, file: RemoteFile, attempts: Attempts) -> None:
        self._file = file
        self._attempts = attempts

    @abstractmethod
    def tail(self, count: int) -> tuple[int, bytes]:
        """Return the size of the file, and its last `count` bytes; all of them if there are fewer."""

    @abstractmethod
    def _read(self, start: int, end: int) -> bytes:
        """Ask for a range once."""

    def read(self, start: int, end: int) -> bytes:
        """Return exactly the bytes of a range that is not empty."""

        def whole() -> bytes:
            data = self._read(start, end)
            if len(data) != end - start:
                raise ShortAnswerError(f"{len(data):,} bytes instead of {end - start:,}")
            return data

        return self._attempts.run(self._file, f"read bytes {start:,} to {end - 1:,}", whole)


def ranges_of(file: RemoteFile, attempts: Attempts) -> Ranges:
    """Return the reader of ranges for a file."""
    return (_HttpRanges if is_http(file.fs) else _FileSystemRanges)(file, attempts)


class _FileSystemRanges(Ranges):
    """The ranges of a file in any file system."""

    def tail(self, count: int) -> tuple[int, bytes]:
        _, path, url = self._file
        info = self._attempts.run(self._file, "find the file", lambda: self._call("info", 0, path))
        if info.get("type") == "directory":
            raise IsADirectoryError(21, "this is a folder, not an archive; name the file inside it", url)
        size = info.get("size")
        if not isinstance(size, int):
            raise RemoteError("its file system does not state its size", remedy=_REMEDY).of(url)
        return size, self.read(max(0, size - count), size) if size else b""

    def _read(self, start: int, end: int) -> bytes:
        return bytes(self._call("cat_file", end - start, self._file.path, start=start, end=end))

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


class _HttpRanges(Ranges):
    """The ranges of a file on an HTTP server.

    A server may ignore that a range was requested, and send the whole file, or another range than it states. So the answer is
    read only as far as it should go, and compared with the request. No `HEAD` is sent: the first range states the size, and
    signed URLs allow no other method.
    """

    def __init__(self, file: RemoteFile, attempts: Attempts) -> None:
        super().__init__(file, attempts)
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
        return self._attempts.run(self._file, "read the end", lambda: self._request(wanted, count))

    def _read(self, start: int, end: int) -> bytes:
        answer = self._request(f"{start}-{end - 1}", end - start)
        if answer.size != self._size or answer.tag != self._tag:
            raise RemoteError("the file changed while it was read", remedy="Read it again").of(self._file.url)
        if answer.start != start:
            raise self._lies(f"to the request for bytes {start:,} to {end - 1:,} it sends others")
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
            stated = re.match(_CONTENT_RANGE, headers.get("Content-Range", ""))
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


TAIL_BYTES = 1 << 17
"""In bytes. The end of a file is read first: it has the directory of an archive, unless that has more than some 1,500 records."""
WINDOW_BYTES = 1 << 16
"""In bytes. The least that is fetched where nothing is expected."""
GAP_BYTES = 1 << 16
"""In bytes. Expected ranges with smaller gaps between them are fetched together."""
CHUNK_BYTES = 4 << 20
"""In bytes. The most that is fetched at once."""
TOGETHER_BYTES = 32 << 20
"""In bytes. The same, where the caller wants few requests."""
THREADS = 8
AHEAD = 8
"""How many chunks are fetched ahead."""
HELD_BYTES = 16 << 20
"""In bytes. Chunks that were read are kept up to this size. With those fetched ahead, a source holds 48 MiB, and its threads what
they receive."""


class _Chunk:
    """A range of the file, which is fetched as a whole."""

    __slots__ = ("end", "fetch", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.fetch: Step | None = None


_START = attrgetter("start")
_CLOSED = "the archive is closed"


class RemoteSource:
    """A file at a URL. `map` copies.

    Ranges that `expect` announces become chunks, fetched in the order of the file while earlier ones are read. Any other range
    is fetched when it is read.

    Args:
        ranges: reads the file.
    """

    is_remote = True

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self.closed = False
        self._lock = threading.Lock()
        self._threads = Threads(THREADS, "graphwire-remote")
        self._chunks: list[_Chunk] = []
        """Without overlaps, in the order of the file."""
        self._fetched: deque[_Chunk] = deque()
        """The chunks that are or were fetched, the oldest first."""
        self._held = 0
        """Their size in bytes."""
        self.size, tail = ranges.tail(TAIL_BYTES)
        if tail:
            chunk = _Chunk(self.size - len(tail), self.size)
            chunk.fetch = Step(lambda: tail)
            chunk.fetch.run()
            self._chunks.append(chunk)

    def read_at(self, offset: int, size: int) -> bytes:
        chunk = self._chunk_with(offset, size) if size else None
        if chunk is not None and offset + size <= chunk.end:
            data = self._data_of(chunk)
            return data[offset - chunk.start : offset - chunk.start + size]
        memory = bytearray(size)
        self.read_into(offset, memoryview(memory))
        return bytes(memory)

    def read_into(self, offset: int, memory: memoryview) -> None:
        while memory.nbytes:
            chunk = self._chunk_with(offset, memory.nbytes)
            data = self._data_of(chunk)
            count = min(chunk.end - offset, memory.nbytes)
            memory[:count] = memoryview(data)[offset - chunk.start : offset - chunk.start + count]
            memory = memory[count:]
            offset += count

    def map(self, offset: int, size: int) -> memoryview:
        self.expect([(offset, offset + size)])
        memory = allocate(size)
        self.read_into(offset, memory)
        return memory

    def map_anew(self, offset: int, size: int) -> memoryview:
        """Return the range in new memory, as `map` always does."""
        return self.map(offset, size)

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        most = TOGETHER_BYTES if together else CHUNK_BYTES
        wanted = _joined(ranges, self.size)
        with self._lock:
            added = [each for start, end in wanted for each in self._missing(start, end)]
            for start, end in added:
                step = -(-(end - start) // -(-(end - start) // most))  # equal chunks
                self._chunks += (_Chunk(at, min(at + step, end)) for at in range(start, end, step))
            self._chunks.sort(key=_START)

    def close(self) -> None:
        self.closed = True
        with self._lock:
            self._threads.close(wait=False)
            self._chunks.clear()
            self._fetched.clear()

    def _missing(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Yield the parts of a range that no chunk has."""
        index = bisect.bisect_right(self._chunks, start, key=_START)
        if index:
            start = max(start, self._chunks[index - 1].end)
        while start < end:
            until = min(end, self._chunks[index].start) if index < len(self._chunks) else end
            if start < until:
                yield start, until
            start = self._chunks[index].end if index < len(self._chunks) else end
            index += 1

    def _chunk_with(self, offset: int, size: int) -> _Chunk:
        """Return the chunk with the byte at an offset; it and the next ones are being fetched."""
        with self._lock:
            if self.closed:
                raise ArchiveError(_CLOSED)
            index = bisect.bisect_right(self._chunks, offset, key=_START) - 1
            if index < 0 or self._chunks[index].end <= offset:
                index += 1
                end = min(offset + max(WINDOW_BYTES, min(size, CHUNK_BYTES)), self.size)
                if index < len(self._chunks):
                    end = min(end, self._chunks[index].start)
                self._chunks.insert(index, _Chunk(offset, end))
            found = self._chunks[index]
            for chunk in islice(self._chunks, index, index + AHEAD):
                if chunk.fetch is None:
                    chunk.fetch = self._threads.submit(self._ranges.read, chunk.start, chunk.end)
                    self._fetched.append(chunk)
                    self._held += chunk.end - chunk.start
            self._forget(found)
        return found

    def _forget(self, kept: _Chunk) -> None:
        """Forget the oldest chunks that were fetched, if they take too much memory."""
        while self._held > HELD_BYTES + AHEAD * CHUNK_BYTES and self._fetched[0] is not kept:
            oldest = self._fetched.popleft()
            self._held -= oldest.end - oldest.start
            index = bisect.bisect_left(self._chunks, oldest.start, key=_START)
            if index < len(self._chunks) and self._chunks[index] is oldest:
                del self._chunks[index]

    def _data_of(self, chunk: _Chunk) -> bytes:
        fetch = chunk.fetch
        assert fetch is not None  # `_chunk_with` began it
        try:
            data: bytes = fetch.result()
            return data
        except Exception:
            if self.closed:
                raise ArchiveError(_CLOSED) from None
            with self._lock:
                if chunk.fetch is fetch:
                    chunk.fetch = None  # whoever reads it again tries again
                    if chunk in self._fetched:
                        self._fetched.remove(chunk)
                        self._held -= chunk.end - chunk.start
            raise


def _joined(ranges: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return ranges in order, and those with small gaps between them as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(start, 0), min(end, size)) for start, end in ranges):
        if joined and start <= joined[-1][1] + GAP_BYTES:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif start < end:
            joined.append((start, end))
    return joined


def open_remote(file: RemoteFile, attempts: Attempts) -> RemoteSource:
    """Open a remote file; its end is read.

    Raises:
        OSError: there is no such file, or access is denied.
        RemoteError: the file cannot be read.
    """
    return RemoteSource(ranges_of(file, attempts))


# -------------------------------- writes a remote file in a stream: it appears whole when the block ends, or not at all


_WHOLE_ON_CLOSE = frozenset("s3 s3a gs gcs az abfs abfss adl hf oss".split())
"""Protocols of stores in which a file appears when its upload ends. In others it is written under a temporary name and moved."""
_ONCE = replace(DEFAULT_ATTEMPTS, count=1)
"""Clients try parts of an upload again themselves. What they give up cannot be sent again from here."""


class _Stream(io.RawIOBase):
    """The bytes of an upload, on their way to the file system."""

    def __init__(self, file: Any, target: RemoteFile) -> None:
        super().__init__()
        self._file = file
        self._target = target
        self.count = 0
        """The bytes that were written."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        _ONCE.run(self._target, "write the file", lambda: self._file.write(data))
        self.count += len(data)
        return len(data)


class RemoteWrite(Resource):
    """A context manager for a remote file that replaces another one, or is new.

    Args:
        file: the file.
        new: whether it must not exist. Stores without such a condition may miss another writer of the same moment.
    """

    def __init__(self, file: RemoteFile, *, new: bool = False) -> None:
        self._target = file
        self._new = new
        self._is_moved = _WHOLE_ON_CLOSE.isdisjoint(protocols_of(file.fs))
        name = f".graphwire-{os.urandom(8).hex()}.part"
        self._path = file.beside(name).path if self._is_moved else file.path
        self._file: Any = None
        self._stream: _Stream | None = None

    def begin(self) -> None:
        fs, path, url = self._target
        if is_http(fs):
            remedy = "Write to an object store, or to a path"
            raise RemoteError("files cannot be written to HTTP servers", remedy=remedy).of(url)
        if not self._target.name:
            raise IsADirectoryError(21, "this is a folder; name a file inside it", url)
        if self._new and DEFAULT_ATTEMPTS.run(self._target, "look for the file", lambda: fs.exists(path)):
            raise FileExistsError(17, "there is such a file already", url)
        self._file = _ONCE.run(self._target, "begin to write the file", lambda: fs.open(self._path, "wb"))
        self._stream = _Stream(self._file, self._target)

    def value(self) -> Any:
        return self._stream

    def settle(self) -> None:
        """Do nothing: only the end of the upload makes bytes durable."""

    def end(self, error: BaseException | None) -> None:
        if self._file is None:
            return
        if error is not None:
            self._discard()
            return
        fs, path, _ = self._target
        try:
            _ONCE.run(self._target, "finish the file", self._file.close)
            if self._is_moved:
                _ONCE.run(self._target, "move the file to its name", lambda: fs.mv(self._path, path))
        except BaseException:
            self._discard()
            raise
        self._check_size()

    def _check_size(self) -> None:
        """Raise unless the file has as many bytes as were written. Who may write need not be allowed to look."""
        fs, path, url = self._target
        fs.invalidate_cache(path)
        with suppress(PermissionError):
            info = DEFAULT_ATTEMPTS.run(self._target, "look at the written file", lambda: fs.info(path))
            if self._stream is not None and info.get("size") not in (None, self._stream.count):
                problem = f"the written file has {info['size']:,} bytes instead of {self._stream.count:,}"
                raise RemoteError(problem, remedy="Write it again").of(url)

    def _discard(self) -> None:
        """Leave nothing of the file."""
        fs = self._target.fs
        if self._is_moved:
            with Ignored(Exception):
                self._file.close()
            with Ignored(Exception):
                fs.rm_file(self._path)
            return
        with Ignored(Exception):
            self._file.discard()
        self._file.closed = True  # Otherwise the garbage collector would close it, which ends the upload.
