"""How steps are timed: in turns, so that a slow moment of the machine does not fall on one of them alone."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["CLOCKS", "Step", "interleaved"]

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""What can be measured, in seconds: the time that passes, or the processor time that this process takes."""


def _nothing() -> None:
    pass


class Step(NamedTuple):
    """Something to time, between what is not timed."""

    run: Callable[[], object]
    before: Callable[[], object] = _nothing
    after: Callable[[], object] = _nothing


def interleaved(
    steps: Mapping[str, Step],
    *,
    turns: int,
    clock: Callable[[], float],
    done: Callable[[str], object],
    warm_up: bool = True,
    collect: bool = True,
    shuffled: bool = False,
) -> dict[str, float]:
    """The median seconds of each step over `turns` turns, in each of which every step runs once.

    Args:
        done: told the name of each step when it has run.
        warm_up: begin with one turn more, which is not counted.
        collect: collect garbage before each step, outside the clock, so that none pays for another's, and few for their own.
        shuffled: let each turn after the warm-up have an order of its own, the same in every run, so that no step always follows
            the same one: garbage of one step may be collected in the next.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    order = list(steps)
    draw = random.Random(0)
    for turn in range(-1 if warm_up else 0, turns):
        if shuffled and turn >= 0:
            draw.shuffle(order)
        for name in order:
            step = steps[name]
            step.before()
            if collect:
                gc.collect()
            started = clock()
            result = step.run()
            taken = clock() - started
            del result
            step.after()
            if turn >= 0:
                seconds[name].append(taken)
            done(name)
    return {name: statistics.median(each) for name, each in seconds.items()}
