"""Count bytes while they are verified and written, for whoever shows progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
