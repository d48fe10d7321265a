"""Views of DuckDB with the present state of a catalogue.

A reading counts if it is the newest of its file for its work, and if the file still is as it was then: as the newest reading of
any work found it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb

from graphwire.errors import ArchiveError
from graphwire_fleet.catalogue.folders import Folder
from graphwire_fleet.catalogue.parts import (
    Commit,
    UnreadablePartError,
    check_schema,
    commits_of,
    file_of,
    part_named_in,
)
from graphwire_fleet.tables import FILES, TABLES

GONE: Final = "gone"
"""The work of a row that takes a file out of the catalogue."""

_DAMAGE: Final = (duckdb.Error, duckdb.IOException, duckdb.InternalException, duckdb.FatalException)
"""What DuckDB raises for a damaged file, without its name."""
_AT_ONCE: Final = 10_000
_GLOB: Final = re.compile(r"[*?\[]")
_PRESENT: Final = """
    CREATE TEMP TABLE {name} AS
    WITH newest AS (SELECT file, arg_max(stamp, read) AS stamp FROM {files} GROUP BY file)
    SELECT max(read) AS read FROM {files} JOIN newest USING (file, stamp) WHERE work <> '{gone}' GROUP BY file, work
"""


@contextmanager
def connect(memory: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A context with a connection without any file, extension or variable of Python.

    Args:
        memory: the memory that it takes at most, such as `256MB`; what does not fit goes to temporary files.
    """
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "preserve_insertion_order": False,
    }
    if memory is not None:
        settings["memory_limit"] = memory
    # SQL may read this folder, even where it may read no other files: nothing else must be in it.
    with (
        TemporaryDirectory(prefix="graphwire-fleet-") as temporary,
        duckdb.connect(":memory:", config={**settings, "temp_directory": temporary}) as connection,
    ):
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def add_views(connection: duckdb.DuckDBPyConnection, folder: Folder, schema: str = "main") -> list[str]:
    """Add the tables of a catalogue as views, and return the paths of the files that they read.

    Args:
        connection: gets the views.
        folder: the folder of the catalogue.
        schema: the schema of the views: a plain name.

    Raises:
        ArchiveError: the folder is no catalogue, is damaged, or has another version.
    """
    with reading_parts(folder):
        return _add_views(connection, folder, schema)


def _add_views(connection: duckdb.DuckDBPyConnection, folder: Folder, schema: str) -> list[str]:
    check_schema(folder)
    commits = commits_of(folder)
    if folder.file_system is not None:
        _register(connection, folder.file_system)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    paths = {name: _paths(folder, commits, name) for name in TABLES}
    for name, table in TABLES.items():
        if not paths[name]:
            connection.register("nothing", table.schema().empty_table())
            connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS no_{name} AS SELECT * FROM nothing")
            connection.unregister("nothing")
        connection.execute(f"CREATE VIEW {schema}.every_{name} AS {_all_rows(name, paths[name])}")
    present = f"present_{schema}"
    connection.execute(_PRESENT.format(name=present, files=f"{schema}.every_{FILES}", gone=GONE))
    for name in TABLES:
        connection.execute(
            f"CREATE VIEW {schema}.{name} AS SELECT * FROM {schema}.every_{name} SEMI JOIN temp.{present} USING (read)"
        )
    # DuckDB compares a file with both: the pattern that it was given, and what that matches.
    return [name for each in paths.values() for path in each for name in {path, _as_pattern(path)}]


@contextmanager
def reading_parts(*folders: Folder) -> Iterator[None]:
    """A context in which DuckDB's errors become `UnreadablePartError` if a part is damaged, and otherwise `ArchiveError`."""
    try:
        yield
    except duckdb.Error as error:
        check_damage(error, *folders)
        raise ArchiveError(
            f"the rows of a catalogue cannot be read: {_first_line(error)}",
            remedy="Make room in the folder for temporary files (TMPDIR), or make the catalogue anew",
        ).of(", ".join(each.name for each in folders)) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def check_damage(error: duckdb.Error, *folders: Folder) -> None:
    """Find the damaged part that is why DuckDB raised an error.

    Args:
        error: the error.
        folders: the catalogues. Where the error names no file, each of theirs is read.

    Raises:
        UnreadablePartError: a part is why.
    """
    part = part_named_in(str(error))
    if part is not None:
        raise UnreadablePartError(part, _first_line(error)) from error
    if type(error) in _DAMAGE or "Parquet" in str(error):
        for folder in folders:
            _check_parts(folder)


def _check_parts(folder: Folder) -> None:
    """Read all parts of a catalogue.

    Raises:
        UnreadablePartError: one cannot be read.
    """
    with connect() as connection:
        if folder.file_system is not None:
            _register(connection, folder.file_system)
        commits = commits_of(folder)
        for name in TABLES:
            for each in commits:
                try:
                    for path in _paths(folder, [each], name):
                        rows = connection.execute(_all_rows(name, [path]))
                        while rows.fetchmany(_AT_ONCE):
                            pass
                except duckdb.Error as error:
                    raise UnreadablePartError(each.part, _first_line(error)) from error


def _paths(folder: Folder, commits: Sequence[Commit], table: str) -> list[str]:
    return [folder.path(file_of(table, each.part)) for each in commits if each.rows.get(table)]


def _all_rows(table: str, paths: Sequence[str]) -> str:
    # The folders of a path such as `file=x/catalogue` would be columns, in the place of those that the rows have.
    listed = ", ".join(_quoted(_as_pattern(each)) for each in paths)
    read = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"
    return read if paths else f"SELECT * FROM temp.no_{table}"


def _as_pattern(path: str) -> str:
    """Return the pattern that matches a path alone: DuckDB takes every name for one."""
    return _GLOB.sub(r"[\g<0>]", path)


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _register(connection: duckdb.DuckDBPyConnection, file_system: Any) -> None:
    protocol = file_system.protocol
    names = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    if not any(connection.filesystem_is_registered(name) for name in names):
        connection.register_filesystem(file_system)


def lock_down(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """Let SQL read these files and no others, and change no setting."""
    listed = ", ".join(map(_quoted, paths))
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
