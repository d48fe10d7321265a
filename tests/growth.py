"""How the time of a function grows with its work. A single measurement says little on a machine that others use, too."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any


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
