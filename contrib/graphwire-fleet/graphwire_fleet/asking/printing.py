"""Prints an answer as a table, CSV or JSON, or writes it to a file."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

from graphwire.cli.terminal import Output
from graphwire.display import Section
from graphwire.wire.archive.atomic_file import atomic_write
from graphwire_fleet.asking.answers import Answer, QueryError
from graphwire_fleet.whole_files import not_writable

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
        QueryError: the name ends otherwise, the file would be one of a catalogue, or columns have the same name.
        ArchiveError: it cannot be written.
    """
    place = Path(path)
    form = place.suffix.removeprefix(".")
    if form not in ("parquet", *_FORMS):
        raise QueryError(f"{path!r:.200} names no format", remedy="Let it end with .parquet, .csv or .json")
    folder = place.absolute().parent.resolve()
    if any(
        (each / ".lock").exists() and (each / "catalogue.json").exists() for each in (folder, folder.parent)
    ):
        raise QueryError("this folder has a catalogue", remedy="Name a file elsewhere").of(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(place) as file:
            stream = io.BufferedWriter(file)
            if form == "parquet":
                _write_parquet(answer, stream)
            else:
                stream.writelines(f"{line}\n".encode() for line in _FORMS[form](answer))
            stream.detach()  # The file is closed when its bytes are on the disk.
    except OSError as error:
        raise not_writable(path, error) from error


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
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=str)


def _finite(value: Any) -> Any:
    """Return a value whose numbers are those of JSON: others are texts, such as `"inf"`."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _check_names(columns: Sequence[str]) -> None:
    """Check that no two columns have one name, which a reader would lose."""
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise QueryError(f"several columns are named {twice[0]!r}", remedy="Name them with AS")


def _csv_lines(answer: Answer) -> Iterator[str]:
    columns, rows = answer.rows()
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line([_text(each) for each in row])


def _csv_line(cells: list[str]) -> str:
    line, end = io.StringIO(), "\r\n"
    # Only characters of the line terminator are quoted: with another, a line break in a text would begin a row.
    csv.writer(line, lineterminator=end).writerow(cells)
    return line.getvalue().removesuffix(end)


def _json_lines(answer: Answer) -> Iterator[str]:
    columns, rows = answer.rows()
    _check_names(columns)
    for row in rows:
        yield _json(dict(zip(columns, row, strict=True)))


def _write_parquet(answer: Answer, stream: BinaryIO) -> None:
    batches = answer.batches()
    _check_names(batches.schema.names)
    with pq.ParquetWriter(stream, batches.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            answer.passed_on = answer.passed_on or batch.num_rows > 0


_FORMS: Final[dict[str, Callable[[Answer], Iterator[str]]]] = {"csv": _csv_lines, "json": _json_lines}
