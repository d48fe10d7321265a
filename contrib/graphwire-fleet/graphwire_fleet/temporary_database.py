"""A database for one run, on this machine: it has what would take too much memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from graphwire.errors import ArchiveError


@contextmanager
def temporary_database() -> Iterator[sqlite3.Connection]:
    """A context with an empty database, which is removed at its end.

    Raises:
        ArchiveError: it cannot be read or written.
    """
    try:
        with TemporaryDirectory(prefix="graphwire-fleet-") as folder:
            connection = sqlite3.connect(Path(folder, "database.sqlite"), isolation_level=None)
            try:
                for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -16384"):
                    connection.execute(f"PRAGMA {setting}")
                yield connection
            finally:
                connection.close()
    except sqlite3.Error as error:
        raise ArchiveError(
            f"what is known of the files cannot be kept: {error}",
            remedy="Make room in this folder, or name another with TMPDIR",
        ).of(gettempdir()) from error
