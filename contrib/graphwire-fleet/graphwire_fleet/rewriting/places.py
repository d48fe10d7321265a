"""Where a rewritten file goes: a path or a URL. A place has the whole old file, or the whole new one."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from graphwire.errors import ArchiveError
from graphwire.wire.remote import RemoteFile, located
from graphwire.wire.remote_files import RemoteWrite
from graphwire.wire.weights.folder import Folder

__all__ = ["Facts", "LocalPlace", "Place", "RemotePlace", "beside", "digest_of", "place_at"]

_PIECE = 1 << 20
_LOCK_SECONDS, _LOCK_WAIT = 10.0, 0.05


class Facts(NamedTuple):
    """What identifies the content of a file."""

    sha256: str
    nbytes: int


class Place(Protocol):
    """The file that is replaced, or is new."""

    name: str
    """Its path or URL."""

    def facts(self) -> Facts | None:
        """Return the digest and the size of what is there now; None if there is no file. Reads all of it."""
        ...

    def stamp(self) -> Any:
        """Return what changes whenever the file does; None if there is no file."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Return a context in which no other run of graphwire replaces the file, where the system has locks.

        Raises:
            ArchiveError: another one replaces it.
        """
        ...

    def keep(self, kept: Path) -> bool:
        """Keep what is there now in a file of the journal, and return whether there is a file."""
        ...

    def workplace(self, identity: str, journal: Path) -> Path:
        """Return a folder for what becomes the file: on the same disk, if the place is on this machine.

        Args:
            identity: a name that no other place of the journal has.
            journal: the folder of the journal.
        """
        ...

    def put(self, part: Path) -> None:
        """Replace what is there by a file, in one step."""
        ...

    def clear(self, workplace: Path) -> None:
        """Remove that folder and what is beside it, if they are there."""
        ...

    def restore(self, kept: Path, workplace: Path) -> None:
        """Put the bytes of a file back, in one step. The file stays where it is, too.

        Args:
            kept: the file.
            workplace: the folder of this place, which need not be there.
        """
        ...

    def remove(self) -> None:
        """Remove the file."""
        ...


def place_at(name: str, storage_options: Mapping[str, Any] | None = None, root: str | None = None) -> Place:
    """Return the place of a path or URL.

    Args:
        root: the folder or URL below which it is. On this machine no link below it is followed.
    """
    found = located(name, storage_options)
    if isinstance(found, RemoteFile):
        return RemotePlace(found)
    return LocalPlace(Path(found), None if root is None else Path(root or "/"))


def beside(workplace: Path) -> Path:
    """Return a name beside a folder from `Place.workplace`, for a file that cannot be written inside it."""
    return workplace.with_name(f"{workplace.name}.part")


def digest_of(path: Path) -> Facts:
    """Return the digest and the size of a file on this machine."""
    with path.open("rb") as stream:
        return _facts(stream)


def _facts(stream: Any) -> Facts:
    digest, count = hashlib.sha256(), 0
    while piece := stream.read(_PIECE):
        digest.update(piece)
        count += len(piece)
    return Facts(digest.hexdigest(), count)


class LocalPlace:
    """A file on this machine. The new file is written beside it, and renamed.

    Whatever is done to the file is done relative to the descriptor of its folder, so that nobody can put a link on the way to it
    after it was looked at.

    Args:
        path: the file.
        root: a folder around it, below which no link is followed; by default, that of the file.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.name = str(path)
        self._path = path
        self._folder = Folder(path.parent if root is None else root)
        self._names = [path.name] if root is None else list(path.relative_to(root).parts)

    def _act(self, call: Callable[..., Any]) -> Any:
        try:
            return self._folder.act(self._names, call)
        except ArchiveError as error:
            raise ArchiveError(error.problem, remedy="Remove the link, or write to another folder") from error

    def _open(self) -> BinaryIO:
        return os.fdopen(self._act(partial(os.open, flags=_READ)), "rb")

    def facts(self) -> Facts | None:
        """Return the digest and the size."""
        if self._found() is None:
            return None
        with self._open() as stream:
            return _facts(stream)

    def stamp(self) -> Any:
        """Return the identity, the time and the size of the file."""
        found = self._found()
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    def _found(self) -> os.stat_result | None:
        """Return what the system tells of the file; None if there is none.

        Raises:
            ArchiveError: there is something else, such as a link, which a file would replace.
        """
        try:
            found: os.stat_result = self._act(partial(os.stat, follow_symlinks=False))
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            remedy = "Remove it, or write to another folder"
            raise ArchiveError(f"there is no regular file, but a {_kind(found)}: {self.name}", remedy=remedy)
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file that is there, which the system releases when the process ends. A new file has no lock."""
        stream = self._lock()
        try:
            yield
        finally:
            if stream is not None:
                stream.close()

    def _lock(self) -> BinaryIO | None:
        try:
            import fcntl
        except ImportError:  # Windows
            return None
        until = time.monotonic() + _LOCK_SECONDS  # A file with two hard links may be read under both names.
        while self._found() is not None:
            try:
                stream = self._open()
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.close()
                if time.monotonic() > until:
                    remedy = "Repeat the action when that run has ended"
                    raise ArchiveError("another run replaces this file now", remedy=remedy) from None
                time.sleep(_LOCK_WAIT)
                continue
            except OSError:  # a file system without locks
                return stream
            found = self._found()
            if found is not None and os.path.samestat(found, os.fstat(stream.fileno())):
                return stream
            stream.close()  # Another run replaced the file since it was opened.
        return None

    def keep(self, kept: Path) -> bool:
        """Link the file into the journal; copy it if the journal is on another disk.

        A link costs nothing: the file is replaced and not changed, so the bytes stay what they are.
        """
        if self._found() is None:
            return False
        try:
            self._act(lambda name, dir_fd=None: os.link(name, kept, src_dir_fd=dir_fd, follow_symlinks=False))
        except FileNotFoundError:
            return False
        except OSError:
            with self._open() as source, kept.open("xb") as target:
                _copy(source, target)
        return True

    def workplace(self, identity: str, journal: Path) -> Path:
        """Return a hidden folder beside the file."""
        return self._path.with_name(f".graphwire-fleet-{identity}")

    def put(self, part: Path) -> None:
        """Rename the new file, with the permissions of the old one."""
        found = self._found()
        if found is not None:
            with suppress(OSError, AttributeError):  # Only an administrator may; Windows has none.
                os.chown(part, found.st_uid, found.st_gid)
            part.chmod(stat.S_IMODE(found.st_mode))
        self._act(lambda name, dir_fd=None: os.replace(part, name, dst_dir_fd=dir_fd))
        self._act(_sync_folder)

    def clear(self, workplace: Path) -> None:
        """Remove that folder and the file beside it."""

        def remove(name: str | Path, dir_fd: int | None = None) -> None:
            shutil.rmtree(_sibling(name, workplace.name), ignore_errors=True, dir_fd=dir_fd)
            with suppress(FileNotFoundError):
                os.unlink(_sibling(name, beside(workplace).name), dir_fd=dir_fd)

        with suppress(FileNotFoundError):
            self._act(remove)

    def restore(self, kept: Path, workplace: Path) -> None:
        """Link or copy the old file beside the place, and rename that."""

        def put(name: str | Path, dir_fd: int | None = None) -> None:
            part = _sibling(name, beside(workplace).name)
            try:
                os.link(kept, part, dst_dir_fd=dir_fd, follow_symlinks=False)
            except OSError:
                number = os.open(part, _NEW, dir_fd=dir_fd)
                with os.fdopen(number, "wb") as target, kept.open("rb") as source:
                    _copy(source, target)
            os.replace(part, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

        self._act(put)
        self._act(_sync_folder)

    def remove(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._act(os.unlink)
        self._act(_sync_folder)


_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _sibling(name: str | Path, other: str) -> str | Path:
    """Return the name of another file beside one, as `Folder.act` names it."""
    return other if isinstance(name, str) else name.with_name(other)


_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "device")


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy a file with its permissions and times, and make it durable."""
    shutil.copyfileobj(source, target, _PIECE)
    target.flush()
    found = os.fstat(source.fileno())
    if os.name == "posix":
        os.fchmod(target.fileno(), stat.S_IMODE(found.st_mode))
        os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
    os.fsync(target.fileno())


def _sync_folder(name: str | Path, dir_fd: int | None = None) -> None:
    """Make the names in the folder of a file durable, where the system can."""
    if os.name != "posix":
        return
    number = os.open("." if isinstance(name, str) else name.parent, os.O_RDONLY, dir_fd=dir_fd)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class RemotePlace:
    """A file at a URL. The new file is written on this machine and uploaded; stores have it when the upload ends."""

    def __init__(self, place: RemoteFile) -> None:
        self.name = place.url
        self._place = place

    def facts(self) -> Facts | None:
        """Return the digest and the size: the file is downloaded."""
        self._place.fs.invalidate_cache(self._place.path)
        try:
            with self._place.ask("open the file", "open", self._place.path, "rb") as stream:
                return _facts(stream)
        except FileNotFoundError:
            return None

    def stamp(self) -> Any:
        """Return what the store tells of the file."""
        self._place.fs.invalidate_cache(self._place.path)
        try:
            return self._place.ask("look at the file", "ukey", self._place.path)
        except FileNotFoundError:
            return None

    def locked(self) -> AbstractContextManager[None]:
        """Do nothing: stores have no locks."""
        return nullcontext()

    def keep(self, kept: Path) -> bool:
        """Download the file into the journal."""
        try:
            self._place.ask("download the file", "get_file", self._place.path, str(kept))
        except FileNotFoundError:
            kept.unlink(missing_ok=True)
            return False
        with kept.open("rb+") as stream:
            os.fsync(stream.fileno())
        return True

    def workplace(self, identity: str, journal: Path) -> Path:
        """Return a folder in the journal."""
        return journal / "parts" / identity

    def clear(self, workplace: Path) -> None:
        """Remove that folder."""
        shutil.rmtree(workplace, ignore_errors=True)

    def put(self, part: Path) -> None:
        """Upload a file."""
        with part.open("rb") as source, RemoteWrite(self._place) as stream:
            shutil.copyfileobj(source, stream, _PIECE)

    def restore(self, kept: Path, workplace: Path) -> None:
        """Upload the old file."""
        with kept.open("rb") as source, RemoteWrite(self._place) as stream:
            shutil.copyfileobj(source, stream, _PIECE)

    def remove(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._place.ask("remove the file", "rm_file", self._place.path)
