"""Prints an answer as a table, CSV or JSON, or writes it to a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from graphwire.cli.terminal import Output, Section
from graphwire_fleet.asking.answers import Answer, QueryError

__all__ = ["print_answer", "write_answer"]

_MOST_SHOWN = 1_000
"""The rows that a table shows at most."""
_MOST_TEXT = 300
"""The characters that a cell of it shows at most."""


def print_answer(answer: Answer, output: Output, form: str) -> None:
    """Print the rows as a `table`, as `csv`, or as `json`: an object a line.

    Texts come from files that nobody vouches for, so nothing in them controls a terminal.
    """
    if form == "table":
        _print_table(answer, output)
        return
    stream = output.stdout
    encoding = stream.encoding or "utf-8"
    for line in _FORMS[form](answer):
        if stream.isatty():
            output.line(line)
        elif not output.quiet:
            stream.write(f"{line}\n".encode(encoding, "backslashreplace").decode(encoding))


def write_answer(answer: Answer, path: str) -> None:
    """Write the rows to a file `*.parquet`, `*.csv` or `*.json` (an object a line). It appears whole.

    Raises:
        QueryError: the name ends otherwise.
    """
    place = Path(path)
    form = place.suffix.removeprefix(".")
    if form not in ("parquet", *_FORMS):
        raise QueryError(f"{path!r:.200} names no format", remedy="Let it end with .parquet, .csv or .json")
    part = place.with_name(f".{place.name}.part")
    try:
        if form == "parquet":
            _write_parquet(answer, part)
        else:
            with part.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(f"{line}\n" for line in _FORMS[form](answer))
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _print_table(answer: Answer, output: Output) -> None:
    columns, found = answer.rows()
    rows: list[list[str]] = []
    more = False
    for row in found:
        if more := len(rows) == _MOST_SHOWN:
            break
        rows.append([_shortened(_text(each)) for each in row])
    output.sections([Section("", columns, rows)])
    if more:
        output.remark(f"… and more than these {_MOST_SHOWN:,}: --csv, --json and -o have all")
    elif not rows:
        output.remark("nothing")


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def _csv_lines(answer: Answer) -> Iterator[str]:
    columns, rows = answer.rows()
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line([_text(each) for each in row])


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _json_lines(answer: Answer) -> Iterator[str]:
    columns, rows = answer.rows()
    for row in rows:
        yield _json(dict(zip(columns, row, strict=True)))


def _write_parquet(answer: Answer, path: Path) -> None:
    batches = answer.batches()
    with pq.ParquetWriter(path, batches.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


_FORMS: Final[dict[str, Callable[[Answer], Iterator[str]]]] = {"csv": _csv_lines, "json": _json_lines}
