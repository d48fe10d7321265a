"""Encodes rows as Arrow tables. Workers do it, so that whoever collects their results only copies bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from graphwire_fleet.tables.columns import TABLES
from graphwire_fleet.work import Row

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def encode_rows(table: str, rows: Sequence[Row]) -> bytes:
    """Return rows as an Arrow stream. Columns that a row lacks are null."""
    encoded = rows_table(table, rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, encoded.schema) as stream:
        stream.write_table(encoded)
    return bytes(sink.getvalue().to_pybytes())


def decode_rows(table: str, rows: Sequence[Row] | bytes) -> pa.Table:
    """Return the Arrow table of rows, encoded or not."""
    if isinstance(rows, bytes):
        with pa.ipc.open_stream(rows) as stream:
            return stream.read_all()
    return rows_table(table, rows)


def rows_table(table: str, rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table. What Arrow cannot hold is made to fit: see `_fitting`."""
    schema = TABLES[table].schema()
    convert = partial(pa.Table.from_pylist, schema=schema)
    try:
        return convert(list(rows))
    except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
        return convert([_fitting(dict(each)) for each in rows])


def _fitting(value: Any) -> Any:
    """Return a value that Arrow can hold: texts as UTF-8 with escapes for what is not, no integers beyond 64 bits."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case int():
            return value if _LEAST <= value <= _MOST else None
        case dict():
            return {key: _fitting(item) for key, item in value.items()}
        case list() | tuple():
            return [
                tuple(map(_fitting, item)) if isinstance(item, tuple) else _fitting(item) for item in value
            ]
    return value
