"""Asks catalogues: one query, which reads them and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb

from graphwire.errors import GraphwireError
from graphwire_fleet.catalogue import (
    UnreadablePartError,
    add_views,
    check_damage,
    connect,
    folder_at,
    lock_down,
)
from graphwire_fleet.tables import FILES

ROWS_AT_ONCE = 1_000
_ATTEMPTS, _WAIT = 10, 0.05
"""How often a query begins at most, if a writer removes parts that it is about to read, and seconds between."""


class QueryError(GraphwireError):
    """A query is wrong, or does what queries must not."""


@dataclass(slots=True)
class Answer:
    """A query that may run: for its rows, or for batches of Arrow."""

    connection: duckdb.DuckDBPyConnection
    sql: str
    values: Mapping[str, Any]
    passed_on: bool = False
    """Whether it has rows, and somebody has some of them already, so that asking again would give them twice."""

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
            while chunk := self.connection.fetchmany(ROWS_AT_ONCE):
                self.passed_on = True
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
            return read(ROWS_AT_ONCE)


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
    values: Mapping[str, Any] | Callable[[Callable[[str], list[Any]]], Mapping[str, Any]] | None = None,
    works: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    locked: bool = True,
) -> bool:
    """Ask catalogues, pass the answer on, and return whether it has rows.

    If a writer merges the parts meanwhile, they are asked again.

    Args:
        places: their folders, by the schema of their views.
        sql: the query.
        give: is called with the answer.
        values: the values of `$…` in the query; or a function that returns them, called with another that returns the first
            column of a query.
        works: what the files must have been read for.
        storage_options: what the file systems of URLs take.
        locked: whether SQL only reads the catalogues.

    Raises:
        QueryError: the query is wrong, or the catalogues lack what it needs.
        As `opened`.
    """
    for left in reversed(range(_ATTEMPTS)):
        asked = None
        try:
            with opened(places, storage_options, locked=locked) as connection:
                for schema, place in places.items():
                    _check_works(connection, schema, place, works)
                given = values(partial(_column, connection)) if callable(values) else values
                asked = ask(connection, sql, given, locked=locked)
                give(asked)
                return asked.passed_on
        except GraphwireError as error:
            damage = _damage(error, places, storage_options)
            if damage is None:
                raise
            if not left or not _is_gone(damage) or (asked is not None and asked.passed_on):
                raise damage from error
            time.sleep(_WAIT)
    raise AssertionError("the last attempt returns or raises")


def _column(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    with _wrong_query():
        return [row[0] for row in connection.execute(sql).fetchall()]


def _damage(
    error: GraphwireError, places: Mapping[str, str], storage_options: Mapping[str, Any] | None
) -> UnreadablePartError | None:
    """Return the damage of a part that is why a query failed; None if there is none."""
    if isinstance(error, UnreadablePartError):
        return error
    if isinstance(error.__cause__, duckdb.Error):
        try:
            check_damage(error.__cause__, *(folder_at(each, storage_options) for each in places.values()))
        except UnreadablePartError as found:
            return found
    return None


def _is_gone(error: UnreadablePartError) -> bool:
    """Whether a file of a part was gone. DuckDB takes the name of one for that of a folder, which it may not list."""
    return isinstance(error.__cause__, duckdb.IOException | duckdb.PermissionException)


def _check_works(
    connection: duckdb.DuckDBPyConnection, schema: str, place: str, works: Sequence[str]
) -> None:
    with _wrong_query():
        found = connection.execute(f"SELECT DISTINCT work FROM {schema}.{FILES}").fetchall()
    for work in works:
        if (work,) not in found:
            raise QueryError(
                f"no file of the catalogue was read for `{work}`",
                remedy=f"Run `graphwire fleet {work} PATTERN -o {place}` first",
            ).of(place)
