"""What is done with each file of a fleet, and what comes of it.

`Work` runs in a worker process, one file at a time; the engine (`graphwire_fleet.engine`) cuts files into batches, runs them, and
hands the results of a whole batch to one consumer, in the process of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

__all__ = ["Failure", "File", "Result", "Row", "Work"]

Row: TypeAlias = Mapping[str, Any]
"""A row of a table, by column."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a fleet."""

    name: str
    """Its absolute path, or its URL without secrets: its identity in a catalogue."""
    source: str
    """What `graphwire.open` takes: the path, or the whole URL."""
    below: str
    """Its path below the folder or prefix that the command line names, with `/`."""
    nbytes: int
    stamp: str
    """Changes whenever the file changes: size and time of modification, or the store's entity tag."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing, or not everything, came of a file."""

    kind: str
    """The name of the error's class; `Timeout`, `OutOfMemory` or `WorkerDied` if the process that read the file had to end."""
    message: str
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one file."""

    file: File
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows, by the table that they belong to."""
    failure: Failure | None = None
    seconds: float = 0.0


class Work(Protocol):
    """What is done with a file. It is pickled to the workers, so it holds plain values only."""

    def __call__(self, file: File) -> Result:
        """Do it, and return what came of it. What it raises becomes the failure of the file."""
        ...
