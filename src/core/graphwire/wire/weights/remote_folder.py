"""A folder of weights at a URL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import BinaryIO, cast

from graphwire.errors import ArchiveError, MissingRecordError, RemoteError
from graphwire.wire import DEFAULT_ATTEMPTS, Attempts, Closing
from graphwire.wire.remote import RemoteFile, RemoteSource, RemoteWrite, open_remote
from graphwire.wire.weights.locations import check_location


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
        folder = (self._file(location) if location else self._member.beside("")).path.rstrip("/")
        fs = self._member.fs
        try:
            found = self._attempts.run(
                self.shown(location), "list the folder", lambda: fs.ls(folder, detail=True)
            )
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

    def create(self, location: str) -> AbstractContextManager[BinaryIO]:
        return cast("AbstractContextManager[BinaryIO]", RemoteWrite(self._file(location), new=True))

    def remove(self, location: str) -> None:
        """Delete a file; nothing happens if there is none."""
        file = self._file(location)
        with suppress(FileNotFoundError):
            self._attempts.run(file.url, "delete the file", lambda: file.fs.rm_file(file.path))

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
                file.url, "find the age of the file", lambda: file.fs.modified(file.path)
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
