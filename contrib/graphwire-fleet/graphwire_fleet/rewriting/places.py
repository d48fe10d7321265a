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
from graphwire.wire.archive.source import RemoteFile, located
from graphwire.wire.limits import DEFAULT_ATTEMPTS
from graphwire.wire.remote_files import RemoteWrite
from graphwire.wire.weights.folder import Folder

_CHUNK = 1 << 20
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

    def keep(self, kept: LocalFile) -> bool:
        """Keep what is there now in a file of the journal, and return whether there is a file."""
        ...

    def workplace(self, identity: str, journal: Path) -> LocalFile:
        """Return the folder for what becomes the file: on the same disk, if the place is on this machine.

        Args:
            identity: a name that no other place of the journal has.
            journal: the folder of the journal.
        """
        ...

    def put(self, part: LocalFile) -> None:
        """Replace what is there by a file, in one step."""
        ...

    def restore(self, kept: LocalFile, part: LocalFile) -> None:
        """Put the bytes of a file back, in one step. The file stays where it is, too.

        Args:
            kept: the file.
            part: a name on the same disk that nothing has, for its copy.
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


def _facts(stream: Any) -> Facts:
    digest, count = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        count += len(chunk)
    return Facts(digest.hexdigest(), count)


class LocalFile:
    """A file on this machine.

    Whatever is done to the file is done relative to the descriptor of its folder, so that nobody can put a link on the way to it
    after it was looked at.

    Args:
        path: the file.
        root: a folder around it, below which no link is followed; by default, that of the file.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.name = str(path)
        self.path = path
        self._root = path.parent if root is None else root
        self._folder = Folder(self._root, remedy="Remove the link, or write to another folder")
        self._names = path.relative_to(self._root).parts

    def beside(self, name: str) -> LocalFile:
        """Return a file in the same folder."""
        return LocalFile(self.path.with_name(name), self._root)

    def below(self, name: str) -> LocalFile:
        """Return a file in the folder that has this name."""
        return LocalFile(self.path / name, self._root)

    @property
    def part(self) -> LocalFile:
        """A name beside a folder, for a file that cannot be written inside it."""
        return self.beside(f"{self.path.name}.part")

    def make(self) -> None:
        """Make it a folder, unless it is one."""
        self._folder.make(self._names)

    def act(self, call: Callable[..., Any]) -> Any:
        """Call a function of the system for the file (see `Folder.act`)."""
        return self._folder.act(self._names, call)

    def open(self) -> BinaryIO:
        """Open the file to read it. A pipe is not waited for."""
        return os.fdopen(self.act(partial(os.open, flags=_READ)), "rb")

    def create(self) -> BinaryIO:
        """Open a file that is new to write it; its folder is made."""
        self._folder.make(self._names[:-1])
        return os.fdopen(self.act(partial(os.open, flags=_NEW)), "wb")

    def link(self, other: LocalFile) -> None:
        """Give the file another name, too; the folder of that is made."""
        other._folder.make(other._names[:-1])
        self._with(other, partial(os.link, follow_symlinks=False))

    def replace(self, other: LocalFile) -> None:
        """Give the file the name of another one, which it replaces, for good."""
        self._with(other, os.replace)
        other.act(_sync_folder)

    def _with(self, other: LocalFile, call: Callable[..., Any]) -> None:
        def from_folder(name: str | Path, dir_fd: int | None = None) -> None:
            def to_folder(to: str | Path, **folder: int) -> None:
                call(name, to, src_dir_fd=dir_fd, dst_dir_fd=folder.get("dir_fd"))

            other.act(to_folder)

        self.act(from_folder)

    def remove(self) -> None:
        """Remove the file, if it is there."""
        with suppress(FileNotFoundError):
            self.act(os.unlink)
            self.act(_sync_folder)

    def clear(self) -> None:
        """Remove the folder of this name, and the file beside it."""
        with suppress(FileNotFoundError):
            self.act(partial(shutil.rmtree, ignore_errors=True))
            self.part.remove()

    def facts(self) -> Facts | None:
        """Return the digest and the size."""
        if self.found() is None:
            return None
        with self.open() as stream:
            return _facts(stream)

    def stamp(self) -> Any:
        """Return the identity, the time and the size of the file."""
        found = self.found()
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    def found(self) -> os.stat_result | None:
        """Return what the system tells of the file; None if there is none.

        Raises:
            ArchiveError: there is something else, such as a link, which a file would replace.
        """
        try:
            found: os.stat_result = self.act(partial(os.stat, follow_symlinks=False))
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            remedy = "Remove it, or write to another folder"
            raise ArchiveError(f"there is no regular file, but a {_kind(found)}: {self.name}", remedy=remedy)
        return found


class LocalPlace(LocalFile):
    """A file on this machine that is replaced. The new file is written beside it, and renamed."""

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
        while self.found() is not None:
            try:
                stream = self.open()
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
            found = self.found()
            if found is not None and os.path.samestat(found, os.fstat(stream.fileno())):
                return stream
            stream.close()  # Another run replaced the file since it was opened.
        return None

    def keep(self, kept: LocalFile) -> bool:
        """Link the file into the journal; copy it if the journal is on another disk.

        A link costs nothing: the file is replaced and not changed, so the bytes stay what they are.
        """
        if self.found() is None:
            return False
        try:
            self.link(kept)
        except FileNotFoundError:
            return False
        except OSError:
            with self.open() as source, kept.create() as target:
                _copy(source, target)
        return True

    def workplace(self, identity: str, journal: Path) -> LocalFile:
        """Return a hidden folder beside the file."""
        return self.beside(f".graphwire-fleet-{identity}")

    def put(self, part: LocalFile) -> None:
        """Rename the new file, with the permissions of the old one."""
        found = self.found()
        if found is not None and os.name == "posix":
            with part.open() as stream:
                with suppress(OSError):  # Only an administrator may.
                    os.fchown(stream.fileno(), found.st_uid, found.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(found.st_mode))
        part.replace(self)

    def restore(self, kept: LocalFile, part: LocalFile) -> None:
        """Link or copy the old file beside the place, and rename that."""
        try:
            kept.link(part)
        except OSError:
            with part.create() as target, kept.open() as source:
                _copy(source, target)
        part.replace(self)


_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "device")


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy a file with its permissions and times, and make it durable."""
    shutil.copyfileobj(source, target, _CHUNK)
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

    def keep(self, kept: LocalFile) -> bool:
        """Download the file into the journal."""
        try:
            with kept.create() as target:
                DEFAULT_ATTEMPTS.run(self._place, "download the file", partial(self._download, target))
                os.fsync(target.fileno())
        except FileNotFoundError:
            kept.remove()
            return False
        return True

    def _download(self, target: BinaryIO) -> None:
        with self._place.fs.open(self._place.path, "rb") as source:
            target.seek(0)
            target.truncate()
            shutil.copyfileobj(source, target, _CHUNK)
            target.flush()

    def workplace(self, identity: str, journal: Path) -> LocalFile:
        """Return a folder in the journal."""
        return LocalFile(journal / "parts" / identity, journal)

    def put(self, part: LocalFile) -> None:
        """Upload a file."""
        with part.open() as source, RemoteWrite(self._place) as stream:
            shutil.copyfileobj(source, stream, _CHUNK)

    def restore(self, kept: LocalFile, part: LocalFile) -> None:
        """Upload the old file."""
        self.put(kept)

    def remove(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._place.ask("remove the file", "rm_file", self._place.path)
