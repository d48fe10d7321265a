"""The journal of a rewriting: what was there before, so that it can be undone, and what is there now.

    JOURNAL/journal.json           the action and its options
    JOURNAL/entries/ab/ID.json     a file: its digest before and after
    JOURNAL/kept/ab/ID             the file as it was
    JOURNAL/report/NAME.jsonl      what came of the files of a batch, a JSON object a line

An entry is written before the file is replaced, so that a process may be killed at any time: the digest of the file tells
whether it was replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from graphwire.errors import ArchiveError, GraphwireError
from graphwire.wire.archive.source import url_of
from graphwire.wire.remote import shown_url
from graphwire.wire.weights.folder import Folder
from graphwire_fleet.rewriting.places import Facts, LocalFile, Place
from graphwire_fleet.whole_files import OWN_FILES, whole_file

_VERSION = 1
_ABOUT = "journal.json"

State = Literal["before", "after", "changed"]
"""What a place has: the file from before the rewriting, that from after it, or something else."""


@dataclass(frozen=True)
class Entry:
    """A file that is rewritten."""

    destination: str
    """The path or URL that is written."""
    file: str
    """The name of the file that was read."""
    before: Facts | None
    """What was at the destination; None if nothing was."""
    after: Facts | None = None
    """What was written; None until that is known. The destination has not changed then."""

    @property
    def identity(self) -> str:
        """The name of its files in the journal."""
        return identity_of(self.destination)

    def state(self, place: Place) -> State:
        """Return what the place has now. Reads all of it."""
        now = place.facts()
        if self.after is not None and now == self.after:
            return "after"
        return "before" if now == self.before else "changed"


def identity_of(destination: str) -> str:
    """Return the name of a destination in a journal."""
    return sha256(os.fsencode(destination)).hexdigest()[:40]


class Journal:
    """A journal in a folder on this machine, which workers on other machines reach by the same path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = Folder(folder, remedy=OWN_FILES)

    def check_new(self, about: Mapping[str, Any]) -> None:
        """Check that the folder is new, or has the journal of the same action, which goes on. Nothing is written.

        Raises:
            ArchiveError: it has the journal of another action, or something else.
        """
        if self._files.read(_ABOUT) is not None:
            if self.about() != _plain(about):
                raise ArchiveError(
                    "this is the journal of another action, or of other options",
                    remedy="Name a new folder, or repeat the action as it was to continue it",
                ).of(str(self.folder))
        elif any(not each.startswith(".") for each in self._files.names()):
            raise ArchiveError("the folder is not empty, and no journal", remedy="Name a new folder").of(
                str(self.folder)
            )

    def open(self, about: Mapping[str, Any]) -> None:
        """Begin the journal, or go on with it."""
        if self._files.read(_ABOUT) is None:
            self._write(_ABOUT, _plain(about))

    def about(self) -> dict[str, Any]:
        """Return the action and its options.

        Raises:
            ArchiveError: the folder has no journal of this version.
        """
        data = self._files.read(_ABOUT)
        if data is None:
            raise ArchiveError(
                "this is no journal of a rewriting", remedy="Name the folder that convert or upgrade printed"
            ).of(str(self.folder))
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            remedy = "Bring it back from a copy; the files as they were are below kept, and entries has their places"
            raise ArchiveError(f"{_ABOUT} is damaged: {error}", remedy=remedy).of(str(self.folder)) from error
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            remedy = "Undo it with the graphwire-fleet that wrote it"
            raise ArchiveError("this is a journal of another version", remedy=remedy).of(str(self.folder))
        return found

    def entry(self, destination: str) -> Entry | None:
        """Return the entry of a destination; None if it has none."""
        return self._entry(_location("entries", identity_of(destination), ".json"))

    @property
    def root(self) -> str | None:
        """The folder or URL of all destinations; None if files were rewritten in place."""
        root = self.about().get("root")
        return None if root is None else str(root).rstrip("/")

    def entries(self) -> Iterator[Entry | ArchiveError]:
        """Yield all entries; for one that is damaged, the error."""
        root = self.root
        for location in self._locations():
            if isinstance(location, ArchiveError):
                yield location
                continue
            try:
                entry = self._entry(location)
                if entry is None:
                    continue
                if root is not None and (fault := _fault_below(root, entry.destination)):
                    raise self._damaged(location, f"its destination is not below {root}: {fault}")
                yield entry
            except ArchiveError as error:
                yield error

    def begin(self, destination: str, file: str, place: Place) -> Entry:
        """Keep what is at the destination, and write and return the entry."""
        entry = Entry(destination, file, None)
        kept = self.kept(entry)
        kept.remove()
        if place.keep(kept):
            entry = replace(entry, before=kept.facts())
        self.write(entry)
        return entry

    def write(self, entry: Entry) -> None:
        """Write an entry, in place of the one that its destination has."""
        self._write(_location("entries", entry.identity, ".json"), asdict(entry))

    def forget(self, entry: Entry) -> None:
        """Remove an entry whose destination was not replaced, and what was kept for it."""
        self._files.remove(_location("entries", entry.identity, ".json"))
        self.kept(entry).remove()

    def settle(self, destination: str, place: Place) -> None:
        """Remove what is left of a rewriting that failed before it replaced the file, also if its process was killed."""
        entry = self.entry(destination)
        if entry is None:
            return
        self.clear(entry, place)
        if entry.after is None or entry.state(place) == "before":
            self.forget(entry)

    def kept(self, entry: Entry) -> LocalFile:
        """Return where the file is as it was."""
        return LocalFile(self.folder / _location("kept", entry.identity), self.folder)

    def workplace(self, entry: Entry, place: Place) -> LocalFile:
        """Return an empty folder for what becomes the file of an entry."""
        folder = self.clear(entry, place)
        folder.make()
        return folder

    def clear(self, entry: Entry, place: Place) -> LocalFile:
        """Remove that folder, if there is one, and return it. Each journal has folders of its own."""
        folder = place.workplace(f"{entry.identity}-{identity_of(str(self.folder))[:8]}", self.folder)
        folder.clear()
        return folder

    def report(self, name: str, lines: bytes) -> None:
        """Add what came of a batch, as JSON lines."""
        with whole_file(self._files, f"report/{name}.jsonl") as stream:
            stream.write(lines)

    def _locations(self) -> Iterator[str | ArchiveError]:
        """Yield the locations of entries; for a folder of them that is a link, the error."""
        for folder in (f"entries/{each.rstrip('/')}" for each in self._files.names("entries")):
            try:
                names = self._files.names(folder)
            except ArchiveError as error:
                error.of(str(self.folder))
                yield error
            else:
                yield from (f"{folder}/{each}" for each in names if each.endswith(".json"))

    def _entry(self, location: str) -> Entry | None:
        """Return the entry at a location of the folder; None if there is none."""
        data = self._files.read(location)
        if data is None:
            return None
        try:
            tree = json.loads(data)
            facts = {name: _facts(tree[name]) for name in ("before", "after")}
            entry = Entry(_text(tree["destination"]), _text(tree["file"]), **facts)
            is_other = entry.identity != _identity_in(location)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise self._damaged(location, str(error)) from error
        if is_other:
            raise self._damaged(location, "it is that of another destination")
        url = url_of(entry.destination)
        if url is not None and shown_url(url) != url:
            raise self._damaged(location, "its URL has a password or a signature")
        if url is None and not Path(entry.destination).is_absolute():
            raise self._damaged(location, "its destination is not an absolute path")
        return entry

    def _damaged(self, location: str, problem: str) -> GraphwireError:
        kept = self.folder / _location("kept", _identity_in(location))
        remedy = f"The file as it was is {kept}" if kept.exists() else ""
        place = location.rpartition("/")[2]
        problem = f"an entry of the journal is damaged: {problem}"
        return ArchiveError(problem, place=place, remedy=remedy).of(str(self.folder))

    def _write(self, location: str, tree: Mapping[str, Any]) -> None:
        with whole_file(self._files, location) as stream:
            stream.write(json.dumps(tree).encode())


def _location(kind: str, identity: str, suffix: str = "") -> str:
    return f"{kind}/{identity[:2]}/{identity}{suffix}"


def _identity_in(location: str) -> str:
    return location.rpartition("/")[2].removesuffix(".json")


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps({"version": _VERSION, **about}))
    return plain


def _fault_below(root: str, destination: str) -> str:
    """Return why a path is not one below a root; an empty text if it is. `LocalPlace` follows no link there."""
    below = destination.removeprefix(f"{root}/")
    is_elsewhere = below == destination or not {"", ".", ".."}.isdisjoint(below.split("/"))
    return "its path leads elsewhere" if is_elsewhere else ""


def _facts(found: Any) -> Facts | None:
    if found is None:
        return None
    sha256, nbytes = found
    return Facts(_text(sha256), int(nbytes))


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(f"{found!r:.100} is not text")
    return found
