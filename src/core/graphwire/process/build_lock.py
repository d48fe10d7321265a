"""A lock that lets one thread at a time build a program."""

from __future__ import annotations

import os
import threading
from typing import Any

from graphwire.process.interrupts import InterruptSafe

_PATIENCE = 5.0
"""Seconds that a thread waits for the lock. After that it builds without the lock: the lock saves time, and correctness
does not depend on it. The holder of the lock may itself be waiting for this thread."""


class _Turn(InterruptSafe):
    """One thread's use of the lock. The lock itself knows whether the thread holds it, so an interrupt cannot lose that
    fact."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._had_before = lock._is_owned()  # threading.Condition also calls _is_owned
        """Whether the thread already held the lock when this block was made."""

    def begin(self) -> None:
        if not self._lock._is_owned():
            self._lock.acquire(timeout=_PATIENCE)

    def end(self, error: BaseException | None) -> None:
        if not self._had_before and self._lock._is_owned():
            self._lock.release()


class _Turns:
    """The factory of context managers that hold the process's build lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    def __call__(self) -> _Turn:
        return _Turn(self._lock)

    def _begin_again(self) -> None:
        """Replace the lock in a forked process, where the thread that held it does not exist."""
        self._lock = threading.RLock()


one_build_at_a_time = _Turns()
"""Makes context managers that make other threads wait until the block ends. Name it twice, like every `InterruptSafe`.

A program is built under the interpreter's lock. torch releases and reacquires that lock in thousands of short calls.
Eight threads that each build a program would hand it over each time, and take twice as long as one thread that builds
all eight. The interpreter's lock belongs to the process, and so does this one.
"""
