"""The sources of bytes that an archive is read from (a file, a part of another source, or a buffer), and memory for them.

Memory for tensors is aligned as torch's allocator aligns it, because DLPack users rely on that.
"""

from __future__ import annotations

import errno
import functools
import gc
import io
import mmap
import os
import re
import stat
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Protocol, Self, TypeAlias, cast

from graphwire import errors
from graphwire.process import file_of
from graphwire.wire.limits import DEFAULT_ATTEMPTS, Limits

ALIGNMENT = 64
"""In bytes. torch's CPU memory and each stored record of an archive begin at a multiple of it."""
_PAGES = 1 << 20
"""In bytes. From this size on memory comes from the system as zero pages; a `bytearray` would write each zero first."""


def allocate(nbytes: int) -> memoryview:
    """Return writable, zeroed memory that begins at a multiple of `ALIGNMENT`.

    Raises:
        MemoryError: not enough memory is available.
    """
    if nbytes >= _PAGES and hasattr(mmap, "MAP_PRIVATE"):
        try:
            return memoryview(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"not enough memory for {nbytes:,} bytes") from error
            raise
    memory = memoryview(bytearray(nbytes + ALIGNMENT - 1))
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def copy_bytes(content: bytes | bytearray | memoryview) -> memoryview:
    """Return a copy of bytes in new aligned memory.

    Raises:
        MemoryError: not enough memory is available.
    """
    memory = allocate(len(content))
    memory[:] = content
    return memory


def address(memory: memoryview) -> int:
    """Return the address of writable memory of at least one byte."""
    at, buffer_of = _addresses()
    found: int = at(buffer_of(memory))
    return found


@functools.cache
def _addresses() -> tuple[Callable[[Any], int], Callable[[memoryview], Any]]:
    import ctypes

    return ctypes.addressof, ctypes.c_char.from_buffer


def memory_at(start: int, nbytes: int, owner: object) -> memoryview:
    """Return memory by its address. The view keeps the memory's owner alive."""
    array = _array_at()(start)
    array.owner = owner
    return memoryview(array)[:nbytes].cast("B")


@functools.cache
def _array_at() -> Any:
    """Return what makes an endless array of bytes. A type for each length would take ten times as long to make as the view."""
    import ctypes

    return (ctypes.c_char * sys.maxsize).from_address


# ------------------------------------------------------------- the base class of objects that a `with` statement closes


class Closing(ABC):
    """An object with a `close` method, which the end of a `with` statement calls."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ------------------------------------------------------------------------- names of files on this machine and at URLs

URL_START = r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://"
"""`scheme://`, after any number of chained ones, as in `simplecache::s3://`. One letter is a drive."""
_begins_url = re.compile(URL_START).match


class UniversalPath(Protocol):
    """A path of universal_pathlib, or anything else with these attributes; `str` of it is a URL or a path."""

    @property
    def protocol(self) -> str:
        """The protocol of its file system."""

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options of its file system."""


class RemoteFile(NamedTuple):
    """A file at a URL, in an open file system of fsspec."""

    fs: Any
    """The `fsspec.AbstractFileSystem`."""
    path: str
    """The path of the file in it."""
    url: str
    """The URL in messages: without credentials."""

    @property
    def name(self) -> str:
        """The last name of the path, without a query."""
        return self.path.partition("?")[0].rpartition("/")[2]

    def ask(self, what: str, method: str, *args: Any, **options: Any) -> Any:
        """Return what a method of the file system returns, called again after failures that may pass.

        Args:
            what: what the call does, for errors, as in "list the folder".
            method: the name of the method.

        Raises:
            OSError: the file does not exist, or access is denied.
            RemoteError: everything else that a client raises.
        """
        return DEFAULT_ATTEMPTS.run(self, what, lambda: getattr(self.fs, method)(*args, **options))

    def beside(self, location: str) -> RemoteFile:
        """Return a file below the folder of this one.

        Args:
            location: plain names with `/` between them, already checked.
        """
        from urllib.parse import quote

        from graphwire.wire.remote import is_http

        path, url = (each.partition("?")[0].rpartition("/")[0] for each in (self.path, self.url))
        # Only in the URLs of HTTP do escapes, `?` and `#` have a meaning.
        quoted = quote(location) if is_http(self.fs) else location
        return RemoteFile(
            self.fs, f"{path}/{quoted}" if path or self.path.startswith("/") else quoted, f"{url}/{location}"
        )

    def as_folder(self) -> RemoteFile:
        """Return the folder of this name: a file without a name in it."""
        return self._replace(path=f"{self.path.rstrip('/')}/", url=f"{self.url.rstrip('/')}/")

    def __str__(self) -> str:
        return self.url


def url_of(file: object) -> str | None:
    """Return the URL that a value names; None if it names something on this machine.

    Args:
        file: a URL as text; a path of universal_pathlib; or anything else.
    """
    if isinstance(file, str):
        text = file
    elif isinstance(file, os.PathLike):
        path = os.fspath(file)
        text = path if isinstance(path, str) else ""
    elif hasattr(file, "protocol") and hasattr(file, "storage_options"):
        text = str(file)
    else:
        return None
    return text if _begins_url(text) else None


def located(file: Any, options: Mapping[str, Any] | None = None) -> Any:
    """Return a `RemoteFile` if a value names a file at a URL, otherwise the value. Nothing is read.

    A URL `file://` becomes a path, so that the file is mapped as any other.

    Args:
        options: the options of the file system, as fsspec takes them; or a mapping of options for each protocol. A path of
            universal_pathlib brings its own.

    Raises:
        RemoteError: no installed file system knows the URL, or it refuses the options.
    """
    url = None if isinstance(file, RemoteFile) else url_of(file)
    if url is None:
        return file
    from graphwire.wire.remote import open_url

    return open_url(url, {**(options or {}), **(getattr(file, "storage_options", None) or {})})


Readable: TypeAlias = (
    "str | os.PathLike[str] | BinaryIO | bytes | bytearray | memoryview | UniversalPath | RemoteFile"
)
"""The types that an archive can be read from. A file object is read from where it stands, and stays there if it can seek; one at
its end, as after a save, is read from its start. Text is a path, or a URL if it begins with `scheme://`."""

CLOSED = "the archive is closed"
_READ_BYTES = 1 << 20
READ_WHOLE = 16 << 20
"""In bytes. A file up to this size is read, a larger one is mapped: where another program shortens a file, its mapped memory ends
the process (SIGBUS). Reading takes 0.3 ms a MiB."""


class Source(Protocol):
    """Bytes that can be read at any offset, by any thread."""

    size: int
    """The length in bytes."""
    is_remote: bool
    """Whether bytes come over a network, so that a checksum is compared whenever there is one."""

    @property
    def closed(self) -> bool:
        """Whether the source is closed."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range within `size`."""

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes of a range within `size`."""

    def map(self, offset: int, size: int) -> memoryview:
        """Return the range as private writable memory. Writing to it does not change the source."""

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        """Announce ranges that are going to be read, each as its start and end. Those of a remote source are fetched ahead.

        Args:
            together: whether ranges next to each other are fetched with one request, however large they are.
        """

    def close(self) -> None:
        """Close the source. Mapped memory stays valid."""


class _Descriptor:
    """A file's descriptor, closed when nobody refers to it any more.

    A read in progress refers to it: while it is used, its number cannot become that of another file.
    """

    __slots__ = ("name", "number")

    def __init__(self, file: io.FileIO) -> None:
        # A number of its own: the collector may finalize a file object in a cycle before this one, with a warning.
        with file:
            self.name = file.name
            self.number = os.dup(file.fileno())

    def __del__(self) -> None:
        os.close(self.number)


class FileSource:
    """A regular file with a descriptor of its own: closing the caller's file object or replacing the path has no effect here.

    Reads use the descriptor, not the mapping, so that a truncated file is an error and not a bus error.
    """

    is_remote = False

    def __init__(self, file: io.FileIO, size: int, start: int = 0) -> None:
        """
        Args:
            size: the length of the file in bytes.
            start: where the source begins in the file.
        """
        self._descriptor: _Descriptor | None = _Descriptor(file)
        self._memory: dict[None, memoryview] = {}
        """All bytes as private memory, under the key None, once it exists."""
        self.memory: memoryview | None = None
        """That memory, if the bytes were read and not mapped: what no view of `map` has, headers, may be read from it."""
        self._start = start
        self.size = size - start
        self.skew = start % ALIGNMENT if self.size > READ_WHOLE else 0
        """The address of the memory that `map` has of offset 0, modulo `ALIGNMENT`."""

    def read_at(self, offset: int, size: int) -> bytes:
        descriptor = self._open_descriptor()
        offset += self._start
        data = os.pread(descriptor.number, size, offset)
        if len(data) == size:
            return data
        parts = [data]
        while size > (count := len(parts[-1])):
            if not count:
                raise _became_shorter()
            offset += count
            size -= count
            parts.append(os.pread(descriptor.number, size, offset))
        return b"".join(parts)

    def read_into(self, offset: int, memory: memoryview) -> None:
        descriptor = self._open_descriptor()
        offset += self._start
        while memory.nbytes:
            count = os.preadv(descriptor.number, (memory,), offset)
            if not count:
                raise _became_shorter()
            memory = memory[count:]
            offset += count

    def map(self, offset: int, size: int) -> memoryview:
        memory = self._memory.get(None)
        if memory is None:  # as once it is closed
            memory = self._memory.setdefault(None, self._private(0, self.size))
            self.memory = memory if self.size <= READ_WHOLE else None
        return memory[offset : offset + size]

    def map_anew(self, offset: int, size: int) -> memoryview:
        """Return the range as private memory that no other view shares."""
        return self._private(offset, size)

    def _private(self, offset: int, size: int) -> memoryview:
        if self.size <= READ_WHOLE:
            memory = allocate(size)
            self.read_into(offset, memory)
            return memory
        start = self._start + offset
        mapping = _map_private(self._open_descriptor().number, self._start + self.size)
        return memoryview(mapping)[start : start + size]

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        """Do nothing: the system reads ahead."""

    def expect_scattered_reads(self) -> None:
        """Tell the system to read nothing ahead, where it can be told."""
        if hasattr(os, "posix_fadvise"):
            descriptor = self._open_descriptor()
            with errors.Ignored(OSError):
                os.posix_fadvise(descriptor.number, 0, 0, os.POSIX_FADV_RANDOM)

    @property
    def closed(self) -> bool:
        return self._descriptor is None

    def close(self) -> None:
        self._descriptor = None
        self.memory = None
        self._memory.clear()  # its views keep it alive

    def _open_descriptor(self) -> _Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise errors.ArchiveError(CLOSED)
        return descriptor


class BufferSource:
    """Bytes in memory. `map` copies, because the caller's buffer must not change."""

    is_remote = False

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view: memoryview | None = memoryview(buffer).cast("B")
        self.size = self._view.nbytes

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._open_view()[offset : offset + size])

    def read_into(self, offset: int, memory: memoryview) -> None:
        memory[:] = self._open_view()[offset : offset + memory.nbytes]

    def map(self, offset: int, size: int) -> memoryview:
        return copy_bytes(self._open_view()[offset : offset + size])

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        """Do nothing: all bytes are in memory."""

    @property
    def closed(self) -> bool:
        return self._view is None

    def close(self) -> None:
        self._view = None

    def _open_view(self) -> memoryview:
        if self._view is None:
            raise errors.ArchiveError(CLOSED)
        return self._view


class PartSource:
    """A range of another source. Closing it leaves the other source open."""

    def __init__(self, whole: Source, offset: int, size: int) -> None:
        self._whole = whole
        self._offset = offset
        self.size = size
        self.is_remote = whole.is_remote

    def read_at(self, offset: int, size: int) -> bytes:
        return self._whole.read_at(self._offset + offset, size)

    def read_into(self, offset: int, memory: memoryview) -> None:
        self._whole.read_into(self._offset + offset, memory)

    def map(self, offset: int, size: int) -> memoryview:
        return self._whole.map(self._offset + offset, size)

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        moved = ((self._offset + start, self._offset + end) for start, end in ranges)
        self._whole.expect(moved, together=together)

    @property
    def closed(self) -> bool:
        return self._whole.closed

    def close(self) -> None:
        """Do nothing: whoever opened the whole source closes it."""


def open_source(source: Readable, limits: Limits) -> Source:
    """Open `source`: a regular file is mapped, a remote one is read by ranges, anything else is read into memory.

    A URL is opened as what `located` makes of it.

    Raises:
        OSError: the path cannot be opened.
        ArchiveError: the path is a folder or a device, or the object does not return bytes.
        LimitError: a pipe returns more bytes than `limits` allow.
        RemoteError: a file at a URL cannot be read.
    """
    if isinstance(source, RemoteFile):
        from graphwire.wire.remote_files import open_remote

        return open_remote(source, limits.remote)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BufferSource(source)
    if isinstance(source, RegularPath):
        file = open_regular(os.fspath(source))
        return FileSource(file, os.fstat(file.fileno()).st_size)
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source), limits)
    if not hasattr(source, "read"):
        raise errors.ArchiveError(f"{type_text(source)} is not a path, a binary file or bytes").about("file")
    if isinstance(cast("object", source), io.TextIOBase):
        raise _gives_text()
    try:
        return _open_object(source, limits)
    except ValueError as error:  # a closed file, or one that is not readable
        raise errors.ArchiveError(
            f"the file object returns no bytes ({error})",
            remedy='Open the file with "rb", and close it afterwards',
        ) from error
    except Exception as error:
        errors.note_caller(error)
        raise


def _became_shorter() -> errors.ArchiveError:
    return errors.ArchiveError("the file became shorter while it was read")


def _gives_text() -> errors.ArchiveError:
    return errors.ArchiveError("the file object returns text", remedy='Open the file in binary mode, "rb"')


def file_name(file: object) -> str:
    """Return a name for a path, file object, stream or buffer, for messages; empty for any other object."""
    if isinstance(file, (bytes, bytearray, memoryview)):
        return "the bytes"
    if isinstance(file, RemoteFile):
        return file.url
    if (url := url_of(file)) is not None:
        from graphwire.wire.remote import shown_url

        return shown_url(url)
    if isinstance(file, (str, os.PathLike)):
        return os.fsdecode(file)
    name = getattr(file, "name", None)
    if isinstance(name, (str, os.PathLike)):
        return os.fsdecode(name)
    return "the stream" if hasattr(file, "read") or hasattr(file, "write") else ""


def type_text(value: object) -> str:
    """Return a description of a value's type, for messages; a class is named itself, since its instance was meant."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _open_object(source: Any, limits: Limits) -> Source:
    if isinstance(source, io.BytesIO):
        data = source.getvalue()
        return BufferSource(memoryview(data)[_start(source, len(data)) :])
    descriptor = _regular_descriptor(source)
    if descriptor is not None:
        size = os.fstat(descriptor).st_size
        return FileSource(file_of(os.dup, descriptor), size, _start(source, size))
    if not _can_seek(source):
        return BufferSource(_read_all(source, limits))
    start = source.tell()
    data = _read_all(source, limits)
    if not data and start:
        source.seek(0)
        data = _read_all(source, limits)
    source.seek(start)
    return BufferSource(data)


def _start(file: Any, size: int) -> int:
    """Return where a file object is read from: its position, or 0 at its end."""
    position: int = file.tell()
    return position if position < size else 0


def _open_path(path: str, limits: Limits) -> Source:
    file = _open_file(path)
    status = os.fstat(file.fileno())
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return FileSource(file, status.st_size)
    with file:
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise errors.NotAnArchiveError("this is a device, not an archive", place=path)
        return BufferSource(_read_all(file, limits))


def _open_file(path: str, opener: Callable[[str, int], int] | None = None) -> io.FileIO:
    try:
        return io.FileIO(path, opener=opener)
    except IsADirectoryError:
        problem = "this is a folder, not an archive"
        raise errors.NotAnArchiveError(problem, place=path, remedy="Name the file inside it") from None


class RegularPath(os.PathLike[str]):
    """A path that nobody chose by name, such as that of a file in a folder: `open_source` reads it if it is a regular file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def __fspath__(self) -> str:
        return self._path

    __str__ = __fspath__


def open_regular(path: str, *, descriptors: bool = False) -> io.FileIO:
    """Open a file to read. Nothing is waited for that may never be written, whatever takes the place of the file meanwhile.

    Args:
        descriptors: whether a pipe that is open already, as in `<(command)`, is opened, too.

    Raises:
        NotAnArchiveError: the path names a folder.
        OSError: it names a pipe, a socket or a device, or it cannot be opened.
    """
    file = _open_file(path, _open_at_once)
    mode = os.fstat(file.fileno()).st_mode
    is_open = descriptors and stat.S_ISFIFO(mode) and os.path.realpath(path).startswith(_DESCRIPTORS)
    if not (stat.S_ISREG(mode) or is_open):
        file.close()
        raise _not_regular(path)
    if is_open:
        os.set_blocking(file.fileno(), True)
    return file


def _open_at_once(path: str, flags: int) -> int:
    mode = os.stat(path).st_mode  # noqa: PTH116 the path is a text
    if stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # opening a device may do something
        raise _not_regular(path)
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _not_regular(path: str) -> OSError:
    problem = "this is a pipe, a socket or a device, and a regular file is needed here"
    return OSError(errno.EINVAL, problem, path)


def read_named(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file beside archives, such as a list, or of a pipe that is open already.

    Raises:
        ArchiveError: the path names a folder, or is a URL.
        OSError: as for `open_regular`.
    """
    name = os.fspath(path)
    if url := url_of(name):
        from graphwire.wire.remote import shown_url

        problem = "this is a URL, and what is read here is a file on this machine"
        raise errors.ArchiveError(problem, remedy="Fetch it first").of(shown_url(url))
    with open_regular(name, descriptors=True) as file:
        return file.readall()


_DESCRIPTORS = ("/proc/", "/dev/fd/")
"""Where a system shows what a process has open."""


def _regular_descriptor(source: Any) -> int | None:
    """Return the descriptor of a regular file if the file object reads that file's bytes unchanged, otherwise None."""
    file = getattr(source, "file", source)  # the file that a `tempfile` object wraps
    raw = getattr(file, "raw", file)
    if not (
        isinstance(file, (io.BufferedReader, io.BufferedRandom, io.FileIO)) and isinstance(raw, io.FileIO)
    ):
        return None  # the `fileno` of a decompressing or wrapping object can give different bytes than its `read`
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
    while (part := source.read(_READ_BYTES)) is None or part:
        if part is None:  # of a stream that does not wait
            raise errors.ArchiveError(
                "the file object has no bytes yet", remedy="Read it when they are there"
            )
        if not isinstance(part, bytes):
            raise _gives_text()
        parts.append(part)
        size += len(part)
        if size > limits.unmapped_bytes:
            raise errors.LimitError(f"the stream returns more than {limits.unmapped_bytes:,} bytes")
    return b"".join(parts)


class _Mapping(mmap.mmap):
    """A memory mapping of a file."""

    file: tuple[int, int]
    """The file's device and inode."""


_mappings: weakref.WeakValueDictionary[object, _Mapping] = weakref.WeakValueDictionary()
"""Every live mapping. Mappings belong to the whole process, so this table does too."""


def is_mapped(stream: Any) -> bool:
    """Return whether a file object writes to a file that is still mapped into memory."""
    try:
        status = os.fstat(stream.fileno())
    except errors.unless_interrupted(
        AttributeError, OSError, TypeError, ValueError
    ):  # not a file of the operating system
        return False
    file = status.st_dev, status.st_ino
    # Garbage may have kept the mapping.
    return _has_mapping(file) and gc.collect() >= 0 and _has_mapping(file)


def _has_mapping(file: tuple[int, int]) -> bool:
    mappings = (reference() for reference in _mappings.valuerefs())
    return any(each is not None and each.file == file for each in mappings)


def _map_private(descriptor: int, size: int) -> _Mapping:
    """Map a file as copy-on-write memory. No memory is reserved in advance, so a file may be larger than memory."""
    status = os.fstat(descriptor)
    if status.st_size < size:
        raise errors.ArchiveError("the file became shorter after it was opened")
    if hasattr(mmap, "MAP_PRIVATE"):
        no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000 if os.uname().sysname == "Linux" else 0)
        flags, access = mmap.MAP_PRIVATE | no_reserve, mmap.PROT_READ | mmap.PROT_WRITE
        try:
            mapping = _Mapping(descriptor, size, flags=flags, prot=access)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"not enough memory to map {size:,} bytes") from error
            raise
    else:
        mapping = _Mapping(descriptor, size, access=mmap.ACCESS_COPY)
    mapping.file = status.st_dev, status.st_ino
    _mappings[object()] = mapping
    return mapping
