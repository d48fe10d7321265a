"""Context managers that give back what they took, also where an interrupt hits the giving back."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from types import TracebackType
from typing import Any


class InterruptSafe(ABC):
    """Something that a block takes and gives back: state of the process, a file.

    A signal handler, as the one of Ctrl-C, may raise between any two lines, those of `__enter__` and `__exit__` among them. A
    block that names its context manager twice loses nothing to one interrupt:

        with pause, pause:
            ...

    What interrupts the first end leaves the second one to do it. So `begin` does nothing when it is called again, and `end`
    gives back whatever is taken by then, however far `begin` or another `end` came.
    """

    @abstractmethod
    def begin(self) -> None:
        """Take it, unless it is taken."""

    @abstractmethod
    def end(self, error: BaseException | None) -> None:
        """Give back what is taken.

        Args:
            error: what the block, or `begin`, or an earlier `end` raised.
        """

    def value(self) -> Any:
        """What the block gets by `as`."""
        return self

    def __enter__(self) -> Any:
        try:
            self.begin()
            return self.value()
        except BaseException as error:
            self.end(error)
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
    """A descriptor of the operating system, which is closed when the block ends.

    Args:
        path: what is opened.
        flags: as of `os.open`.
    """

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = path
        self._flags = flags
        self._opened: list[int | None] = [None]
        """Its number, behind None, as long as it is open. Each step is one of the interpreter's own: in none is it lost."""

    def begin(self) -> None:
        if len(self._opened) == 1:
            self._opened.extend(map(os.open, (self._path,), (self._flags,)))

    def value(self) -> int | None:
        return self._opened[1]

    def end(self, error: BaseException | None) -> None:
        if len(self._opened) > 1:
            deque(map(os.close, iter(self._opened.pop, None)), maxlen=0)
            self._opened = [None]
