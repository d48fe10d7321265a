"""Asks a catalogue, and prints the answer or writes it to a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import duckdb

from graphwire.cli.terminal import Output, Section
from graphwire.errors import GraphwireError
from graphwire_fleet.catalogue import add_views, connect, folder_at, lock_down
from graphwire_fleet.tables import FILES

__all__ = ["Answer", "QueryError", "answer", "ask", "opened", "print_answer", "write_answer"]

_ROWS_AT_ONCE = 1_000
_ATTEMPTS = 5
"""How often a query begins at most, if a writer removes parts that it is about to read."""
_MOST_SHOWN = 1_000
"""The rows that a table on the terminal shows at most."""
_MOST_TEXT = 300
"""The characters that a cell of it shows at most."""


class QueryError(GraphwireError):
    """A query is wrong, or does what queries must not."""


class Answer(NamedTuple):
    """A query that may run: for its rows, or for batches of Arrow."""

    connection: duckdb.DuckDBPyConnection
    sql: str
    values: Mapping[str, Any]

    def rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Run the query, and return its columns and its rows.

        Raises:
            QueryError: it fails.
        """
        with _wrong_query():
            self.connection.execute(self.sql, dict(self.values))
            columns = [each[0] for each in self.connection.description or ()]
        return columns, self._fetched()

    def _fetched(self) -> Iterator[tuple[Any, ...]]:
        with _wrong_query():
            while chunk := self.connection.fetchmany(_ROWS_AT_ONCE):
                yield from chunk

    def batches(self) -> Any:
        """Run the query, and return a reader of Arrow.

        Raises:
            QueryError: it fails, or has no rows.
        """
        with _wrong_query():
            relation = self.connection.sql(self.sql, params=dict(self.values))
            if relation is None:
                raise QueryError("the statement has no rows")
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # its older name
            return read(_ROWS_AT_ONCE)


@contextmanager
def _wrong_query() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        remedy = "`graphwire fleet columns` lists the tables and their columns"
        raise QueryError(str(error).strip(), remedy=remedy) from error


@contextmanager
def opened(
    places: Mapping[str, str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    locked: bool = True,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A context with a connection to catalogues.

    Args:
        places: their folders, by the schema of their views.
        storage_options: what the file systems of URLs take.
        locked: whether SQL reads no other files.

    Raises:
        ArchiveError: a folder is no catalogue, is damaged, or has another version.
    """
    with connect() as connection:
        with _wrong_query():
            paths = [
                path
                for schema, place in places.items()
                for path in add_views(connection, folder_at(place, storage_options), schema)
            ]
        if locked:
            lock_down(connection, paths)
        yield connection


def ask(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    values: Mapping[str, Any] | None = None,
    *,
    locked: bool = True,
) -> Answer:
    """Return one query, which has not run yet.

    Args:
        connection: from `opened`.
        sql: the query.
        values: the values of `$…` in it.
        locked: whether it may only select.

    Raises:
        QueryError: it is wrong, or not one query.
    """
    with _wrong_query():
        statements = connection.extract_statements(sql)
    if locked and [each.type.name for each in statements] != [
        "SELECT"
    ]:  # EXPLAIN ANALYZE runs what it explains.
        raise QueryError("this is not one query", remedy="Give one SELECT; a catalogue is only read")
    used = {name: (values or {})[name] for each in statements for name in each.named_parameters}
    return Answer(connection, sql, used)


def answer(
    places: Mapping[str, str],
    sql: str,
    give: Callable[[Answer], None],
    *,
    values: Mapping[str, Any] | None = None,
    works: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    locked: bool = True,
) -> None:
    """Ask catalogues, and pass the answer on. If a writer merges the parts meanwhile, they are asked again.

    Args:
        places: their folders, by the schema of their views.
        sql: the query.
        give: is called with the answer.
        values: the values of `$…` in the query.
        works: what the files must have been read for.
        storage_options: what the file systems of URLs take.
        locked: whether SQL only reads the catalogues.

    Raises:
        QueryError: the query is wrong, or the catalogues lack what it needs.
        As `opened`.
    """
    for left in reversed(range(_ATTEMPTS)):
        try:
            with opened(places, storage_options, locked=locked) as connection:
                for schema, place in places.items():
                    _check_works(connection, schema, place, works)
                give(ask(connection, sql, values, locked=locked))
                return
        except QueryError as error:
            if not left or not isinstance(error.__cause__, duckdb.IOException):
                raise


def _check_works(
    connection: duckdb.DuckDBPyConnection, schema: str, place: str, works: Sequence[str]
) -> None:
    found = connection.execute(f"SELECT DISTINCT work FROM {schema}.{FILES}").fetchall()
    for work in works:
        if (work,) not in found:
            raise QueryError(
                f"no file of the catalogue was read for `{work}`",
                remedy=f"Run `graphwire fleet {work} PATTERN -o {place}` first",
            ).of(place)


# ------------------------------------------------------------------------------------------------------------- output


def print_answer(answer: Answer, output: Output, form: str) -> None:
    """Print the rows as a `table`, as `csv`, or as `json`: an object a line."""
    if form == "table":
        _print_table(answer, output)
    elif not output.quiet:
        _FORMS[form](answer, output.stdout)


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
                _FORMS[form](answer, stream)
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
        rows.append([_text(each) for each in row])
    output.sections([Section("", columns, rows)])
    if more:
        output.remark(f"… and more than these {_MOST_SHOWN:,}: --csv, --json and -o have all")
    elif not rows:
        output.remark("nothing")


def _text(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else _json(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def _write_csv(answer: Answer, stream: IO[str]) -> None:
    columns, rows = answer.rows()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            ["" if each is None else each if isinstance(each, str) else _json(each) for each in row]
        )


def _write_json(answer: Answer, stream: IO[str]) -> None:
    columns, rows = answer.rows()
    for row in rows:
        stream.write(f"{_json(dict(zip(columns, row, strict=True)))}\n")


def _write_parquet(answer: Answer, path: Path) -> None:
    import pyarrow.parquet as pq

    batches = answer.batches()
    with pq.ParquetWriter(path, batches.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


_FORMS: Final[dict[str, Callable[[Answer, IO[str]], None]]] = {"csv": _write_csv, "json": _write_json}
