"""Which state of the process does a save or a load change temporarily and restore?"""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import logging

# ------------------------------------------ count bytes while they are verified and written, for whoever shows progress


_TALLY: ContextVar[Callable[[int], object] | None] = ContextVar("graphwire_byte_tally", default=None)


def count_bytes(nbytes: int) -> None:
    """Report bytes that are done to the innermost `counted_bytes` of this context, if there is one."""
    tally = _TALLY.get()
    if tally is not None:
        tally(nbytes)


@contextmanager
def counted_bytes(tally: Callable[[int], object]) -> Iterator[None]:
    """Call a function with the number of bytes of each chunk that is verified or written while the body runs."""
    token = _TALLY.set(tally)
    try:
        yield
    finally:
        _TALLY.reset(token)


# ------------------------------------------------------------------- context managers for what must be given back


class Resource(ABC):
    """A context manager for what a block must give back: a file, memory, a mode of torch."""

    def begin(self) -> None:  # noqa: B027 - some acquire what they need at its first use
        """Acquire it."""

    @abstractmethod
    def end(self, error: BaseException | None) -> None:
        """Release what is held, also where `begin` failed halfway.

        Args:
            error: the exception that the block or `begin` raised.
        """

    def value(self) -> Any:
        """Return the object that `as` binds."""
        return self

    def __enter__(self) -> Any:
        try:
            self.begin()
        except BaseException as error:
            self.end(error)
            raise
        return self.value()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)


def file_of(call: Callable[..., int], *arguments: Any) -> io.FileIO:
    """Return a file object for reading that owns the descriptor which a function of the system returns.

    Args:
        call: the function, such as `os.open`.
        arguments: its positional arguments.

    Raises:
        OSError: the function fails.
    """
    number = call(*arguments)
    try:
        return io.FileIO(number)
    except BaseException:  # an audit hook may refuse
        os.close(number)
        raise


# ------------------------------------------------- threads whose caller may be interrupted, by Ctrl-C or a signal's handler
# `concurrent.futures` locks in Python's code: an interrupt between the lock and the block behind it leaves the lock taken, and
# the other thread waits for ever. A queue and a lock in C have no such place.


class Step:
    """A call that one of `Threads` runs, unless it is cancelled before."""

    __slots__ = ("_call", "_done", "_turn")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = call
        self._turn = threading.Lock()
        """Acquired, and never released, by whoever runs or cancels the step."""
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run(self) -> None:
        """Run the call, unless it is cancelled."""
        if not self._turn.acquire(blocking=False):
            return
        call, self._call = self._call, None
        assert call is not None
        try:
            self._done.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result gets it
            self._done.put((None, error))

    def cancel(self) -> bool:
        """Return whether no thread has begun the call. None will begin it then, and whoever waits for it gets an error."""
        is_first = self._turn.acquire(blocking=False)
        if is_first:
            self._done.put((None, RuntimeError("the call was cancelled")))
        return is_first

    def wait(self) -> tuple[Any, BaseException | None]:
        """Wait for the call, and return what it returns or raises."""
        outcome = self._done.get()
        self._done.put(outcome)
        return outcome

    def result(self) -> Any:
        """Wait for the call, and return what it returns.

        Raises:
            BaseException: what the call raises.
        """
        made, error = self.wait()
        try:
            if error is not None:
                raise error
            return made
        finally:
            del error  # else it and this frame hold each other


class Threads:
    """Threads that run calls in the order in which they come. As a context manager they end with the block: calls that none has
    begun are cancelled, and the others waited for."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[Step | None] = SimpleQueue()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Step:
        """Have a call run.

        Raises:
            RuntimeError: no thread can start, for example at interpreter shutdown.
        """
        if len(self._threads) < self._most:
            name = f"{self._name}_{len(self._threads)}"
            thread = threading.Thread(target=_run_steps, args=(self._queue,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        step = Step(partial(function, *arguments))
        self._queue.put(step)
        return step

    def close(self, *, wait: bool = True) -> None:
        """End the threads. A second call does nothing.

        Args:
            wait: whether to wait for the calls that have begun.
        """
        threads, self._threads = self._threads, []
        queue, self._queue = self._queue, SimpleQueue()
        with suppress(Empty):
            while (step := queue.get_nowait()) is not None:
                step.cancel()
        for _ in range(self._most):  # also for one whose start was interrupted
            queue.put(None)
        for thread in threads if wait else ():
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._threads:  # of an archive that nobody closed
            self.close(wait=False)


def _run_steps(queue: SimpleQueue[Step | None]) -> None:
    while (step := queue.get()) is not None:
        step.run()


# ---------------------------------------------------------------- a lock that lets one thread at a time build a program


_PATIENCE = 5.0
"""Seconds that a thread waits for the lock. After that it builds without the lock: the lock saves time, and correctness
does not depend on it. The holder of the lock may itself be waiting for this thread."""


class _Turns:
    """The factory of blocks that hold the process's build lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        lock = self._lock
        is_held = lock.acquire(timeout=_PATIENCE)
        try:
            yield
        finally:
            if is_held:
                lock.release()

    def _begin_again(self) -> None:
        """Replace the lock in a forked process, where the thread that held it does not exist."""
        self._lock = threading.RLock()


one_build_at_a_time = _Turns()
"""Makes context managers that make other threads wait until the block ends.

A program is built under the interpreter's lock. torch releases and reacquires that lock in thousands of short calls.
Eight threads that each build a program would hand it over each time, and take twice as long as one thread that builds
all eight. The interpreter's lock belongs to the process, and so does this one.
"""


# ------------------------------------ a pause of the garbage collector, for steps that make many objects and no garbage


class _PausedCollector:
    """Disables the garbage collector while at least one block, in any thread, needs that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: list[int] = []
        """The thread of each block that is open now."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_again)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self._lock:
            is_paused = gc.isenabled() or bool(self._holders)  # otherwise the caller disabled it
            if is_paused:
                self._holders.append(thread)
                gc.disable()
        try:
            yield
        finally:
            if is_paused:
                with self._lock:
                    self._holders.remove(thread)
                    if not self._holders:
                        gc.enable()

    def _begin_again(self) -> None:
        """Drop the pauses of threads that do not exist after a fork. At most one thread survives to end its pause."""
        self._lock = threading.Lock()
        if self._holders:
            self._holders = [thread for thread in self._holders if thread == threading.get_ident()]
            if not self._holders:
                gc.enable()


paused_gc = _PausedCollector()
"""Makes context managers that disable the collector, in any number of threads.

After the last block the collector is as it was before the first. Making 20,000 records triggers dozens of collections,
and each walks all objects that torch has loaded: a third of the time of a save, and as much of a load. Memory outside
reference cycles is freed as usual. The collector belongs to the process, and so does this state.
"""


# ------------------------------------------------------------------------------- a lock for msgspec's analysis of types
# msgspec analyses a type when its first decoder is made, and keeps the result with the type. Two threads that do this at the
# same time crash the process (seen with 0.22). Modules make their decoders when they are imported, and threads may import at
# once.


TYPE_ANALYSIS = RLock()
"""Held while a decoder is made."""


# ----------------------------------------------------------------------- the logger, which all of a process shares


_INFO = 20
"""`logging.INFO`, whose module takes milliseconds to import."""


class _Log:
    """Logs what public functions read, upgrade and skip, and how long it takes, under `graphwire`.

    Silent unless the caller configures logging, for which the caller imports `logging`. This class does not import it.
    """

    def is_on(self) -> bool:
        """Return whether somebody wants to read what is logged."""
        return "logging" in sys.modules and self._logger.isEnabledFor(_INFO)

    def info(self, text: str, *values: object) -> None:
        """Log `text % values`."""
        if self.is_on():
            self._logger.info(text, *values, stacklevel=2)

    @cached_property
    def _logger(self) -> logging.Logger:
        import logging

        logger = logging.getLogger("graphwire")
        logger.addHandler(logging.NullHandler())
        return logger


LOG = _Log()
