"""A pause of the garbage collector, for steps that make many objects and no garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

from graphwire.process.interrupts import InterruptSafe


class _Pause(InterruptSafe):
    """One block that runs with the garbage collector disabled."""

    def __init__(self, pauses: _PausedCollector) -> None:
        self._pauses = pauses
        self.thread = threading.get_ident()

    def begin(self) -> None:
        self._pauses.begin(self)

    def end(self, error: BaseException | None) -> None:
        self._pauses.end(self)


class _SharedLock:
    """A lock that any number of holders may hold at once.

    No step waits, and each step is one operation of the interpreter, so an interrupt cannot leave the lock held.
    """

    def __init__(self) -> None:
        self._holders: set[_Pause] = set()
        self._leaving: set[_Pause] = set()
        """Holders that are releasing the lock and do not know yet whether they are the last."""

    def locked(self) -> bool:
        """Whether at least one holder holds the lock."""
        return bool(self._holders or self._leaving)

    def acquire(self, holder: _Pause) -> None:
        """Add a holder."""
        self._holders.add(holder)

    def release(self, holder: _Pause, last: Callable[[], object]) -> None:
        """Remove a holder, and call `last` if it was the last one. Of two that leave at once, both may call it."""
        if holder in self._holders or holder in self._leaving:
            self._leaving.add(holder)
            self._holders.discard(holder)
            if not self._holders:
                last()
            self._leaving.discard(holder)

    def keep(self, thread: int) -> None:
        """Remove the holders of all threads except `thread`."""
        self._holders = {holder for holder in self._holders if holder.thread == thread}
        self._leaving.clear()


class _PausedCollector:
    """Disables the garbage collector while at least one block, in any thread, needs that.

    When one thread ends its block at the moment another begins one, the collector may be enabled inside a block, which
    costs time. It never stays disabled: whoever disables it holds the lock, and the last holder enables it after all
    others have disabled it.
    """

    def __init__(self) -> None:
        self._lock = _SharedLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    def __call__(self) -> _Pause:
        return _Pause(self)

    def begin(self, pause: _Pause) -> None:
        if gc.isenabled() or self._lock.locked():  # otherwise the caller disabled it
            self._lock.acquire(pause)
            gc.disable()

    def end(self, pause: _Pause) -> None:
        self._lock.release(pause, gc.enable)

    def _begin_again(self) -> None:
        """Drop the pauses of threads that do not exist after a fork. At most one thread survives to end its pause."""
        if self._lock.locked():
            self._lock.keep(threading.get_ident())
            if not self._lock.locked():
                gc.enable()


paused_gc = _PausedCollector()
"""Makes context managers that disable the collector, in any number of threads. Name it twice, like every
`InterruptSafe`.

After the last block the collector is as it was before the first. Making 20,000 records triggers dozens of collections,
and each walks all objects that torch has loaded: a third of the time of a save, and as much of a load. Memory outside
reference cycles is freed as usual. The collector belongs to the process, and so does this state.
"""
