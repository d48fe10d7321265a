"""Replacing a file in one step: whoever reads the path finds the old bytes or the new ones, never a part."""

from __future__ import annotations

import ctypes
import errno
import functools
import io
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from graphwire.errors import ArchiveError, note_caller
from graphwire.process import Descriptor, InterruptSafe
from graphwire.wire.archive.source import file_name

_MAX_PIECES = 1024
"""Linux, macOS and the BSDs let a file take so many pieces in one call."""
_WRITE_OUT_BYTES = 1 << 21
"""As many bytes of a file go to the disk together, ahead of its sync."""


class Replacement(io.FileIO):
    """A new file, which will be synced. As the pieces that it gets come to a few MiB, the system is asked to write those to the
    disk: else the disk would rest until the sync, which then waits for all of it."""

    _begun = 0
    """Up to where that was asked."""

    def write_many(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write all of the pieces, one behind the other.

        Raises:
            OSError: they cannot be written, or those before cannot be on the disk, which no sync need tell again.
        """
        write_pieces(self, pieces)
        ahead = self.tell() - self._begun
        if _sync_file_range is not None and ahead >= _WRITE_OUT_BYTES:
            if _sync_file_range(self.fileno(), self._begun, ahead, _SYNC_FILE_RANGE_WRITE):
                failed = ctypes.get_errno()
                if failed not in _UNSUPPORTED_ERRORS:
                    raise OSError(failed, os.strerror(failed))
            self._begun += ahead


class PieceBuffer(io.RawIOBase):
    """A stream that keeps what is written as it is given, to be copied once: payloads are lent until then."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes | memoryview] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.pieces.append(data)
        return len(data)

    def write_many(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Keep all of the pieces, one behind the other."""
        self.pieces.extend(pieces)


class _AtomicWrite(InterruptSafe):
    """See `atomic_write`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._target = Path(os.path.realpath(path))
        self._temporary = self._target.parent / f".graphwire-{os.urandom(8).hex()}.part"
        self._file: BinaryIO | None = None
        self._replaces = True
        """Whether the path is a file that gives way to a new one, and no device or pipe."""
        self._ended = False

    def begin(self) -> None:
        if self._file is not None:
            return
        target, mode = self._target, _mode_of(self._target)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file inside it", str(target))
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
        if mode is not None and not stat.S_ISREG(mode):
            self._replaces = False
            self._file = target.open("wb")
        elif mode is None:
            self._file = cast("BinaryIO", Replacement(self._temporary, "x+b"))
        else:  # which nobody else may read before it has the old one's permissions
            opener = functools.partial(os.open, mode=0o600)
            self._file = cast("BinaryIO", Replacement(self._temporary, "x+b", opener=opener))
            self._temporary.chmod(stat.S_IMODE(mode))

    def value(self) -> BinaryIO | None:
        return self._file

    def end(self, error: BaseException | None) -> None:
        if self._ended:
            return
        file, keeps = self._file, self._replaces and error is None
        try:
            if file is not None:
                if keeps:
                    sync(file)
                file.close()
            if keeps:
                self._temporary.replace(self._target)
        finally:
            if error is not None:
                self._name_file(error)
                if self._replaces:
                    with suppress(OSError):
                        self._temporary.unlink()
        if keeps:
            _sync_folder(self._target.parent)
        self._ended = True

    def _name_file(self, error: BaseException) -> None:
        """Have an error say what could not be written, as on a full disk."""
        named = getattr(error, "filename", None) not in (None, str(self._temporary))
        if isinstance(error, OSError) and error.errno is not None and not named:
            error.filename = str(self._target)


def atomic_write(path: str | os.PathLike[str]) -> _AtomicWrite:
    """A context manager that gives a raw binary file to write (see `write_all`), which takes the place of `path` when the block
    ends, and vanishes when it raises. To be named twice, as every `InterruptSafe`.

    The bytes are on the disk before the name is: the file is synced, then renamed, then its folder is synced. A symbolic
    link stays one, its target is replaced. An existing file's permissions are kept (its owner and its hard links are not);
    a new file gets those of `open`. After a kill, a file `.graphwire-….part` can stay in the folder; the old file is whole.
    What is no regular file (a device, a pipe) is written to, not replaced.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    return _AtomicWrite(path)


def write_pieces(file: io.FileIO, pieces: Sequence[bytes | memoryview]) -> None:
    """Write pieces to a raw file, one behind the other, in as few calls as can be.

    Raises:
        ArchiveError: as `write_all`.
    """
    if not hasattr(os, "writev"):
        for piece in pieces:
            write_all(file, piece)
        return
    done = 0
    while done < len(pieces):
        some = pieces[done : done + _MAX_PIECES]
        try:
            taken = os.writev(file.fileno(), some)
        except BlockingIOError:  # which `write_all` tells with what to do
            taken = 0
        for piece in some:
            if taken < len(piece):
                write_all(file, memoryview(piece)[taken:])
                done += 1
                break
            taken -= len(piece)
            done += 1


def write_all(stream: BinaryIO | io.FileIO, data: bytes | memoryview) -> None:
    """Write all of `data`, also where the stream is raw and takes only part of it.

    Raises:
        ArchiveError: the stream takes nothing now, as it does not wait.
    """
    size = len(data)
    while True:
        try:
            taken: int | None = stream.write(data)
        except Exception as error:
            note_caller(error)
            raise
        if taken is None and isinstance(stream, io.RawIOBase):
            raise ArchiveError("the file object takes no bytes now", remedy="Open it so that it waits").of(
                file_name(stream)
            )
        if taken is None or not 0 <= taken < size:  # None is what many file-like objects return that take all
            return
        data = data[taken:]
        size -= taken


def sync(file: BinaryIO) -> None:
    """Have what is written to a file so far on the disk."""
    file.flush()
    os.fsync(file.fileno())


def _mode_of(target: Path) -> int | None:
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, where a folder can be synced at all (not on Windows, not on some network disks)."""
    with suppress(OSError):
        opened = Descriptor(folder, os.O_RDONLY)
        with opened as descriptor, opened:
            os.fsync(descriptor)


def _load_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux's call that begins to write a part of a file to the disk: of which file, from where, how much, how."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


_sync_file_range = _load_sync_file_range()
_SYNC_FILE_RANGE_WRITE = 2
"""Begin with what is not on its way yet, and do not wait for it."""
_UNSUPPORTED_ERRORS = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ESPIPE)
"""The errors that say that the call cannot be had for a file, and nothing of the file."""
