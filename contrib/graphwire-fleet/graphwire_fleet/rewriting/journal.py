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

from graphwire.errors import ArchiveError
from graphwire.wire.remote import url_of
from graphwire_fleet.rewriting.places import Facts, Place, digest_of
from graphwire_fleet.whole_files import whole_file

__all__ = ["Entry", "Journal", "State"]

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

    def check_new(self, about: Mapping[str, Any]) -> None:
        """Check that the folder is new, or has the journal of the same action, which goes on. Nothing is written.

        Raises:
            ArchiveError: it has the journal of another action, or something else.
        """
        if (self.folder / _ABOUT).exists():
            if self.about() != _plain(about):
                raise ArchiveError(
                    "this is the journal of another action, or of other options",
                    remedy="Name a new folder, or repeat the action as it was to continue it",
                ).of(str(self.folder))
        elif self.folder.exists() and any(not each.name.startswith(".") for each in self.folder.iterdir()):
            raise ArchiveError("the folder is not empty, and no journal", remedy="Name a new folder").of(
                str(self.folder)
            )

    def open(self, about: Mapping[str, Any]) -> None:
        """Begin the journal, or go on with it."""
        if not (self.folder / _ABOUT).exists():
            _write(self.folder / _ABOUT, _plain(about))

    def about(self) -> dict[str, Any]:
        """Return the action and its options.

        Raises:
            ArchiveError: the folder has no journal of this version.
        """
        try:
            found = json.loads((self.folder / _ABOUT).read_bytes())
        except FileNotFoundError:
            raise ArchiveError(
                "this is no journal of a rewriting", remedy="Name the folder that convert or upgrade printed"
            ).of(str(self.folder)) from None
        except ValueError as error:
            remedy = "Bring it back from a copy; the files as they were are below kept, and entries has their places"
            raise ArchiveError(f"{_ABOUT} is damaged: {error}", remedy=remedy).of(str(self.folder)) from error
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            remedy = "Undo it with the graphwire-fleet that wrote it"
            raise ArchiveError("this is a journal of another version", remedy=remedy).of(str(self.folder))
        return found

    def entry(self, destination: str) -> Entry | None:
        """Return the entry of a destination; None if it has none."""
        try:
            return _entry(self._path("entries", identity_of(destination), ".json"))
        except FileNotFoundError:
            return None

    @property
    def root(self) -> str | None:
        """The folder or URL of all destinations; None if files were rewritten in place."""
        root = self.about().get("root")
        return None if root is None else str(root).rstrip("/")

    def entries(self) -> Iterator[Entry | ArchiveError]:
        """Yield all entries; for one that is damaged, the error."""
        root = self.root
        for path in self._files("entries", ".json"):
            try:
                entry = _entry(path)
                if root is not None and (fault := _fault_below(root, entry.destination)):
                    raise _damaged(path, f"its destination is not below {root}: {fault}")
                yield entry
            except ArchiveError as error:
                yield error

    def begin(self, destination: str, file: str, place: Place) -> Entry:
        """Keep what is at the destination, and write and return the entry."""
        entry = Entry(destination, file, None)
        kept = self.kept(entry)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        if place.keep(kept):
            entry = replace(entry, before=digest_of(kept))
        self.write(entry)
        return entry

    def write(self, entry: Entry) -> None:
        """Write an entry, in place of the one that its destination has."""
        _write(self._path("entries", entry.identity, ".json"), asdict(entry))

    def forget(self, entry: Entry) -> None:
        """Remove an entry whose destination was not replaced, and what was kept for it."""
        self._path("entries", entry.identity, ".json").unlink(missing_ok=True)
        self.kept(entry).unlink(missing_ok=True)

    def settle(self, destination: str, place: Place) -> None:
        """Remove what is left of a rewriting that failed before it replaced the file, also if its process was killed."""
        entry = self.entry(destination)
        if entry is None:
            return
        self.clear(entry, place)
        if entry.after is None or entry.state(place) == "before":
            self.forget(entry)

    def kept(self, entry: Entry) -> Path:
        """Return where the file is as it was."""
        return self._path("kept", entry.identity, "")

    def workplace(self, entry: Entry, place: Place) -> Path:
        """Return an empty folder for what becomes the file of an entry."""
        folder = self.clear(entry, place)
        folder.mkdir(parents=True)
        return folder

    def clear(self, entry: Entry, place: Place) -> Path:
        """Remove that folder, if there is one, and return its path. Each journal has folders of its own."""
        folder = place.workplace(f"{entry.identity}-{identity_of(str(self.folder))[:8]}", self.folder)
        place.clear(folder)
        return folder

    def report(self, name: str, lines: bytes) -> None:
        """Add what came of a batch, as JSON lines."""
        _write_bytes(self.folder / "report" / f"{name}.jsonl", lines)

    def _path(self, kind: str, identity: str, suffix: str) -> Path:
        return self.folder / kind / identity[:2] / f"{identity}{suffix}"

    def _files(self, kind: str, suffix: str) -> Iterator[Path]:
        for folder in sorted((self.folder / kind).glob("??")):
            yield from sorted(each for each in folder.iterdir() if each.suffix == suffix)


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps({"version": _VERSION, **about}))
    return plain


def _entry(path: Path) -> Entry:
    try:
        tree = json.loads(path.read_bytes())
        facts = {name: _facts(tree[name]) for name in ("before", "after")}
        entry = Entry(_text(tree["destination"]), _text(tree["file"]), **facts)
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path, str(error)) from error
    if entry.identity != path.stem:
        raise _damaged(path, "it is that of another destination")
    if url_of(entry.destination) is None and not Path(entry.destination).is_absolute():
        raise _damaged(path, "its destination is not an absolute path")
    return entry


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


def _damaged(path: Path, problem: str) -> ArchiveError:
    folder = path.parents[2]
    kept = folder / "kept" / path.parent.name / path.stem
    remedy = f"The file as it was is {kept}" if kept.exists() else ""
    damage = ArchiveError(f"an entry of the journal is damaged: {problem}", place=path.name, remedy=remedy)
    damage.of(str(folder))
    return damage


def _write(path: Path, tree: Mapping[str, Any]) -> None:
    _write_bytes(path, json.dumps(tree).encode())


def _write_bytes(path: Path, data: bytes) -> None:
    with whole_file(path) as stream:
        stream.write(data)
