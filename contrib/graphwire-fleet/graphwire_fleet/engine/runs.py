"""A run: files in, results to a consumer, counts out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice
from secrets import token_hex
from typing import Protocol

from graphwire.cli.files import FAILED, FOUND, OK
from graphwire.cli.terminal import Output
from graphwire.display import size_text
from graphwire_fleet.engine.batches import Counts, Done, cut, tapered
from graphwire_fleet.engine.pool import Pool, Workers
from graphwire_fleet.engine.progress import Progress
from graphwire_fleet.engine.quiet import quiet
from graphwire_fleet.work import Consumer, File, Work

_CHUNK = 1024
"""How many listed files the consumer is asked about at once."""
_AHEAD = 2
"""Batches for each worker that are running or waiting."""
_COMMIT_BATCHES, _COMMIT_BYTES, _COMMIT_SECONDS = 16, 64 << 20, 15.0
"""Results of so many batches of full length, of this size, or this old, are given to the consumer together: a run that is killed
loses no more."""
_WAIT = 0.25


class Files(Protocol):
    """Files, listed lazily."""

    def __iter__(self) -> Iterator[File]:
        """List them."""
        ...

    def counted(self) -> Iterator[File]:
        """List them once more, for their number."""
        ...


@dataclass
class Summary:
    """What a run did."""

    counts: Counts = field(default_factory=Counts)
    """What was read."""
    unchanged: int = 0
    """Files that the consumer had results of."""
    seconds: float = 0.0

    def report(self, output: Output) -> int:
        """Print the counts, and return the exit code: `FAILED` if a file failed, or else `FOUND` if one has a problem."""
        read = self.counts
        parts = [f"{read.files:,} files read in {self.seconds:,.1f} s"]
        if read.files:
            parts.append(f"{read.files / self.seconds:,.1f} files/s")
            parts.append(f"{size_text(int(read.nbytes / self.seconds))}/s")
        output.remark(f"{', '.join(parts)}; {self.unchanged:,} unchanged")
        for kind, count in read.failures.most_common():
            output.remark(f"{count:,} failed: {kind}")
        if read.rows["problems"]:
            output.remark(f"{read.rows['problems']:,} problems found")
        return FAILED if read.failures else FOUND if read.rows["problems"] else OK


def run(
    files: Files,
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

    Raises:
        FleetError: the workers do not start, or the cluster is not there.
    """
    with _ended_as_interrupted(), quiet(output) if ray else nullcontext():
        return _run(
            files,
            work,
            consumer,
            Progress(doing, output, files.counted),
            lambda: _workers(work, workers, ray, timeout, memory),
            batch_files,
            batch_bytes,
        )


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """A context in which a request to end, by the system or a scheduler, is an interrupt: what is finished is kept."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # Only that may handle signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(
    files: Files,
    work: Work,
    consumer: Consumer,
    progress: Progress,
    start: Callable[[], Workers],
    batch_files: int,
    batch_bytes: int,
) -> Summary:
    begin, summary = time.monotonic(), Summary()
    commits = _Commits(consumer, batch_files * _COMMIT_BATCHES)
    try:
        batches = cut(_still_to_do(files, consumer, summary, progress), batch_files, batch_bytes)
        first = next(batches, None)
        if first is not None:
            running = start()
            try:
                for done in _results(first, batches, running, progress):
                    summary.counts.add(done.counts)
                    commits.add(done)
            finally:
                try:
                    running.close()
                finally:
                    commits.flush()  # What was done before an interrupt is kept.
    finally:
        progress.end()
    summary.seconds = time.monotonic() - begin
    return summary


def _workers(work: Work, count: int | None, ray: str | None, seconds: float, memory: int | None) -> Workers:
    if ray is None:
        return Pool(work, count, seconds, memory)
    from graphwire_fleet.engine.ray_workers import RayWorkers

    return RayWorkers(work, count, seconds, memory, ray)


def _results(
    first: list[File], batches: Iterator[list[File]], running: Workers, progress: Progress
) -> Iterator[Done]:
    """Keep the workers busy, with a bounded number of batches, and return what came of each."""
    small = tapered(chain([first], batches), running.count)
    following = next(small, None)
    in_flight = 0
    while True:
        while following is not None and in_flight < _AHEAD * running.count:
            running.submit(following)
            in_flight += 1
            following = next(small, None)
        if not in_flight:
            return
        done = running.next_done(_WAIT)
        if done is not None:
            in_flight -= 1
            progress.add(done.counts)
            yield done
        progress.show()


class _Commits:
    """Gathers the results of batches, and gives them to a consumer together.

    Args:
        consumer: the consumer.
        most_files: how many results it is given at once.
    """

    def __init__(self, consumer: Consumer, most_files: int) -> None:
        self._most_files = most_files
        self._consumer = consumer
        self._run = token_hex(6)
        self._number = 0
        self._gathered = Done()
        self._since = time.monotonic()

    def add(self, done: Done) -> None:
        """Add what came of a batch."""
        if not self._gathered.pieces:
            self._since = time.monotonic()
        self._gathered.pieces += done.pieces
        self._gathered.counts.add(done.counts)
        if (
            self._gathered.counts.files >= self._most_files
            or self._gathered.nbytes >= _COMMIT_BYTES
            or time.monotonic() - self._since > _COMMIT_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Give the consumer all that is gathered."""
        gathered, self._gathered, self._since = self._gathered, Done(), time.monotonic()
        if gathered.pieces:
            self._number += 1
            self._consumer.add(f"{self._run}-{self._number:06}", gathered.pieces)


def _still_to_do(files: Files, consumer: Consumer, summary: Summary, progress: Progress) -> Iterator[File]:
    listed = iter(files)
    while chunk := list(islice(listed, _CHUNK)):
        todo = consumer.still_to_do(chunk)
        summary.unchanged += len(chunk) - len(todo)
        progress.skip(
            len(chunk) - len(todo), sum(each.nbytes for each in chunk) - sum(each.nbytes for each in todo)
        )
        progress.show()
        yield from todo
