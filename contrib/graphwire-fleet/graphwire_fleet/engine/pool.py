"""Runs batches in processes on this machine: a thread for each drives it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Protocol

from graphwire_fleet.engine.batches import Bounds, Done
from graphwire_fleet.engine.bounded import Bounded, FleetError
from graphwire_fleet.engine.machine import cpu_count, memory_for
from graphwire_fleet.work import File, Work


class Workers(Protocol):
    """What runs batches."""

    count: int
    """How many run at once."""

    def submit(self, files: Sequence[File]) -> None:
        """Run a batch as soon as a worker is free."""
        ...

    def next_done(self, seconds: float) -> Done | None:
        """Wait for a batch that is done, and return it; None after a time.

        Raises:
            FleetError: the workers cannot work.
        """
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


class Pool:
    """Processes on this machine.

    Args:
        work: what is done with each file.
        count: how many processes; None for one a CPU.
        seconds: the time for a file.
        memory: the memory for a file; None for that of the machine, divided by the processes.
    """

    def __init__(self, work: Work, count: int | None, seconds: float, memory: int | None) -> None:
        self.count = count or cpu_count()
        bounds = Bounds(seconds, memory or memory_for(self.count))
        self._todo: queue.SimpleQueue[Sequence[File] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done | Exception] = queue.SimpleQueue()
        self._bounded = [Bounded(work, bounds) for _ in range(self.count)]
        self._threads = [
            threading.Thread(target=self._drive, args=(each,), daemon=True) for each in self._bounded
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, files: Sequence[File]) -> None:
        self._todo.put(files)

    def next_done(self, seconds: float) -> Done | None:
        try:
            done = self._done.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(done, Exception):
            raise done
        return done

    def close(self) -> None:
        for _ in self._threads:
            self._todo.put(None)
        for each in self._bounded:
            each.interrupt()
        for thread in self._threads:
            thread.join()

    def _drive(self, bounded: Bounded) -> None:
        try:
            while (files := self._todo.get()) is not None:
                self._done.put(bounded.run(files))
        except (FleetError, OSError, ValueError) as error:
            self._done.put(error)
        finally:
            bounded.close()
