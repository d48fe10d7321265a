"""Views of DuckDB with the present state of a catalogue.

A reading counts if it is the newest of its file for its work, and if the file still is as it was then: as the newest reading of
any work found it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb

from graphwire_fleet.catalogue.folders import Folder
from graphwire_fleet.catalogue.parts import Commit, check_schema, commits_of, file_of
from graphwire_fleet.tables import FILES, TABLES

__all__ = ["GONE", "add_views", "connect", "lock_down"]

GONE: Final = "gone"
"""The work of a row that takes a file out of the catalogue."""

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
    return [path for each in paths.values() for path in each]


def _paths(folder: Folder, commits: Sequence[Commit], table: str) -> list[str]:
    return [folder.path(file_of(table, each.part)) for each in commits if each.rows.get(table)]


def _all_rows(table: str, paths: Sequence[str]) -> str:
    listed = ", ".join(map(_quoted, paths))
    return f"SELECT * FROM read_parquet([{listed}])" if paths else f"SELECT * FROM temp.no_{table}"


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
