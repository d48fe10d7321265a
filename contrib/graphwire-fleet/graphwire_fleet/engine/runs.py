"""A run: files in, results to a consumer, counts out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from secrets import token_hex

from graphwire.cli.files import FOUND, OK
from graphwire.cli.terminal import Output
from graphwire_fleet.work import Consumer, Failure, File, Result, Work

__all__ = ["Summary", "run"]

_CHUNK = 1024


@dataclass
class Summary:
    """What a run did."""

    done: int = 0
    """Files that were read."""
    unchanged: int = 0
    """Files that the consumer had results of."""
    failures: Counter[str] = field(default_factory=Counter)
    """Files that failed, by the kind of failure."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows, by table."""

    def report(self, output: Output) -> int:
        """Print the counts, and return the exit code."""
        output.remark(f"{self.done:,} files read, {self.unchanged:,} unchanged")
        for kind, count in self.failures.most_common():
            output.remark(f"{count:,} failed: {kind}")
        return FOUND if self.failures or self.rows["problem"] else OK


def run(
    files: Iterable[File],
    work: Work,
    consumer: Consumer,
    output: Output,
    *,
    doing: str,
    workers: int | None = None,
    ray: str | None = None,
    timeout: float = 120.0,
    memory: int | None = None,
    batch_files: int = 64,
    batch_bytes: int = 256 << 20,
) -> Summary:
    """Do work on files, and give the results to a consumer.

    Args:
        files: the files. They are listed while others are worked on.
        work: what is done with each.
        consumer: what keeps the results, and knows those of earlier runs.
        output: where progress is shown.
        doing: what is done, for the progress.
        workers: how many files are worked on at once; None for one a CPU.
        ray: the address of a cluster of Ray, `auto`, or `local`; None for processes on this machine.
        timeout: seconds for a file, to which its size adds one for each 4 MiB.
        memory: bytes of memory for a file; None for the machine's, divided by the workers.
        batch_files: the most files of a batch.
        batch_bytes: the size of files at which a batch ends.
    """
    _ = workers, ray, timeout, memory, batch_bytes
    summary, name = Summary(), token_hex(6)
    todo = _still_to_do(files, consumer, summary)
    for number, batch in enumerate(iter(lambda: list(islice(todo, batch_files)), [])):
        results = [_result(work, file) for file in batch]
        for each in results:
            summary.done += 1
            summary.rows.update({table: len(rows) for table, rows in each.tables.items()})
            if each.failure:
                summary.failures[each.failure.kind] += 1
        consumer.add(f"{name}-{number:06}", [work.pack(results)])
    return summary


def _still_to_do(files: Iterable[File], consumer: Consumer, summary: Summary) -> Iterator[File]:
    listed = iter(files)
    while chunk := list(islice(listed, _CHUNK)):
        todo = consumer.still_to_do(chunk)
        summary.unchanged += len(chunk) - len(todo)
        yield from todo


def _result(work: Work, file: File) -> Result:
    begin = time.perf_counter()
    try:
        return work(file)
    except Exception as error:  # noqa: BLE001 - a failure is a row
        return Result(
            file, failure=Failure(type(error).__name__, str(error)), seconds=time.perf_counter() - begin
        )
