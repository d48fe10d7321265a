"""A folder of weights, opened so that no name leads out of it."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from graphwire.errors import ArchiveError, Ignored, MissingRecordError, RemoteError, unless_interrupted
from graphwire.process import Resource, file_of
from graphwire.wire.archive.atomic_file import Replacement, rename_new, sync
from graphwire.wire.archive.source import Closing, FileSource, RemoteFile
from graphwire.wire.limits import DEFAULT_ATTEMPTS, Attempts
from graphwire.wire.remote_files import RemoteSource, RemoteWrite, open_remote
from graphwire.wire.weights.reference_table import check_location

_HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FOLDER_FLAGS = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FILE_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_IS_FOLDER = getattr(os, "O_DIRECTORY", 0)
_NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | _NO_LINK

_FETCH = "Fetch it, or pass weights= with the place of the weights"
_PLAIN = "Pass weights= with the place of the weights: a place that the caller names may consist of links"


class Folder(Closing):
    """A folder whose files are opened name by name, without following symbolic links.

    On Linux and macOS each name is checked and opened in one step, relative to the folder that was opened before, so that
    nobody can exchange a name in between. On a system without `openat` (Windows), each name is checked, and then the path is
    opened; do not use folders there that others can change at the same time.

    Args:
        path: the folder itself. It may be a symbolic link: the caller chose it.
        links: whether symbolic links in it are followed. Folders of hub caches consist of links.
        remedy: what to do about a link, a pipe or a folder in a file's place, for messages.
    """

    is_remote = False

    def __init__(self, path: str | os.PathLike[str], *, links: bool = False, remedy: str = _PLAIN) -> None:
        self.path = Path(path)
        self.links = links
        self.remedy = remedy
        self._reads_ahead = True

    def at(self, location: str) -> Folder:
        """Return the folder below this one.

        Raises:
            ArchiveError: the location leaves this folder.
        """
        return _Below(self, check_location(location)) if location else self

    def without_read_ahead(self) -> Folder:
        """Return the same folder, of whose files the system reads only what is asked for, where it can be told."""
        folder = copy(self)
        folder._reads_ahead = False
        return folder

    def shown(self, location: str) -> str:
        """Return the path of a file, for messages."""
        return os.fspath(self.path / location)

    def names(self, location: str = "") -> Sequence[str]:
        below = check_location(location) if location else []
        try:
            if not _HAS_DIR_FD or self.links:
                self._check_links(below, last=True)
                with os.scandir(self.path.joinpath(*below)) as entries:
                    return sorted(f"{each.name}/" if each.is_dir() else each.name for each in entries)
            handle = self._handle(below, os.O_RDONLY)
            with handle, os.scandir(handle.number) as entries:
                return sorted(
                    f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name for each in entries
                )
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def open(self, location: str) -> FileSource:
        *above, name = check_location(location)
        try:
            if not _HAS_DIR_FD or self.links:
                self._check_links([*above, name], last=True)
                file = file_of(os.open, self.path.joinpath(*above, name), _FILE_FLAGS)
            else:
                handle = self._handle(above)
                with handle:
                    file = file_of(partial(os.open, dir_fd=handle.number), name, _FILE_FLAGS | _NO_LINK)
        except FileNotFoundError:
            raise MissingRecordError(
                f"there is no file {location!r} in {os.fspath(self.path)!r}", remedy=_FETCH
            ) from None
        except unless_interrupted(OSError) as error:
            raise self.refused(location, error) from error
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise ArchiveError(f"{self.shown(location)!r} is not a regular file", remedy=self.remedy)
        source = FileSource(file, status.st_size)
        if not self._reads_ahead:
            source.expect_scattered_reads()
        return source

    def read(self, location: str) -> bytes | None:
        """Return the bytes of a file; None if there is none."""
        try:
            source = self.open(location)
        except MissingRecordError:
            return None
        with closing(source):
            return source.read_at(0, source.size)

    def local_path(self, location: str) -> str:
        self.open(location).close()
        return self.shown(location)

    def make(self, names: Sequence[str]) -> None:
        """Make a folder, and those on the way to it, where there is none.

        Raises:
            ArchiveError: a name on the way is a link, or no folder.
        """
        if not _HAS_DIR_FD:
            self._check_links(names, last=True)
            self.path.joinpath(*names).mkdir(parents=True, exist_ok=True)
            return
        with self._handle(names, make=True):
            pass

    def create(self, location: str, *, replaces: bool = False) -> NewFile:
        return NewFile(self, location, replaces=replaces)

    def remove(self, location: str) -> None:
        """Delete a file; nothing happens if there is none.

        Raises:
            ArchiveError: the location leaves the folder.
            OSError: it cannot be deleted.
        """
        with suppress(FileNotFoundError):
            self._at(location, os.unlink)

    def age(self, location: str) -> float:
        """Return the seconds since a file was written or refreshed.

        Raises:
            FileNotFoundError: there is no such file.
            ArchiveError: the location leaves the folder.
        """
        status = self._at(location, partial(os.stat, follow_symlinks=False))
        return time.time() - float(status.st_mtime)

    def refresh(self, location: str) -> None:
        """Make the age of a file 0.

        Raises:
            MissingRecordError: there is no such file.
            ArchiveError: the location leaves the folder.
        """
        try:
            self._at(location, partial(os.utime, follow_symlinks=os.utime not in os.supports_follow_symlinks))
        except FileNotFoundError:
            raise MissingRecordError(f"there is no file {location!r}") from None

    def _at(self, location: str, call: Callable[..., Any]) -> Any:
        return self.act(check_location(location), call)

    def act(self, names: Sequence[str], call: Callable[..., Any]) -> Any:
        """Call a function of the system for a file, and return what it returns.

        Args:
            names: the names on the way to the file, of which none is empty, `.` or `..`. Links are not followed.
            call: gets the last name and `dir_fd`, the descriptor of the file's folder; on a system without these, a path.

        Raises:
            ArchiveError: a name on the way is a link, or no folder.
            OSError: a folder does not exist, or what the function raises.
        """
        *above, name = names
        if not _HAS_DIR_FD:
            self._check_links(above, last=True)
            return call(self.path.joinpath(*above, name))
        handle = self._handle(above)
        with handle:
            return call(name, dir_fd=handle.number)

    def close(self) -> None:
        """Do nothing: files and folders are opened for each use."""

    # ------------------------------------------------------------------------------------------------- one step at a time

    def _handle(self, names: Sequence[str], flags: int = _FOLDER_FLAGS, *, make: bool = False) -> _Handle:
        """Return a context manager for the folder that is reached by names, each relative to the one before."""
        return _Handle(self, names, flags, make=make)

    def _check_links(self, names: Sequence[str], *, last: bool) -> None:
        """Raise if a name is a symbolic link, on systems that cannot refuse it while they open it."""
        if self.links:
            return
        path = self.path
        for name in names if last else names[:-1]:
            path = path / name
            if path.is_symlink():
                raise self.refused("/".join(names), OSError(errno.ELOOP, "a link"))

    def refused(self, location: str, error: OSError) -> ArchiveError | OSError:
        """Return the error for a location that cannot be opened: one of ours if it is a link or no folder."""
        if error.errno in (
            errno.ELOOP,
            errno.ENOTDIR,
            getattr(errno, "EMLINK", -1),
            errno.ENXIO,
            errno.EISDIR,
        ):
            what = "leads over a symbolic link or something that is not a folder or a file"
            return ArchiveError(f"{self.shown(location)!r} {what}", remedy=self.remedy)
        return error


class _Below(Folder):
    """A folder below another one, reached without following links."""

    def __init__(self, above: Folder, names: Sequence[str]) -> None:
        super().__init__(above.path.joinpath(*names), links=above.links, remedy=above.remedy)
        self._above = above
        self._names = list(names)

    def _handle(self, names: Sequence[str], flags: int = _FOLDER_FLAGS, *, make: bool = False) -> _Handle:
        return self._above._handle([*self._names, *names], flags, make=make)

    def _check_links(self, names: Sequence[str], *, last: bool) -> None:
        self._above._check_links([*self._names, *names], last=last)


class _Handle(Resource):
    """A descriptor of a folder, and of those above it, closed when the block ends.

    Args:
        folder: where the first name is looked up.
        names: the names on the way, each relative to the folder before.
        flags: of the last folder, as for `os.open`.
        make: whether folders are made as needed.
    """

    def __init__(self, folder: Folder, names: Sequence[str], flags: int, *, make: bool) -> None:
        self._folder = folder
        self._names = names
        self._flags = flags
        self._make = make
        self._numbers: list[int] = []

    @property
    def number(self) -> int:
        """The descriptor of the last folder."""
        return self._numbers[-1]

    def begin(self) -> None:
        try:
            self._walk()
        except FileNotFoundError:
            raise
        except unless_interrupted(OSError) as error:
            raise self._folder.refused("/".join(self._names), error) from error

    def _walk(self) -> None:
        if self._make:
            self._folder.path.mkdir(parents=True, exist_ok=True)
        root = self._flags if not self._names else _FOLDER_FLAGS
        self._numbers.append(os.open(self._folder.path, root | _IS_FOLDER))
        for position, name in enumerate(self._names):
            if self._make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.number)
            flags = self._flags if position == len(self._names) - 1 else _FOLDER_FLAGS
            self._numbers.append(os.open(name, flags | _IS_FOLDER | _NO_LINK, dir_fd=self.number))

    def end(self, error: BaseException | None) -> None:
        while self._numbers:
            os.close(self._numbers.pop())


class _NewFileIO(Replacement):
    """A new file whose bytes the system starts to write to the disk before it is synced."""

    def write(self, data: Any) -> int:
        done = super().write(data)
        self.write_out()
        return done


class NewFile(Resource):
    """A context manager for a new file, as `StoreFolder.create` describes it.

    Args:
        replaces: whether it replaces what has its name, if that is no folder. A link is replaced, and not what it leads to.
    """

    def __init__(self, folder: Folder, location: str, *, replaces: bool) -> None:
        self._replaces = replaces
        *self._above, self._name = check_location(location)
        self._folder = folder
        self._location = location
        self._temporary = f".graphwire-{os.urandom(8).hex()}.part"
        self._file: BinaryIO | None = None
        self._handle: _Handle | None = None

    def begin(self) -> None:
        try:
            self._open()
        except OSError as error:
            if error.filename == self._temporary:
                error.filename = self._folder.shown(self._location)
            raise

    def _open(self) -> None:
        folder = self._folder
        if _HAS_DIR_FD:
            self._handle = folder._handle(self._above, os.O_RDONLY, make=True)
            self._handle.begin()
            # With "x", no link is followed, and the file is not inherited by child processes.
            opener = partial(os.open, dir_fd=self._handle.number, mode=0o666)
            self._file = cast("BinaryIO", _NewFileIO(self._temporary, "x+b", opener=opener))
        else:
            folder.make(self._above)
            self._file = cast("BinaryIO", _NewFileIO(self._path(self._temporary), "x+b"))

    def value(self) -> BinaryIO | None:
        return self._file

    def end(self, error: BaseException | None) -> None:
        try:
            if self._file is not None:
                with self._file as file:
                    if error is None:
                        sync(file)
                        self._publish()
        finally:
            if self._file is not None:
                with Ignored(OSError):
                    self._unlink(self._temporary)
            if self._handle is not None:
                if error is None:
                    _sync_folder(self._handle)
                self._handle.end(error)

    def _publish(self) -> None:
        """Give the file its name, unless there is a file of that name that it does not replace."""
        if self._replaces:
            number = None if self._handle is None else self._handle.number
            source, name = self._path(self._temporary), self._path(self._name)
            try:
                os.replace(source, name, src_dir_fd=number, dst_dir_fd=number)
            except unless_interrupted(OSError) as error:
                raise self._folder.refused(self._location, error) from error
            return
        try:
            self._name_it(self._path(self._temporary), self._path(self._name))
        except FileExistsError:
            shown = self._folder.shown(self._location)
            raise FileExistsError(errno.EEXIST, "there is such a file already", shown) from None

    def _name_it(self, source: str, name: str) -> None:
        number = None if self._handle is None else self._handle.number
        try:
            os.link(source, name, src_dir_fd=number, dst_dir_fd=number, follow_symlinks=False)
        except FileExistsError:
            raise
        except unless_interrupted(OSError, NotImplementedError):  # a file system without hard links
            if rename_new(source, name, number):
                return
            # Reserve the name, then replace it: for a moment there is an empty file.
            os.close(os.open(name, _NEW_FLAGS, dir_fd=number))
            os.replace(source, name, src_dir_fd=number, dst_dir_fd=number)

    def _unlink(self, name: str) -> None:
        os.unlink(self._path(name), dir_fd=None if self._handle is None else self._handle.number)

    def _path(self, name: str) -> str:
        return name if self._handle is not None else os.fspath(self._folder.path.joinpath(*self._above, name))


def _sync_folder(handle: _Handle) -> None:
    """Make the name durable. Windows and some network disks cannot sync a folder."""
    with Ignored(OSError):
        os.fsync(handle.number)


# ----------------------------------------------------------------------------------------- a folder of weights at a URL


class RemoteFolder(Closing):
    """A folder at a URL, whose files are opened by locations that cannot lead out of it (a `StoreFolder`).

    Args:
        member: any file in the folder; it need not exist.
        attempts: how often its server is asked.
    """

    is_remote = True

    def __init__(self, member: RemoteFile, attempts: Attempts = DEFAULT_ATTEMPTS) -> None:
        self._member = member
        self._attempts = attempts

    @property
    def path(self) -> str:
        """The URL of the folder, for messages and comparisons."""
        return self._member.beside("").url.rstrip("/")

    def at(self, location: str) -> RemoteFolder:
        """Return the folder below this one.

        Raises:
            ArchiveError: the location leaves this folder.
        """
        if not location:
            return self
        return RemoteFolder(self._file(f"{location}/member"), self._attempts)

    def without_read_ahead(self) -> RemoteFolder:
        """Return this folder: only what is expected is read."""
        return self

    def shown(self, location: str) -> str:
        """Return the URL of a file, for messages."""
        return self._member.beside(location).url

    def names(self, location: str = "") -> Sequence[str]:
        file = self._file(location) if location else self._member.beside("")
        folder, fs = file.path.rstrip("/"), file.fs
        try:
            found = self._attempts.run(file, "list the folder", lambda: fs.ls(folder, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        names = [
            each["name"].rstrip("/").rpartition("/")[2] + "/" * (each["type"] == "directory")
            for each in found
            if each["name"].rstrip("/") != folder
        ]
        return sorted(names)

    def open(self, location: str) -> RemoteSource:
        try:
            return open_remote(self._file(location), self._attempts)
        except FileNotFoundError:
            raise MissingRecordError(
                f"there is no file {self.shown(location)!r}",
                remedy="Upload it, or pass weights= with the place of the weights",
            ) from None

    def local_path(self, location: str) -> str:
        raise ArchiveError(
            f"{self.shown(location)!r} is not on a disk, and its store reads only files that are",
            remedy="Fetch it, and pass weights= with its place",
        )

    def create(self, location: str) -> AbstractContextManager[BinaryIO]:
        return cast("AbstractContextManager[BinaryIO]", RemoteWrite(self._file(location), new=True))

    def remove(self, location: str) -> None:
        """Delete a file; nothing happens if there is none."""
        file = self._file(location)
        with suppress(FileNotFoundError):
            self._attempts.run(file, "delete the file", lambda: file.fs.rm_file(file.path))

    def age(self, location: str) -> float:
        """Return the seconds since a file was written.

        Raises:
            FileNotFoundError: there is no such file.
            ArchiveError: the store does not state when it was written.
        """
        from datetime import UTC, datetime

        file = self._file(location)
        try:
            modified = self._attempts.run(
                file, "find the age of the file", lambda: file.fs.modified(file.path)
            )
        except (NotImplementedError, RemoteError) as error:
            if isinstance(error, RemoteError) and not isinstance(error.__cause__, NotImplementedError):
                raise
            raise ArchiveError(
                "the store does not state when files were written",
                remedy="Remove what is not used by its own tools",
            ).of(file.url) from error
        if modified.tzinfo is None:
            modified = modified.replace(tzinfo=UTC)
        return float((datetime.now(UTC) - modified).total_seconds())

    def refresh(self, location: str) -> None:
        """Do nothing: a store changes the time of a file only with its content."""

    def close(self) -> None:
        """Do nothing: files are opened for each use."""

    def _file(self, location: str) -> RemoteFile:
        check_location(location)
        return self._member.beside(location)
