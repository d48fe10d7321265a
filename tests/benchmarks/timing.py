"""How steps are timed: in turns, so that a slow moment of the machine does not fall on one of them alone."""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from samples import Row

__all__ = ["Bench", "Step", "Times", "compared", "interleaved", "processor_seconds"]


class Bench(NamedTuple):
    """What every set of measurements gets."""

    turns: int
    """How often each step is measured, after one turn that warms up."""
    collect: bool
    """Whether garbage is collected before each save and load of a program."""
    large: bool
    """Whether the full sizes are measured, which take gigabytes and minutes."""
    folder: Path
    """Where files are written."""
    programs: tuple[str, ...]
    """The programs that are chosen, where a set has several."""
    done: Callable[[str], object]
    """Told what has been measured, whenever something has."""


def processor_seconds() -> float:
    """Processor time of this process, all threads together, and of the processes that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _nothing() -> None:
    pass


class Step(NamedTuple):
    """Something to time, between what is not timed."""

    run: Callable[[], object]
    before: Callable[[], object] = _nothing
    after: Callable[[], object] = _nothing


class Times(NamedTuple):
    """The samples of one step, in seconds."""

    wall: list[float]
    cpu: list[float]
    """Processor time (`processor_seconds`): it excludes waiting, and what other processes do."""

    def rows(self, name: str, metric: str) -> Iterator[Row]:
        """A row for each clock."""
        yield Row(name, metric, "s", self.wall)
        yield Row(name, metric, "cpu s", self.cpu)

    @property
    def median(self) -> float:
        """Of the time that passed."""
        return statistics.median(self.wall)


def interleaved(
    steps: Mapping[str, Step],
    *,
    turns: int,
    done: Callable[[str], object],
    warm_up: bool = True,
    collect: bool = True,
    shuffled: bool = False,
) -> dict[str, Times]:
    """The times of each step over `turns` turns, in each of which every step runs once.

    Args:
        done: told the name of each step when it has run.
        warm_up: begin with one turn more, which is not counted.
        collect: collect garbage before each step, outside the clock, so that none pays for another's, and few for their own.
        shuffled: let each turn after the warm-up have an order of its own, the same in every run, so that no step always follows
            the same one: garbage of one step may be collected in the next.
    """
    times = {name: Times([], []) for name in steps}
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
            started, started_cpu = time.perf_counter(), processor_seconds()
            result = step.run()
            cpu, wall = processor_seconds() - started_cpu, time.perf_counter() - started
            del result
            step.after()
            if turn >= 0:
                times[name].wall.append(wall)
                times[name].cpu.append(cpu)
            done(name)
    return times


def compared(
    bench: Bench,
    name: str,
    ours: Callable[[], object],
    against: str,
    theirs: Callable[[], object],
    turns: int = 0,
) -> Iterator[Row]:
    """The times of two actions that take turns; the metrics are `graphwire` and `against`.

    Args:
        turns: how often, if not as often as all others.
    """
    steps = {"graphwire": Step(ours), against: Step(theirs)}
    times = interleaved(steps, turns=turns or bench.turns, done=lambda step: bench.done(f"{name}: {step}"))
    for metric, each in times.items():
        yield from each.rows(name, metric)
