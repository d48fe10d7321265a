"""A catalogue that is being written: it keeps the results of batches, and knows which files it has."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from graphwire import errors
from graphwire.cli.files import FAILED, FOUND, OK
from graphwire_fleet.catalogue.folders import Folder, folder_at
from graphwire_fleet.catalogue.part_writer import MEMORY, PartWriter
from graphwire_fleet.catalogue.parts import READS_A_PART, check_place, check_schema, create
from graphwire_fleet.catalogue.views import GONE, add_views, connect, reading_parts
from graphwire_fleet.tables import FILES, TABLES, decode_rows
from graphwire_fleet.temporary_database import temporary_database
from graphwire_fleet.work import File, Packed

_FINAL: Final = tuple(
    sorted(
        each.__name__
        for each in vars(errors).values()
        if isinstance(each, type)
        and issubclass(each, errors.GraphwireError)
        and not issubclass(each, errors.RemoteError | errors.LimitError)
    )
)
"""The failures that the bytes of a file decide. All others may be over, so that the next run reads the file again: what the
machine or a store had, the bounds and limits of that run, or whether a disk was there."""
_AT_ONCE: Final = 10_000
"""How many names are taken from the temporary database at once."""


class Kept(Protocol):
    """A work whose results a catalogue keeps."""

    @property
    def name(self) -> str:
        """What files are read for."""
        ...

    @property
    def settings(self) -> str:
        """The options that decide which rows there are."""
        ...

    @property
    def readers(self) -> Sequence[str]:
        """The distributions that read the files, with their versions."""
        ...


@contextmanager
def open_catalogue(
    place: str, work: Kept, storage_options: Mapping[str, Any] | None = None
) -> Iterator[Catalogue]:
    """A context with a catalogue that the results of a work are added to. It is created if there is none.

    Args:
        place: the path or URL of its folder.
        work: what files are read for.
        storage_options: what the file system of a URL takes.

    Raises:
        ArchiveError: another process writes to it, it is damaged, has another version, or is a folder with other files.
    """
    folder = folder_at(place, storage_options)
    check_place(folder)
    with folder.locked():
        create(folder, f"graphwire-fleet {metadata.version('graphwire-fleet')}")
        with temporary_database() as known:
            yield Catalogue(folder, work, known)


def compact(place: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Merge all parts of a catalogue to one, which has the rows that count and no others.

    Raises:
        As `open_catalogue`.
    """
    folder = folder_at(place, storage_options)
    check_schema(folder)
    with folder.locked():
        PartWriter(folder).compact()


class Catalogue:
    """A catalogue that results are added to: the `Consumer` of the works that read files.

    It holds no list of files in memory: what it knows of them is in a temporary database on this machine.
    """

    def __init__(self, folder: Folder, work: Kept, known: sqlite3.Connection) -> None:
        self._parts = PartWriter(folder)
        self.unchanged: Counter[int] = Counter()
        """How many of the files that need not be read again failed, have problems, or are good, by exit code."""
        self._known = known
        self._find_known(folder, work)

    def _find_known(self, folder: Folder, work: Kept) -> None:
        """Fill the database with all files, and for those that need not be read again, their stamp."""
        self._known.execute(
            "CREATE TABLE known (file TEXT PRIMARY KEY, stamp TEXT, code INTEGER, seen INTEGER DEFAULT 0)"
            " WITHOUT ROWID"
        )
        with connect(MEMORY) as connection, reading_parts(folder):
            add_views(connection, folder)
            rows = connection.execute(
                f"""
                SELECT file, max(stamp) FILTER (
                    WHERE work = ? AND settings = ? AND readers = ?::VARCHAR[]
                    AND (failure_kind IS NULL OR failure_kind IN ({", ".join("?" * len(_FINAL))}))
                ), max(CASE WHEN failure_kind IS NOT NULL THEN {FAILED} WHEN problems > 0 THEN {FOUND} ELSE {OK} END)
                    FILTER (WHERE work = ?)
                FROM {FILES} GROUP BY file ORDER BY file
                """,
                [work.name, work.settings, list(work.readers), *_FINAL, work.name],
            )
            self._known.execute("BEGIN")
            while chunk := rows.fetchmany(_AT_ONCE):
                self._known.executemany("INSERT INTO known (file, stamp, code) VALUES (?, ?, ?)", chunk)
            self._known.execute("COMMIT")

    def still_to_do(self, files: Sequence[File]) -> Sequence[File]:
        """Return those of some files that are new, changed, or were read by other versions or with other options."""
        found = []
        self._known.execute("BEGIN")
        for each in files:
            row = self._known.execute(
                "UPDATE known SET seen = 1 WHERE file = ? RETURNING stamp, code", [each.name]
            ).fetchone()
            if row is None or row[0] != each.stamp:
                found.append(each)
            else:
                self.unchanged[row[1]] += 1
        self._known.execute("COMMIT")
        return found

    def add(self, batch: str, pieces: Sequence[Packed]) -> None:
        """Keep all of some packed results, or nothing."""
        part = self._parts.next_part(batch)
        self._parts.write(part, _numbered(part, pieces))

    def forget_vanished(self, roots: Sequence[str], exists: Callable[[str], bool]) -> int:
        """Take files out of the catalogue that were not offered to `still_to_do` and are gone, and return how many.

        Args:
            roots: the beginnings of the names that were looked for; others stay.
            exists: whether there is a file of a name.
        """
        count = 0
        for root in roots:
            names = self._known.execute(
                "SELECT file FROM known WHERE seen = 0 AND substr(file, 1, ?) = ? ORDER BY file",
                [len(root), root],
            )
            while chunk := [row[0] for row in names.fetchmany(_AT_ONCE)]:
                gone = [{"file": name, "work": GONE, "stamp": ""} for name in chunk if not exists(name)]
                if gone:
                    part = self._parts.next_part(GONE)
                    self._parts.write(part, _numbered(part, [{FILES: gone}]))
                    count += len(gone)
        return count

    def tidy(self) -> None:
        """Drop the rows that no longer count, if they are a third of all or more."""
        if not self._parts.has_written:
            return
        present = self._parts.present()
        if self._parts.readings - len(present) > self._parts.readings // 3:
            self._parts.compact(present)


def _numbered(part: str, pieces: Sequence[Packed | Mapping[str, Any]]) -> dict[str, pa.Table]:
    """Return the rows of pieces by table, with the numbers of their readings, and when they were written."""
    first = int(part.partition("-")[0]) * READS_A_PART
    found: dict[str, list[pa.Table]] = {}
    for piece in pieces:
        readings = 0
        for table in TABLES.keys() & piece.keys():
            rows = decode_rows(table, piece[table])
            if table == FILES:
                readings = rows.num_rows
                rows = _with(rows, "read_at", pa.scalar(datetime.now(UTC).replace(tzinfo=None)))
            if rows.num_rows:
                reads = pc.add(pc.coalesce(rows["read"], pa.scalar(0, pa.int64())), first)
                found.setdefault(table, []).append(_with(rows, "read", reads))
        first += readings
    return {table: pa.concat_tables(each) for table, each in found.items()}


def _with(rows: pa.Table, column: str, value: Any) -> pa.Table:
    index = rows.schema.get_field_index(column)
    values = pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value
    return rows.set_column(index, rows.schema.field(index), values)
