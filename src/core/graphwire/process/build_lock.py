"""Lets one thread at a time build a program."""

from __future__ import annotations

import os
import threading
from typing import Any

from graphwire.process.interrupts import InterruptSafe

_PATIENCE = 5.0
"""Seconds that a thread waits for its turn. It then goes on without: to take turns is a courtesy, and a thread that has the
turn may be waiting for this one."""


class _Turn(InterruptSafe):
    """A thread's turn. Whether the thread has it, the lock knows: nothing is noted that an interrupt could lose."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._had_before = lock._is_owned()  # what threading.Condition asks, too
        """Whether the block stands in another one's turn."""

    def begin(self) -> None:
        if not self._lock._is_owned():
            self._lock.acquire(timeout=_PATIENCE)

    def end(self, error: BaseException | None) -> None:
        if not self._had_before and self._lock._is_owned():
            self._lock.release()


class _Turns:
    """Of the threads that get here, one goes on at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    def __call__(self) -> _Turn:
        return _Turn(self._lock)

    def _begin_again(self) -> None:
        """The thread that had the turn when the process was forked is not there to give it back."""
        self._lock = threading.RLock()


one_build_at_a_time = _Turns()
"""Makes context managers that let the other threads that get there wait until the block ends. To be named twice, as every
`InterruptSafe`.

A program is built under the interpreter's lock, which torch lets go of, and has to get again, in thousands of short calls.
Eight threads that build one each would pass it on each time, and take twice as long as one thread that builds them all. That
lock is the process's own, and so is this one state beside it.
"""
