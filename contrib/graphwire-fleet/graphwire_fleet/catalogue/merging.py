"""Merges parts of a catalogue to one, in memory that does not grow with their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from graphwire.errors import exception_text
from graphwire_fleet.catalogue.folders import Folder
from graphwire_fleet.catalogue.parts import Commit, UnreadablePartError, commit, file_of, remove_parts
from graphwire_fleet.tables import TABLES

_ROWS_A_GROUP = 1 << 16


def merge_parts(
    folder: Folder, commits: Sequence[Commit], part: str, present: pa.ChunkedArray | None = None
) -> Commit:
    """Write the rows of some parts as one part that replaces them, and return its commit.

    Args:
        folder: the folder of the catalogue.
        commits: the parts, in their order.
        part: the name of the new part.
        present: the numbers of the readings whose rows are kept; None keeps all.
    """
    rows: dict[str, int] = {}
    for name, table in TABLES.items():
        if parts := [each.part for each in commits if each.rows.get(name)]:
            count = 0
            with (
                folder.writing(file_of(name, part)) as stream,
                pq.ParquetWriter(stream, table.schema(), compression="zstd") as writer,
            ):
                for group in _groups(folder, name, parts, present):
                    writer.write_table(group)
                    count += group.num_rows
            rows[name] = count
    level = 1 + max(each.level for each in commits)
    made = Commit(part, rows, level, [each.part for each in commits])
    commit(folder, made)
    remove_parts(folder, {each.part: tuple(each.rows) for each in commits})
    return made


def _groups(
    folder: Folder, table: str, parts: Sequence[str], present: pa.ChunkedArray | None
) -> Iterator[pa.Table]:
    """Yield the rows of one table of several parts, in groups of a good size for reading."""
    held: list[pa.Table] = []
    count = 0
    for part in parts:
        for found in _rows(folder, table, part):
            rows = found if present is None else found.filter(pc.is_in(found["read"], value_set=present))
            held.append(rows)
            count += rows.num_rows
            if count >= _ROWS_A_GROUP:
                yield pa.concat_tables(held)
                held, count = [], 0
    if count:
        yield pa.concat_tables(held)


def _rows(folder: Folder, table: str, part: str) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(folder.path(file_of(table, part)), filesystem=folder.file_system) as file:
            for batch in file.iter_batches(_ROWS_A_GROUP):
                yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise UnreadablePartError(part, exception_text(error)) from error
