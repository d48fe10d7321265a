"""Writes the parts of a catalogue, and merges them as they become many."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from graphwire_fleet.catalogue.folders import Folder
from graphwire_fleet.catalogue.merging import merge_parts
from graphwire_fleet.catalogue.parts import Commit, commit, commits_of, sweep, write_rows
from graphwire_fleet.catalogue.views import add_views, connect, reading_parts
from graphwire_fleet.tables import FILES

MEMORY: Final = "256MB"
"""The memory of DuckDB in a process that writes."""
_MOST_PARTS: Final = 32
"""The number of parts of one level that are merged to one of the next."""


class PartWriter:
    """The only writer of a folder. What a killed one left is removed."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._commits = commits_of(folder)
        self.has_written = False
        """Whether there are new rows."""
        sweep(folder, self._commits)

    @property
    def readings(self) -> int:
        """The number of rows of `files`, also of those that no longer count."""
        return sum(each.rows.get(FILES, 0) for each in self._commits)

    def next_part(self, batch: str) -> str:
        """Return a name for a new part, with the name of its batch."""
        number = 1 + max((each.number for each in self._commits), default=0)
        return f"{number:08}-{batch}-{os.urandom(4).hex()}"

    def write(self, part: str, rows: Mapping[str, pa.Table]) -> None:
        """Write a part, by table. It is visible as a whole, or not at all."""
        for table, each in rows.items():
            write_rows(self._folder, table, part, each)
        made = Commit(part, {table: each.num_rows for table, each in rows.items()})
        commit(self._folder, made)
        self._commits.append(made)
        self.has_written = True
        level = 0
        while len(small := [each for each in self._commits if each.level == level]) >= _MOST_PARTS:
            self._merge(small, None)
            level += 1

    def present(self) -> pa.ChunkedArray:
        """Return the numbers of the readings that count."""
        with connect(MEMORY) as connection, reading_parts(self._folder):
            add_views(connection, self._folder)
            return connection.sql("SELECT read FROM temp.present_main").to_arrow_table()["read"]

    def compact(self, present: pa.ChunkedArray | None = None) -> None:
        """Merge all parts to one, with the rows that count."""
        if self._commits:
            self._merge(self._commits, self.present() if present is None else present)

    def _merge(self, commits: Sequence[Commit], present: pa.ChunkedArray | None) -> None:
        made = merge_parts(self._folder, commits, self.next_part("merged"), present)
        merged = {each.part for each in commits}
        self._commits = [*(each for each in self._commits if each.part not in merged), made]
