"""Undoes a rewriting: every file gets the bytes back that it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from graphwire.errors import ArchiveError
from graphwire_fleet.reading import failure_of
from graphwire_fleet.rewriting.journal import Entry, Journal
from graphwire_fleet.rewriting.places import Place, place_at
from graphwire_fleet.work import Failure

Outcome = Literal["restored", "removed", "as before", "refused"]
RESTORED: Final = ("restored", "removed")
"""The outcomes of files that were put back."""


class Undone(NamedTuple):
    """What came of one file."""

    destination: str
    outcome: Outcome
    failure: Failure | None = None


def undo(
    folder: Path, storage_options: Mapping[str, Any] | None = None, *, dry_run: bool = False
) -> Iterator[Undone]:
    """Put back what a rewriting replaced, file by file. It may be repeated, and go on after it was killed.

    A file that was changed since is refused, and stays as it is; the others are put back.

    Args:
        folder: the folder of the journal, which stays.
        storage_options: what the file systems of URLs take.
        dry_run: whether only to tell.

    Raises:
        ArchiveError: the folder is no journal of this version.
    """
    journal = Journal(folder)
    root = journal.root
    for entry in journal.entries():
        if isinstance(entry, ArchiveError):
            yield Undone(f"{entry.file}: {entry.place}", "refused", failure_of(entry))
            continue
        try:
            place = place_at(entry.destination, storage_options, root)
            with place.locked():
                outcome = _undo_one(journal, entry, place, dry_run)
            yield Undone(entry.destination, outcome)
        except Exception as error:  # noqa: BLE001 - clients of stores have errors of their own
            yield Undone(entry.destination, "refused", failure_of(error))


def _undo_one(journal: Journal, entry: Entry, place: Place, dry_run: bool) -> Outcome:
    state = entry.state(place)
    if state == "changed":
        kept = journal.kept(entry)
        remedy = "It stays as it is. Undo a later rewriting first"
        remedy += f"; the file as it was is {kept.name}" if kept.found() else ""
        raise ArchiveError("the file changed after it was rewritten", remedy=remedy)
    if not dry_run:
        journal.clear(entry, place)
    if state == "before":
        return "as before"
    if entry.before is None:
        if not dry_run:
            place.remove()
        return "removed"
    kept = journal.kept(entry)
    if kept.facts() != entry.before:
        raise ArchiveError(
            f"the journal does not have the file as it was: {kept.name} is gone or changed",
            remedy="Bring it back from a copy; until then the rewritten file stays",
        )
    if not dry_run:
        place.restore(kept, journal.clear(entry, place).part)
        journal.clear(entry, place)
    return "restored"
