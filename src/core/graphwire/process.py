"""Which state of the process does a save or a load change temporarily and restore?"""

from __future__ import annotations

import gc
import io
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from types import TracebackType
from typing import Any

# ------------------------------------------ count bytes while they are verified and written, for whoever shows progress


_TALLY: ContextVar[Callable[[int], object] | None] = ContextVar("graphwire_byte_tally", default=None)


def count_bytes(nbytes: int) -> None:
    """Report bytes that are done to the innermost `counted_bytes` of this context, if there is one."""
    tally = _TALLY.get()
    if tally is not None:
        tally(nbytes)


@contextmanager
def counted_bytes(tally: Callable[[int], object]) -> Iterator[None]:
    """Call a function with the number of bytes of each piece that is verified or written while the body runs."""
    token = _TALLY.set(tally)
    try:
        yield
    finally:
        _TALLY.reset(token)


# ------------------------ context managers that always release what they acquire, even if an interrupt hits the release


class InterruptSafe(ABC):
    """A context manager for something that must be released: process state or a file.

    A signal handler, such as that of Ctrl-C, may raise between any two lines, including those of `__enter__` and
    `__exit__`. A block that names its context manager twice loses nothing to one interrupt:

        with pause, pause:
            ...

    If an interrupt cuts the first exit short, the second exit finishes it. Therefore `begin` does nothing when called
    again, and `end` releases whatever is held by then, however far `begin` or another `end` got.
    """

    @abstractmethod
    def begin(self) -> None:
        """Acquire the resource, unless it is already held."""

    @abstractmethod
    def end(self, error: BaseException | None) -> None:
        """Release what is held.

        Args:
            error: the exception that the block, `begin` or an earlier `end` raised.
        """

    def value(self) -> Any:
        """Return the object that `as` binds."""
        return self

    def __enter__(self) -> Any:
        try:
            self.begin()
            return self.value()
        except BaseException as error:
            try:  # The block is not entered, so no exit would finish this.
                self.end(error)
            except BaseException as another:
                self.end(another)
                raise
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end(error)
        except BaseException as another:
            self.end(another)
            raise


class Descriptor(InterruptSafe):
    """A file descriptor of the operating system, closed when the block ends.

    Args:
        path: the file to open.
        flags: as for `os.open`.
    """

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = path
        self._flags = flags
        self._opened: list[int | None] = [None]
        """`[None, number]` while the descriptor is open, else `[None]`. Each change is one operation of the
        interpreter, so an interrupt cannot lose the number."""

    def begin(self) -> None:
        if len(self._opened) == 1:
            self._opened.extend(map(os.open, (self._path,), (self._flags,)))

    def value(self) -> int | None:
        return self._opened[1]

    def end(self, error: BaseException | None) -> None:
        if len(self._opened) > 1:
            deque(map(os.close, iter(self._opened.pop, None)), maxlen=0)
            self._opened = [None]


def file_of(call: Callable[..., int], *arguments: Any) -> io.FileIO:
    """Return a file object for reading that owns the descriptor which a function of the system returns.

    Neither an interrupt nor an audit hook that raises, and `io.FileIO` calls those before it takes a number over, loses the
    descriptor.

    Args:
        call: a function in C, such as `os.open`.
        arguments: its positional arguments.

    Raises:
        OSError: the function fails.
    """
    numbers: list[int] = []
    files: list[io.FileIO] = []
    try:
        # Each `extend` is one operation of the interpreter: a number is in no list, or it is in one and has no owner yet, or a
        # file owns it.
        numbers.extend(map(call, *([argument] for argument in arguments)))
        files.extend(map(io.FileIO, numbers))
        return files[0]
    except BaseException:
        if not files:
            deque(map(os.close, numbers), maxlen=0)
        raise


# ---------------------------------------------------------------- a lock that lets one thread at a time build a program


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


# ------------------------------------ a pause of the garbage collector, for steps that make many objects and no garbage


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


# ------------------------------------------------------------------------------- a lock for msgspec's analysis of types
# msgspec analyses a type when its first decoder is made, and keeps the result with the type. Two threads that do this at the
# same
# time crash the process (seen with 0.22). Modules make their decoders when they are imported, and threads may import at once.


TYPE_ANALYSIS = RLock()
"""Held while a decoder is made."""
