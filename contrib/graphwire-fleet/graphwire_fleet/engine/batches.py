"""Cuts files into batches, and says what came of one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from graphwire_fleet.work import File, Packed, Result

_BYTES_A_SECOND = 4 << 20
_LAST_PIECES = 2, 4, 8
"""Into how many pieces the last batches are cut, those in the middle and the last ones."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What work on one file may take."""

    seconds: float
    """The time; a file's size adds a second for each 4 MiB."""
    memory: int
    """Bytes of memory, without what is mapped from files."""

    def seconds_for(self, file: File) -> float:
        """Return the time for a file."""
        return self.seconds + file.nbytes / _BYTES_A_SECOND


@dataclass
class Counts:
    """How much was done."""

    files: int = 0
    nbytes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Files that failed, by the kind of failure."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows, by table."""

    def add(self, other: Counts) -> None:
        """Add what else was done."""
        self.files += other.files
        self.nbytes += other.nbytes
        self.failures += other.failures
        self.rows += other.rows

    @classmethod
    def of(cls, results: Sequence[Result]) -> Counts:
        """Return the counts of results."""
        counts = cls(len(results), sum(each.file.nbytes for each in results))
        for each in results:
            if each.failure is not None:
                counts.failures[each.failure.kind] += 1
            for table, rows in each.tables.items():
                counts.rows[table] += len(rows)
        return counts


@dataclass
class Done:
    """What came of a batch."""

    counts: Counts = field(default_factory=Counts)
    pieces: list[Packed] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """The size of the pieces."""
        return sum(len(data) for piece in self.pieces for data in piece.values())


def cut(files: Iterable[File], most_files: int, most_bytes: int) -> Iterator[list[File]]:
    """Return files in batches, in their order. A batch ends at either bound; a larger file is a batch of its own."""
    batch: list[File] = []
    nbytes = 0
    for file in files:
        if batch and (len(batch) == most_files or nbytes + file.nbytes > most_bytes):
            yield batch
            batch, nbytes = [], 0
        batch.append(file)
        nbytes += file.nbytes
    if batch:
        yield batch


def tapered(batches: Iterable[list[File]], workers: int) -> Iterator[list[File]]:
    """Return batches, the last ones in smaller and smaller pieces, so that all workers end at the same time."""
    ahead: deque[list[File]] = deque()
    last = workers * len(_LAST_PIECES)
    for batch in batches:
        ahead.append(batch)
        if len(ahead) > last:
            yield ahead.popleft()
    for index, batch in enumerate(ahead, start=last - len(ahead)):
        size = -(-len(batch) // _LAST_PIECES[index // workers])
        yield from (batch[begin : begin + size] for begin in range(0, len(batch), size))
