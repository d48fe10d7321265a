"""Replacing a file in one step: whoever reads the path finds the old bytes or the new ones, never a part."""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from graphwire.errors import ArchiveError

__all__ = ["replacing", "sync", "write_all"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A raw binary file to write (see `write_all`), which takes the place of `path` when the block ends, and vanishes when it
    raises.

    The bytes are on the disk before the name is: the file is synced, then renamed, then its folder is synced. A symbolic
    link stays one, its target is replaced. An existing file's permissions are kept (its owner and its hard links are not);
    a new file gets those of `open`. After a kill, a file `.graphwire-….part` can stay in the folder; the old file is whole.
    What is no regular file (a device, a pipe) is written to, not replaced.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file inside it", str(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as special:
            yield special
        return
    descriptor, name = tempfile.mkstemp(prefix=".graphwire-", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with io.FileIO(descriptor, "w+b") as file:
            temporary.chmod(0o666 & ~_umask(target.parent) if mode is None else stat.S_IMODE(mode))
            yield cast("BinaryIO", file)
            sync(file)
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(target)  # of a full disk: what could not be written
        raise
    _sync_folder(target.parent)


def write_all(stream: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of `data`, also where the stream is raw and takes only part of it.

    Raises:
        ArchiveError: the stream takes nothing now, as it does not wait.
    """
    size = len(data)
    while True:
        taken: int | None = stream.write(data)
        if taken is None and isinstance(stream, io.RawIOBase):
            raise ArchiveError("the file object takes no bytes now", remedy="Open it so that it waits")
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


def _umask(folder: Path) -> int:
    """The process's umask, found without setting it, since it belongs to all threads.

    Linux tells it; elsewhere the permissions of a file made for the purpose show it.
    """
    with suppress(OSError), Path("/proc/self/status").open("rb") as status:
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    probe = folder / f".graphwire-{os.urandom(8).hex()}.part"
    descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return 0o666 & ~os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
        probe.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, where a folder can be synced at all (not on Windows, not on some network disks)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
