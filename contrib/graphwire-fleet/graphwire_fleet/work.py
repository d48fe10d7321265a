"""What is done with each file of a fleet, and what comes of it.

`Work` runs in a worker process, one file at a time; the engine (`graphwire_fleet.engine`) cuts files into batches and runs them.
The worker also packs the results of several files into bytes, so that the process of the caller only writes them: one consumer
gets the packed results of whole batches there, and commits them atomically.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""A row of a table, by column."""

Packed: TypeAlias = Mapping[str, bytes]
"""The rows of several files, by table: an encoding of the work's own choice, such as a stream of Arrow."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a fleet."""

    name: str
    """Its absolute path, or its URL without secrets: its identity in a catalogue. It is valid Unicode: bytes of a path that are
    not UTF-8 are escaped."""
    source: str
    """What `graphwire.open` takes: the path, or the whole URL."""
    below: str
    """Its path below the folder or prefix that the command line names, with `/`. Bytes that are not UTF-8 are surrogates."""
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
    """What is done with a file. It is pickled to the workers, so it holds plain values only.

    It may be called twice for a file, if the first process died before its results arrived; only one result is kept.
    """

    def __call__(self, file: File) -> Result:
        """Do it, and return what came of it. What it raises becomes the failure of the file."""
        ...

    def pack(self, results: Sequence[Result]) -> Packed:
        """Encode the rows of results, those that have a failure too, and return them by table.

        It is called in a worker for what `__call__` returned, and elsewhere for files whose process had to end.
        """
        ...


class Consumer(Protocol):
    """What keeps results: a catalogue. Its methods are called by one thread."""

    def still_to_do(self, files: Sequence[File]) -> Sequence[File]:
        """Return those of some files of whose current stamp there are no results.

        It is called chunk by chunk, in the order of the listing.
        """
        ...

    def add(self, batch: str, pieces: Sequence[Packed]) -> None:
        """Keep all of some packed results, or nothing if it fails or the process ends.

        Args:
            batch: a name that no other call has, in this run or another.
            pieces: what `Work.pack` returned. No file is in two.
        """
        ...
