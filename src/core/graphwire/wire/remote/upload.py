"""Writes a remote file in a stream: it appears whole when the block ends, or not at all."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from graphwire.errors import RemoteError
from graphwire.process import InterruptSafe
from graphwire.wire import DEFAULT_ATTEMPTS
from graphwire.wire.remote.location import RemoteFile, is_http, protocols_of

_WHOLE_ON_CLOSE = frozenset("s3 s3a gs gcs az abfs abfss adl hf oss".split())
"""Protocols of stores in which a file appears when its upload ends. In others it is written under a temporary name and moved."""
_ONCE = replace(DEFAULT_ATTEMPTS, count=1)
"""Clients try parts of an upload again themselves. What they give up cannot be sent again from here."""


class _Stream(io.RawIOBase):
    """The bytes of an upload, on their way to the file system."""

    def __init__(self, file: Any, url: str) -> None:
        super().__init__()
        self._file = file
        self._url = url
        self.count = 0
        """The bytes that were written."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        _ONCE.run(self._url, "write the file", lambda: self._file.write(data))
        self.count += len(data)
        return len(data)


class RemoteWrite(InterruptSafe):
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
        self._ended = False

    def begin(self) -> None:
        if self._stream is not None:
            return
        fs, path, url = self._target
        if is_http(fs):
            remedy = "Write to an object store, or to a path"
            raise RemoteError("files cannot be written to HTTP servers", remedy=remedy).of(url)
        if not self._target.name:
            raise IsADirectoryError(21, "this is a folder; name a file inside it", url)
        if self._new and DEFAULT_ATTEMPTS.run(url, "look for the file", lambda: fs.exists(path)):
            raise FileExistsError(17, "there is such a file already", url)
        self._file = _ONCE.run(url, "begin to write the file", lambda: fs.open(self._path, "wb"))
        self._stream = _Stream(self._file, url)

    def value(self) -> Any:
        return self._stream

    def settle(self) -> None:
        """Do nothing: only the end of the upload makes bytes durable."""

    def end(self, error: BaseException | None) -> None:
        if self._ended or self._file is None:
            return
        if error is not None:
            self._ended = True
            self._discard()
            return
        fs, path, url = self._target
        _ONCE.run(url, "finish the file", self._file.close)
        if self._is_moved:
            _ONCE.run(url, "move the file to its name", lambda: fs.mv(self._path, path))
        self._check_size()
        self._ended = True

    def _check_size(self) -> None:
        """Raise unless the file has as many bytes as were written. Who may write need not be allowed to look."""
        fs, path, url = self._target
        fs.invalidate_cache(path)
        with suppress(PermissionError):
            info = DEFAULT_ATTEMPTS.run(url, "look at the written file", lambda: fs.info(path))
            if self._stream is not None and info.get("size") not in (None, self._stream.count):
                problem = f"the written file has {info['size']:,} bytes instead of {self._stream.count:,}"
                raise RemoteError(problem, remedy="Write it again").of(url)

    def _discard(self) -> None:
        """Leave nothing of the file."""
        fs = self._target.fs
        if self._is_moved:
            with suppress(Exception):
                self._file.close()
            with suppress(Exception):
                fs.rm_file(self._path)
            return
        with suppress(Exception):
            self._file.discard()
        self._file.closed = True  # Otherwise the garbage collector would close it, which ends the upload.
