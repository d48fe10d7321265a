"""The folder of a catalogue, on this machine or at a URL: files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from graphwire.errors import ArchiveError, MissingRecordError
from graphwire.wire.archive.source import RemoteFile, located
from graphwire.wire.remote_files import RemoteWrite
from graphwire.wire.weights.folder import Folder as LinklessFolder
from graphwire_fleet.whole_files import OWN_FILES, remove_unfinished, whole_file


class Folder(Protocol):
    """A folder with folders of files, named `tables/name.parquet`."""

    name: str
    """The path or URL, for messages."""
    file_system: Any
    """The file system of fsspec that the paths are of; None on this machine."""

    def names(self, below: str) -> list[str]:
        """Return the names of the files in a folder below this one, sorted; empty if there is no such folder."""
        ...

    def path(self, name: str) -> str:
        """Return what DuckDB opens."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is none."""
        ...

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Return a stream for a file that appears when the block ends without an error."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        ...

    def remove_unfinished(self, below: str) -> None:
        """Remove what `writing` left of files in a folder below this one when their process was killed."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Return a context in which the folder has one writer.

        Raises:
            ArchiveError: another process writes to it.
        """
        ...


def folder_at(place: str, storage_options: Mapping[str, Any] | None = None) -> Folder:
    """Return the folder of a path or URL. Nothing is created."""
    found = located(place, storage_options)
    if isinstance(found, RemoteFile):
        return RemoteFolder(found)
    return LocalFolder(Path(found))


class LocalFolder:
    """A folder on this machine."""

    file_system = None

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = Path(os.path.abspath(root))  # noqa: PTH100 - a link stays as it is named
        self._folder = LinklessFolder(self._root, remedy=OWN_FILES)

    def names(self, below: str) -> list[str]:
        """Return the names of the files in a folder."""
        return [each.rstrip("/") for each in self._folder.names(below) if not each.startswith(".")]

    def path(self, name: str) -> str:
        """Return the path of a file. Where something else is in its place, nobody opens it."""
        with suppress(MissingRecordError):  # Whoever opens it finds that.
            self._folder.open(name).close()
        return str(self._root / name)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is none."""
        return self._folder.read(name)

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Write to a temporary file beside it, and rename that. No link in the folder is followed."""
        return whole_file(self._folder, name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._folder.remove(name)

    def remove_unfinished(self, below: str) -> None:
        """Remove the temporary files."""
        remove_unfinished(self._folder.at(below))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock a file in the folder, which the system releases when the process ends, however it ends."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        with self._lock() as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ArchiveError(
                    "another process writes to this folder", remedy="Wait for it, or name another folder"
                ).of(self.name) from None
            yield

    def _lock(self) -> BinaryIO:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            # A link or pipe in its place is neither emptied nor waited for.
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
            return os.fdopen(os.open(self._root / ".lock", flags, 0o666), "r+b")
        except OSError as error:
            raise ArchiveError(
                f"the folder cannot be written: {error.strerror}",
                remedy="Name another folder, or let this user write there",
            ).of(self.name) from error


class RemoteFolder:
    """A folder at a URL. What lists its files is a single object, so that its writer needs no renames."""

    def __init__(self, place: RemoteFile) -> None:
        self.name = place.url
        self._place = place
        self.file_system = place.fs
        self._root = place.path.rstrip("/")

    def names(self, below: str) -> list[str]:
        """Return the names of the files in a folder."""
        folder = f"{self._root}/{below}"
        self.file_system.invalidate_cache(folder)
        try:
            found = self._place.ask("list the folder", "ls", folder, detail=False)
        except FileNotFoundError:
            return []
        names = (each.rstrip("/").rpartition("/")[2] for each in found)
        return sorted(name for name in names if name and not name.startswith("."))

    def path(self, name: str) -> str:
        """Return the URL of a file, as DuckDB takes it."""
        return str(self.file_system.unstrip_protocol(f"{self._root}/{name}"))

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is none."""
        try:
            return bytes(self._place.ask("read the file", "cat_file", f"{self._root}/{name}"))
        except FileNotFoundError:
            return None

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Upload a file; stores have it when the upload ends."""
        file = self._place._replace(path=f"{self._root}/{name}", url=f"{self.name.rstrip('/')}/{name}")
        with suppress(Exception):  # object stores have no folders
            self.file_system.makedirs(file.path.rpartition("/")[0], exist_ok=True)
        with RemoteWrite(file) as stream:
            yield stream

    def remove(self, name: str) -> None:
        """Remove a file."""
        with suppress(FileNotFoundError):
            self._place.ask("remove the file", "rm_file", f"{self._root}/{name}")

    def remove_unfinished(self, below: str) -> None:
        """Do nothing: what is not whole is not there."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: stores have no locks."""
        yield
