"""Finds what would go wrong with all destinations of a rewriting, before anything is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from graphwire.errors import ArchiveError
from graphwire.wire.archive.source import url_of
from graphwire.wire.remote import shown_url
from graphwire_fleet.rewriting.works import Rewriting
from graphwire_fleet.temporary_database import temporary_database
from graphwire_fleet.work import File


def check_destinations(files: Iterable[File], roots: Sequence[str], work: Rewriting) -> frozenset[str]:
    """Check that every file has a destination of its own; return the names of links to files that are rewritten in place anyway.

    The names of new files are compared without case, which some file systems ignore.

    Args:
        files: the files.
        roots: the beginnings of the names that are looked for.
        work: the rewriting.

    Raises:
        ArchiveError: two files go to one place; a new file would be found as one to rewrite; or a URL has secrets, which the
            journal would have too.
    """
    root = work.root and f"{_real(work.root).rstrip('/')}/"
    if root and any(each.endswith("/") and root.startswith(f"{_real(each).rstrip('/')}/") for each in roots):
        raise ArchiveError(
            "the new files would be found again, below a folder that is read; nothing was written",
            remedy="Write to a folder elsewhere, or pass --in-place",
        ).of(root)
    with temporary_database() as known:
        known.execute("CREATE TABLE places (place TEXT PRIMARY KEY, file TEXT) WITHOUT ROWID")
        known.execute("CREATE TABLE sources (source TEXT PRIMARY KEY) WITHOUT ROWID")
        known.execute("BEGIN")
        aliases = set()
        for file in files:
            name = work.destination(file)
            _check_url(name)
            if work.root is None:
                aliases |= _alias(known, name, file)
            else:
                _take(known, name, file)
        _check_sources(known, work)
    return frozenset(aliases)


def _alias(known: sqlite3.Connection, name: str, file: File) -> set[str]:
    """Return the name that is not that of the file itself, if two are listed of one that is rewritten in place."""
    key = _text(name)
    row = known.execute("SELECT file FROM places WHERE place = ?", [key]).fetchone()
    if row is not None and file.name != key:
        return {file.name}
    known.execute("INSERT OR REPLACE INTO places VALUES (?, ?)", [key, file.name])
    return set() if row is None else {row[0]}


def _real(name: str) -> str:
    """Return a path without links; a URL as it is."""
    return name if url_of(name) else str(Path(name).resolve())


def _take(known: sqlite3.Connection, name: str, file: File) -> None:
    key = _text(name.casefold())
    try:
        known.execute("INSERT INTO places VALUES (?, ?)", [key, file.name])
    except sqlite3.IntegrityError:
        other = known.execute("SELECT file FROM places WHERE place = ?", [key]).fetchone()[0]
        raise ArchiveError(
            f"{other!r} and {file.name!r} would both be written to {_text(name)!r}; nothing was written",
            remedy="Write them to different folders, one after the other",
        ) from None
    source = _real(file.source)
    known.execute("INSERT OR IGNORE INTO sources VALUES (?)", [_text(source.casefold())])


def _check_sources(known: sqlite3.Connection, work: Rewriting) -> None:
    if work.root is None:
        return
    found = known.execute("SELECT place, file FROM places JOIN sources ON place = source LIMIT 1").fetchone()
    if found is not None:
        raise ArchiveError(
            f"{found[1]!r} would be written to {found[0]!r}, which is read; nothing was written",
            remedy="Write to another folder, or pass --in-place",
        )


def _check_url(name: str) -> None:
    url = url_of(name)
    if url is not None and shown_url(url) != url:
        raise ArchiveError(
            "the URL has a password or a signature, which would go into the journal",
            remedy="Pass them with --storage-options",
        ).of(shown_url(url))


def _text(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()
