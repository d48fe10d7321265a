"""Turns for threads, in steps that they cannot take at once anyway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["taking_turns"]

_TURN = threading.RLock()
_PATIENCE = 5.0
"""Seconds that a thread waits for its turn. It then goes on without: to take turns is a courtesy, and a thread that has the
turn may be waiting for this one."""


@contextmanager
def taking_turns() -> Iterator[None]:
    """Let the other threads that get here wait until the block ends.

    A program is built under the interpreter's lock, which torch lets go of, and has to get again, in thousands of short calls.
    Eight threads that build one each would pass it on each time, and take twice as long as one thread that builds them all.
    """
    has_turn = _TURN.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if has_turn:
            _TURN.release()
