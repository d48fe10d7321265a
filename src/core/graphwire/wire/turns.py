"""Turns for threads, in steps that they cannot take at once anyway."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["taking_turns"]

_PATIENCE = 5.0
"""Seconds that a thread waits for its turn. It then goes on without: to take turns is a courtesy, and a thread that has the
turn may be waiting for this one."""


class _Turns:
    """Of the threads that get here, one goes on at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    def _begin_again(self) -> None:
        """The thread that had the turn when the process was forked is not there to give it back."""
        self._lock = threading.RLock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        lock = self._lock
        has_turn = lock.acquire(timeout=_PATIENCE)
        try:
            yield
        finally:
            if has_turn:
                lock.release()


taking_turns = _Turns()
"""A context manager that lets the other threads that get there wait until the block ends.

A program is built under the interpreter's lock, which torch lets go of, and has to get again, in thousands of short calls.
Eight threads that build one each would pass it on each time, and take twice as long as one thread that builds them all. That
lock is the process's own, and so is this one state beside it.
"""
