"""Replaces a file atomically: a reader of the path finds either the old bytes or the new ones, never a part of them."""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graphwire.errors import ArchiveError, Ignored, note_caller
from graphwire.process import Resource
from graphwire.wire.archive.source import RemoteFile, file_name

if TYPE_CHECKING:
    from graphwire.wire.remote_files import RemoteWrite

_MAX_CHUNKS = 1024
"""The number of buffers that one `writev` accepts on Linux, macOS and the BSDs."""
_WRITE_OUT_BYTES = 1 << 21
"""In bytes. After each such amount the system is asked to start writing to the disk, before the file is synced."""


class Replacement(io.FileIO):
    """A new file that is synced later. Every few MiB it asks the system to start writing to the disk, so that the disk does
    not idle until the sync, which would then wait for all bytes."""

    _begun = 0
    """The offset up to which the system was asked to write."""

    def write_many(self, chunks: Sequence[bytes | memoryview]) -> None:
        """Write several chunks in order.

        Raises:
            OSError: they cannot be written, or earlier ones failed to reach the disk, which a later sync may not report.
        """
        write_chunks(self, chunks)
        self.write_out()

    def write_out(self) -> None:
        """Ask the system to start writing to the disk, if there is enough to write.

        Raises:
            OSError: earlier bytes failed to reach the disk.
        """
        ahead = self.tell() - self._begun
        if _sync_file_range is not None and ahead >= _WRITE_OUT_BYTES:
            if _sync_file_range(self.fileno(), self._begun, ahead, _SYNC_FILE_RANGE_WRITE):
                import ctypes

                failed = ctypes.get_errno()
                if failed not in _UNSUPPORTED_ERRORS:
                    raise OSError(failed, os.strerror(failed))
            self._begun += ahead


class ChunkBuffer(io.RawIOBase):
    """A stream that keeps references to the written chunks, so that they are copied only once, when they are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(data)
        return len(data)

    def write_many(self, chunks: Sequence[bytes | memoryview]) -> None:
        """Keep several chunks in order."""
        self.parts.extend(chunks)


class _AtomicWrite(Resource):
    """The context manager that `atomic_write` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fspath(path)
        self._given = given.rstrip(f"/{os.sep}") or given or os.curdir
        # The working folder may change meanwhile. The system follows links to folders at each call.
        target = self._given
        if not os.path.isabs(target):
            target = os.path.join(os.getcwd(), target)
        self._target = os.path.realpath(target) if os.path.islink(target) else target
        self._folder = os.path.dirname(self._target)
        self._temporary = os.path.join(self._folder, f".graphwire-{os.urandom(8).hex()}.part")
        self._file: BinaryIO | None = None
        self._replaces = True
        """Whether a new file replaces the path. False for a device or a pipe, which is written in place."""

    def begin(self) -> None:
        mode = _mode_of(self._given)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file inside it", self._target)
        if mode is None and not os.path.isdir(self._folder):
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", self._folder)
        try:
            self._open(mode)
        except OSError as error:
            self._name_file(error)
            raise

    def _open(self, mode: int | None) -> None:
        if mode is not None and not stat.S_ISREG(mode):
            self._replaces = False
            # The target of /dev/stdout may have no path. What took its place meanwhile is not emptied.
            self._file = os.fdopen(os.open(self._given, os.O_WRONLY | getattr(os, "O_BINARY", 0)), "wb")
        elif mode is None:
            self._file = cast("BinaryIO", Replacement(self._temporary, "x+b"))
        else:  # nobody else may read the new file before it has the permissions of the old one
            opener = functools.partial(os.open, mode=0o600)
            self._file = cast("BinaryIO", Replacement(self._temporary, "x+b", opener=opener))
            by_number = os.chmod in os.supports_fd
            os.chmod(self._file.fileno() if by_number else self._temporary, stat.S_IMODE(mode))

    def value(self) -> BinaryIO | None:
        return self._file

    def end(self, error: BaseException | None) -> None:
        if self._file is None:
            return
        try:
            with self._file as file:
                if self._replaces and error is None:
                    sync(file)
            if self._replaces and error is None:
                os.replace(self._temporary, self._target)
        except BaseException as another:
            self._discard(another)
            raise
        if error is not None:
            self._discard(error)
        elif self._replaces:
            _sync_folder(self._folder)

    def _discard(self, error: BaseException) -> None:
        """Leave nothing of the new file."""
        self._name_file(error)
        if self._replaces:
            with Ignored(OSError):
                os.unlink(self._temporary)

    def settle(self) -> None:
        """Wait until what was written is on the disk."""
        if self._file is not None:
            sync(self._file)

    def _name_file(self, error: BaseException) -> None:
        """Set the target path as an error's file name, because the system's own error (as on a full disk) has none."""
        named = getattr(error, "filename", None) not in (None, self._temporary)
        if isinstance(error, OSError) and error.errno is not None and not named:
            error.filename = self._target


def atomic_write(path: str | os.PathLike[str] | RemoteFile) -> _AtomicWrite | RemoteWrite:
    """Write a file that replaces `path` when the `with` block ends, and is deleted if the block raises.

    A file at a URL is written by `RemoteWrite`; the rest is about local ones.

    The context manager gives a raw binary file (see `write_all`).

    The bytes reach the disk before the name changes: the file is synced, then renamed, then its folder is synced. If `path` is
    a symbolic link, its target is replaced. An existing file keeps its permissions, but not its owner and its hard links; a new
    file gets the permissions that `open` gives. A killed process can leave a file `.graphwire-….part` in the folder; the old
    file is then intact. A device or a pipe is written to, not replaced.

    Raises:
        OSError: the folder is not writable, or the disk is full.
    """
    if isinstance(path, RemoteFile):
        from graphwire.wire.remote_files import RemoteWrite

        return RemoteWrite(path)
    return _AtomicWrite(path)


def write_chunks(file: io.FileIO, chunks: Sequence[bytes | memoryview]) -> None:
    """Write chunks to a raw file in order, with as few system calls as possible.

    Raises:
        ArchiveError: as for `write_all`.
    """
    if not hasattr(os, "writev"):
        for chunk in chunks:
            write_all(file, chunk)
        return
    done = 0
    while done < len(chunks):
        some = chunks[done : done + _MAX_CHUNKS]
        try:
            taken = os.writev(file.fileno(), some)
        except BlockingIOError:  # `write_all` reports it with a remedy
            taken = 0
        if taken == sum(map(len, some)):  # as nearly always
            done += len(some)
            continue
        for chunk in some:
            done += 1
            if taken < len(chunk):
                write_all(file, memoryview(chunk)[taken:])
                break
            taken -= len(chunk)


def write_all(stream: BinaryIO | io.FileIO, data: bytes | memoryview) -> None:
    """Write all of `data`, even if the stream is raw and accepts only a part for each call.

    Raises:
        ArchiveError: the stream is non-blocking and accepts no bytes now.
    """
    size = len(data)
    while True:
        try:
            taken: int | None = stream.write(data)
        except Exception as error:
            note_caller(error)
            raise
        if taken is None and isinstance(stream, io.RawIOBase):
            raise ArchiveError("the file object accepts no bytes now", remedy="Open it so that it waits").of(
                file_name(stream)
            )
        # Many file-like objects return None after writing everything.
        if taken is None or not 0 <= taken < size:
            return
        data = data[taken:]
        size -= taken


def sync(file: BinaryIO) -> None:
    """Flush a file and wait until its bytes are on the disk."""
    file.flush()
    os.fsync(file.fileno())


def _mode_of(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _sync_folder(folder: str) -> None:
    """Make the rename durable, if the system can sync a folder (Windows and some network disks cannot)."""
    with Ignored(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _load_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's `sync_file_range(descriptor, offset, nbytes, flags)`, which starts writing a range to the disk."""
    if sys.platform != "linux":
        return None
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


def rename_new(source: str, target: str, folder: int | None) -> bool:
    """Rename a file unless there is one of the new name, in one step. Return whether the system can do that.

    Args:
        source: the file; relative to `folder`, unless that is None.
        target: its new name, likewise.
        folder: the descriptor of the folder.

    Raises:
        FileExistsError: there is a file of the new name.
    """
    if os.name == "nt":
        Path(source).rename(target)
        return True
    at = _AT_FDCWD if folder is None else folder
    if _renameat2 is None:
        return False
    if _renameat2(at, os.fsencode(source), at, os.fsencode(target), _RENAME_NOREPLACE) == 0:
        return True
    import ctypes

    if ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, "there is such a file already", target)
    return False


def _load_renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Return Linux's `renameat2(folder, name, folder, name, flags)`."""
    if sys.platform != "linux":
        return None
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call


_renameat2 = _load_renameat2()
_AT_FDCWD = -100
"""Relative to the current folder."""
_RENAME_NOREPLACE = 1

_sync_file_range = _load_sync_file_range()
_SYNC_FILE_RANGE_WRITE = 2
"""Start writing the dirty pages that are not being written yet, and do not wait."""
_UNSUPPORTED_ERRORS = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ESPIPE)
"""The errors that mean that the call is not supported for a file. They do not concern its bytes."""
