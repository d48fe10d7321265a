"""The bytes that an archive is read from: a file, a part of one, or a buffer."""

from __future__ import annotations

import errno
import gc
import io
import mmap
import os
import stat
import weakref
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from graphwire.errors import ArchiveError, LimitError, note_caller
from graphwire.wire import Limits, copy_bytes

Readable: TypeAlias = "str | os.PathLike[str] | BinaryIO | bytes | bytearray | memoryview"
"""What an archive can be read from. A file object is read from its start, wherever it stands."""

CLOSED = "the archive is closed"
_READ_BYTES = 1 << 20


class Source(Protocol):
    """Bytes at offsets. Any thread may read."""

    size: int
    """In bytes."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be read any more."""
        ...

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
    """A regular file, opened for us alone: closing or replacing what it was opened from changes nothing here.

    Reading goes through the descriptor, not through the mapping: a file that was cut meanwhile is an error, not a bus error.
    A descriptor's number may be another file's as soon as it is closed, so it is closed when nobody reads by it any more.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._readers: set[object] = set()
        """A token for each read that is under way."""
        self.closed = False
        self._mappings: dict[None, _Mapping] = {}
        """The one there is, if any."""
        self.size = os.fstat(file.fileno()).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        reader = object()
        try:
            descriptor = self._descriptor_for(reader)
            whole = part = os.pread(descriptor, size, offset)
            if len(part) == size:
                return whole
            parts = [part]
            while size > len(part):
                if not part:
                    raise ArchiveError("the file became shorter while it was read")
                offset += len(part)
                size -= len(part)
                part = os.pread(descriptor, size, offset)
                parts.append(part)
            return b"".join(parts)
        finally:
            self._leave(reader)

    def map(self, offset: int, size: int) -> memoryview:
        reader = object()
        try:
            descriptor = self._descriptor_for(reader)
            mapping = self._mappings.get(None)
            if mapping is None:
                mapping = self._mappings.setdefault(None, _map_private(descriptor, self.size))
            return memoryview(mapping)[offset : offset + size]
        finally:
            self._leave(reader)

    def close(self) -> None:
        self.closed = True
        self._mappings.clear()  # its views keep it alive
        self._close_unless_read()

    def __del__(self) -> None:
        if "_file" in vars(self):  # unless it was interrupted before its first line
            self._file.close()

    def _descriptor_for(self, reader: object) -> int:
        """The file's descriptor, which stays open until the reader leaves."""
        self._readers.add(reader)
        if self.closed:
            raise ArchiveError(CLOSED)
        return self._file.fileno()

    def _leave(self, reader: object) -> None:
        self._readers.discard(reader)
        self._close_unless_read()

    def _close_unless_read(self) -> None:
        if self.closed and not self._readers:
            self._file.close()


class BufferSource:
    """Bytes in memory. Mapping a range copies it: the caller's buffer is not ours to write."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view: memoryview | None = memoryview(buffer).cast("B")
        self.size = self._view.nbytes

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._open_view()[offset : offset + size])

    def map(self, offset: int, size: int) -> memoryview:
        return copy_bytes(self._open_view()[offset : offset + size])

    @property
    def closed(self) -> bool:
        return self._view is None

    def close(self) -> None:
        self._view = None

    def _open_view(self) -> memoryview:
        if self._view is None:
            raise ArchiveError(CLOSED)
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

    @property
    def closed(self) -> bool:
        return self._whole.closed

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
        # In one step of the interpreter: the copy would be lost to an interrupt between two.
        return FileSource(io.FileIO(*map(os.dup, (descriptor,))))  # type: ignore[arg-type] # one number
    if _can_seek(source):
        source.seek(0)
    return BufferSource(_read_all(source, limits))


def _open_path(path: str, limits: Limits) -> Source:
    try:
        file = io.FileIO(path)
    except IsADirectoryError:
        raise ArchiveError(
            "this is a folder, not an archive", place=path, remedy="Name the file inside it"
        ) from None
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return FileSource(file)
    with file:
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise ArchiveError("this is a device, not an archive", place=path)
        return BufferSource(_read_all(file, limits))


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


class _Mapping(mmap.mmap):
    """A file as memory."""

    file: tuple[int, int]
    """The device and the inode."""


_mappings: weakref.WeakValueDictionary[object, _Mapping] = weakref.WeakValueDictionary()
"""Every mapping that something still looks at. What is mapped is the process's own, and so is this one state beside it."""


def is_mapped(stream: Any) -> bool:
    """Whether a file object writes to a file that memory which `map` gave still shows."""
    try:
        status = os.fstat(stream.fileno())
    except (AttributeError, OSError, TypeError, ValueError):  # no file, or none of the system's
        return False
    file = status.st_dev, status.st_ino
    return _has_mapping(file) and (gc.collect() >= 0 and _has_mapping(file))  # else garbage showed it


def _has_mapping(file: tuple[int, int]) -> bool:
    mappings = (reference() for reference in _mappings.valuerefs())
    return any(each is not None and each.file == file for each in mappings)


def _map_private(descriptor: int, size: int) -> _Mapping:
    """The file as copy-on-write memory. Pages are not set aside in advance: a file may be larger than memory."""
    status = os.fstat(descriptor)
    if status.st_size < size:
        raise ArchiveError("the file became shorter after it was opened")
    if hasattr(mmap, "MAP_PRIVATE"):
        no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000 if os.uname().sysname == "Linux" else 0)
        flags, access = mmap.MAP_PRIVATE | no_reserve, mmap.PROT_READ | mmap.PROT_WRITE
        try:
            mapping = _Mapping(descriptor, size, flags=flags, prot=access)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"there is no room for a mapping of {size:,} bytes") from error
            raise
    else:
        mapping = _Mapping(descriptor, size, access=mmap.ACCESS_COPY)
    mapping.file = status.st_dev, status.st_ino
    _mappings[object()] = mapping
    return mapping
