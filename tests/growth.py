"""How the work of a function grows: its calls are the same on every machine, its time is not.

A single measurement of time says little on a machine that others use, too.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
import io
import pstats
import time
import warnings
from collections.abc import Callable
from typing import Any

from graphwire.errors import GraphwireError


def calls_of(function: Callable[[], object], *, again: bool = False) -> int:
    """How many functions a call calls, those of C too, until it ends or raises an error of ours.

    Args:
        function: what is called.
        again: whether to count a second call, without what is made once and kept.
    """
    if again:
        function()
    profile = cProfile.Profile()
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(GraphwireError), profile:
        function()
    return pstats.Stats(profile, stream=io.StringIO()).total_calls


def seconds_of(function: Callable[[], Any]) -> float:
    """The processor time of a call, without collections of garbage, which look at all that the process has."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        function()
        return time.process_time() - begun
    finally:
        gc.enable()


def growth_of(small: Callable[[], Any], large: Callable[[], Any], bound: float) -> float:
    """How many times as long as the small work the large work takes; the least of six measurements, or the first below `bound`.

    What else happens on a machine makes a measurement longer, never shorter: what grows too fast exceeds the bound every time.
    """
    least = float("inf")
    shortest = float("inf")
    for _ in range(6):
        shortest = min(shortest, seconds_of(small))
        least = min(least, seconds_of(large))
        if least < bound * shortest:
            break
    return least / shortest
