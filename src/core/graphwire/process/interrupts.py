"""Context managers that always release what they acquire, even if an interrupt hits the release."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any


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
