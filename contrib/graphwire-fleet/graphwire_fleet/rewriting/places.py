"""Where a rewritten file goes: a path or a URL. A place has the whole old file, or the whole new one."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from graphwire.errors import ArchiveError
from graphwire.wire.remote import RemoteFile, located
from graphwire.wire.remote_files import RemoteWrite

__all__ = ["Facts", "LocalPlace", "Place", "RemotePlace", "digest_of", "place_at"]

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

    def restore(self, kept: Path, workplace: Path) -> None:
        """Put the bytes of a file back, in one step. The file stays where it is, too."""
        ...

    def remove(self) -> None:
        """Remove the file."""
        ...


def place_at(name: str, storage_options: Mapping[str, Any] | None = None) -> Place:
    """Return the place of a path or URL."""
    found = located(name, storage_options)
    return RemotePlace(found) if isinstance(found, RemoteFile) else LocalPlace(Path(found))


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
    """A file on this machine. The new file is written beside it, and renamed."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def facts(self) -> Facts | None:
        """Return the digest and the size."""
        return None if self._found() is None else digest_of(self._path)

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
            found = self._path.lstat()
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
                stream = self._path.open("rb")
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
            os.link(self._path, kept)
        except FileNotFoundError:
            return False
        except OSError:
            _copy(self._path, kept)
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
        part.replace(self._path)
        _sync(self._path.parent)

    def restore(self, kept: Path, workplace: Path) -> None:
        """Link or copy the old file beside the place, and rename that."""
        part = workplace / "old"
        try:
            os.link(kept, part)
        except OSError:
            _copy(kept, part)
        part.replace(self._path)
        _sync(self._path.parent)

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
        _sync(self._path.parent)


_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "device")


def _copy(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    _sync(target)


def _sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable, where the system can."""
    if os.name != "posix":
        return
    number = os.open(path, os.O_RDONLY)
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
        _sync(kept)
        return True

    def workplace(self, identity: str, journal: Path) -> Path:
        """Return a folder in the journal."""
        return journal / "parts" / identity

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
