"""A pause of the garbage collector, for steps that make many objects and no garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

from graphwire.process.interrupts import InterruptSafe


class _Pause(InterruptSafe):
    """One block that wants the collector off."""

    def __init__(self, pauses: _PausedCollector) -> None:
        self._pauses = pauses
        self.thread = threading.get_ident()

    def begin(self) -> None:
        self._pauses.begin(self)

    def end(self, error: BaseException | None) -> None:
        self._pauses.end(self)


class _SharedLock:
    """What any number of holders may hold at once. No step waits: there is nothing that an interrupt could leave locked for
    good, as each step is one of the interpreter's own."""

    def __init__(self) -> None:
        self._holders: set[_Pause] = set()
        self._leaving: set[_Pause] = set()
        """Those of whom it is still to be seen whether they were the last."""

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return bool(self._holders or self._leaving)

    def acquire(self, holder: _Pause) -> None:
        """Hold it, too."""
        self._holders.add(holder)

    def release(self, holder: _Pause, last: Callable[[], object]) -> None:
        """Let go of it, and do what is for the last one to do, if that is who this is. Of two that leave at once both may be."""
        if holder in self._holders or holder in self._leaving:
            self._leaving.add(holder)
            self._holders.discard(holder)
            if not self._holders:
                last()
            self._leaving.discard(holder)

    def keep(self, thread: int) -> None:
        """Let go of it for all threads but one."""
        self._holders = {holder for holder in self._holders if holder.thread == thread}
        self._leaving.clear()


class _PausedCollector:
    """The blocks that want the collector off, in any number of threads.

    Where one thread ends and another begins at the same moment, the collector may be on inside a block, which costs time. It
    is never left off: whoever turns it off holds the lock, and the last holder turns it on after all of them turned it off.
    """

    def __init__(self) -> None:
        self._lock = _SharedLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    def __call__(self) -> _Pause:
        return _Pause(self)

    def begin(self, pause: _Pause) -> None:
        if gc.isenabled() or self._lock.locked():  # else the caller has it off
            self._lock.acquire(pause)
            gc.disable()

    def end(self, pause: _Pause) -> None:
        self._lock.release(pause, gc.enable)

    def _begin_again(self) -> None:
        """Of the threads that paused the collector when the process was forked, at most one is there to end its pause."""
        if self._lock.locked():
            self._lock.keep(threading.get_ident())
            if not self._lock.locked():
                gc.enable()


paused_gc = _PausedCollector()
"""Makes context managers that keep the collector off, in any number of threads; after the last it is as it was before the
first. To be named twice, as every `InterruptSafe`.

Making 20,000 records sets off dozens of collections, each of which walks all that torch has loaded: a third of the time of
a save, and as much of a load. Memory that is not part of a cycle is freed as always. The collector is the process's own, and
so is this one state beside it.
"""
