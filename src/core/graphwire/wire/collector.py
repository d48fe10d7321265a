"""A pause of the garbage collector, for steps that make many objects and no garbage."""

from __future__ import annotations

import gc
import threading
from types import TracebackType

__all__ = ["paused_collector"]


class _PausedCollector:
    """A context manager that any number of threads may be inside of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()


paused_collector = _PausedCollector()
"""Keeps the collector off while a block runs, in any number of threads; after the last it is as it was before the first.

Making 20,000 records sets off dozens of collections, each of which walks all that torch has loaded: a third of the time of
a save, and as much of a load. Memory that is not part of a cycle is freed as always. The collector is the process's own, and
so is this one state beside it.
"""
