"""The bytes that an archive is read from: a file, a part of one, or a buffer."""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import threading
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from graphwire.errors import ArchiveError, LimitError, note_caller
from graphwire.wire.limits import Limits

__all__ = ["BufferSource", "FileSource", "PartSource", "Readable", "Source", "file_name", "open_source"]

Readable: TypeAlias = "str | os.PathLike[str] | BinaryIO | bytes | bytearray | memoryview"
"""What an archive can be read from. A file object is read from its start, wherever it stands."""

_READ_BYTES = 1 << 20


class Source(Protocol):
    """Bytes at offsets. Any thread may read."""

    size: int
    """In bytes."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Exactly the bytes of a range that lies within `size`."""
        ...

    def map(self, offset: int, size: int) -> memoryview:
        """The range as memory that may be written without changing the source."""
        ...

    def close(self) -> None:
        """Let go of the source. Mapped memory stays."""
        ...


class FileSource:
    """A regular file, by a descriptor of our own: closing or replacing what it was opened from changes nothing here.

    Reading goes through the descriptor, not through the mapping: a file that was cut meanwhile is an error, not a bus error.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._mapping: mmap.mmap | None = None
        self._lock = threading.Lock()
        self.size = os.fstat(descriptor).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        whole = part = os.pread(self._open_descriptor(), size, offset)
        if len(part) == size:
            return whole
        parts = [part]
        while size > len(part):
            if not part:
                raise ArchiveError("the file became shorter while it was read")
            offset += len(part)
            size -= len(part)
            part = os.pread(self._open_descriptor(), size, offset)
            parts.append(part)
        return b"".join(parts)

    def map(self, offset: int, size: int) -> memoryview:
        with self._lock:
            if self._mapping is None:
                self._mapping = _map_private(self._open_descriptor(), self.size)
            return memoryview(self._mapping)[offset : offset + size]

    def close(self) -> None:
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            self._mapping = None  # its views keep it alive
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _open_descriptor(self) -> int:
        if self._descriptor < 0:
            raise ArchiveError("the archive is closed")
        return self._descriptor


class BufferSource:
    """Bytes in memory. Mapping a range copies it: the caller's buffer is not ours to write."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view: memoryview | None = memoryview(buffer).cast("B")
        self.size = self._view.nbytes

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._open_view()[offset : offset + size])

    def map(self, offset: int, size: int) -> memoryview:
        return memoryview(bytearray(self._open_view()[offset : offset + size]))

    def close(self) -> None:
        self._view = None

    def _open_view(self) -> memoryview:
        if self._view is None:
            raise ArchiveError("the archive is closed")
        return self._view


class PartSource:
    """A range of another source, which stays open."""

    def __init__(self, whole: Source, offset: int, size: int) -> None:
        self._whole = whole
        self._offset = offset
        self.size = size

    def read_at(self, offset: int, size: int) -> bytes:
        return self._whole.read_at(self._offset + offset, size)

    def map(self, offset: int, size: int) -> memoryview:
        return self._whole.map(self._offset + offset, size)

    def close(self) -> None:
        """Nothing: the whole belongs to whoever opened it."""


def open_source(source: Readable, limits: Limits) -> Source:
    """The bytes of `source`, mapped where it is a regular file and held in memory otherwise.

    Raises:
        OSError: the path cannot be opened.
        ArchiveError: the path is a folder or a device, or the object does not give bytes.
        LimitError: a pipe gives more bytes than `limits` allow.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BufferSource(source)
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source), limits)
    if isinstance(source, io.BytesIO):
        return BufferSource(source.getvalue())
    if not hasattr(source, "read"):
        raise ArchiveError(f"{type_text(source)} is no path, binary file or bytes")
    if isinstance(cast("object", source), io.TextIOBase):
        raise _gives_text()
    try:
        return _open_object(source, limits)
    except ValueError as error:  # a closed file, or one that is not readable
        raise ArchiveError(
            f"the file object gives no bytes ({error})", remedy='Open the file with "rb"'
        ) from error
    except Exception as error:
        note_caller(error)
        raise


def _gives_text() -> ArchiveError:
    return ArchiveError("the file object gives text", remedy='Open the file in binary mode, "rb"')


def file_name(file: object) -> str:
    """What a file, or what is read or written in place of one, is called in a message."""
    if isinstance(file, (bytes, bytearray, memoryview)):
        return "the bytes"
    if isinstance(file, (str, os.PathLike)):
        return os.fsdecode(file)
    name = getattr(file, "name", None)
    if isinstance(name, (str, os.PathLike)):
        return os.fsdecode(name)
    return "the stream" if hasattr(file, "read") or hasattr(file, "write") else ""


def type_text(value: object) -> str:
    """What a value is, for a message."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _open_object(source: Any, limits: Limits) -> Source:
    descriptor = _regular_descriptor(source)
    if descriptor is not None:
        return FileSource(os.dup(descriptor))
    if _can_seek(source):
        source.seek(0)
    return BufferSource(_read_all(source, limits))


def _open_path(path: str, limits: Limits) -> Source:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return FileSource(os.dup(descriptor))
        if stat.S_ISDIR(mode):
            raise ArchiveError(
                "this is a folder, not an archive", place=path, remedy="Name the file inside it"
            )
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise ArchiveError("this is a device, not an archive", place=path)
        with open(descriptor, "rb", closefd=False) as pipe:
            return BufferSource(_read_all(pipe, limits))
    finally:
        os.close(descriptor)


def _regular_descriptor(source: Any) -> int | None:
    """The descriptor of an open regular file whose object reads the file's own bytes, else None."""
    file = getattr(source, "file", source)  # what `tempfile` wraps
    raw = getattr(file, "raw", file)
    if not (
        isinstance(file, (io.BufferedReader, io.BufferedRandom, io.FileIO)) and isinstance(raw, io.FileIO)
    ):
        return None  # a decompressing or wrapping object can have a `fileno` that gives other bytes than its `read`
    if file.writable():
        file.flush()
    descriptor = file.fileno()
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _can_seek(source: Any) -> bool:
    seekable = getattr(source, "seekable", None)
    return bool(seekable()) if seekable is not None else hasattr(source, "seek")


def _read_all(source: Any, limits: Limits) -> bytes:
    parts = []
    size = 0
    while part := source.read(_READ_BYTES):
        if not isinstance(part, bytes):
            raise _gives_text()
        parts.append(part)
        size += len(part)
        if size > limits.unmapped_bytes:
            raise LimitError(f"the stream gives more than {limits.unmapped_bytes:,} bytes")
    return b"".join(parts)


def _map_private(descriptor: int, size: int) -> mmap.mmap:
    """The file as copy-on-write memory. Pages are not set aside in advance: a file may be larger than memory."""
    if os.fstat(descriptor).st_size < size:
        raise ArchiveError("the file became shorter after it was opened")
    if hasattr(mmap, "MAP_PRIVATE"):
        no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000 if os.uname().sysname == "Linux" else 0)
        flags, access = mmap.MAP_PRIVATE | no_reserve, mmap.PROT_READ | mmap.PROT_WRITE
        try:
            return mmap.mmap(descriptor, size, flags=flags, prot=access)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"there is no room for a mapping of {size:,} bytes") from error
            raise
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
