"""A structured mutator for everything that reads what a file says.

    python tests/fuzz/fuzz.py --seconds 60              every target, an equal share of the time each
    python tests/fuzz/fuzz.py --executions 1000000 json cbor

An input is a seed, or two spliced, changed in a few places: bits, lengths, tokens of the target's grammar, repetitions.
Each execution must end within five seconds of processor time and a gibibyte, with a value or an error of `graphwire.errors`. What does not is
written to the current folder's `fuzz-findings`, and is the business of a test from then on.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from targets import TARGETS, Target

from graphwire.api.error_boundary import DEFECT
from graphwire.errors import GraphwireError

SECONDS = 5
BYTES = 1 << 30

_INTERESTING = tuple(
    value.to_bytes(width, order)
    for width in (1, 2, 4, 8)
    for value in (0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1)
    for order in ("little", "big")
)


class Hang(BaseException):  # which no boundary makes an error of ours of
    """An execution took too long."""


def mutated(chance: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """A seed, changed in one to four places."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 1, 2, 4, 8, 32, 256)))
        way = chance.randrange(8)
        if way == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            del data[at:end]
        elif way == 2:
            data[at:at] = data[at:end] * chance.choice((1, 1, 2, 10, 300))
        elif way == 3:
            value = chance.choice(_INTERESTING)
            data[at : at + len(value)] = value
        elif way == 4:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) + 1)
            data[at:end] = other[start : start + chance.choice((4, 32, 256, len(other)))]
        elif way == 5:
            data[at:end] = chance.randbytes(end - at)
        elif tokens:
            data[at : at if way == 6 else end] = chance.choice(tokens) * chance.choice((1, 1, 1, 3, 500))
    return bytes(data)


def input_of(target: Target, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """An input of a target: of its own making, or a seed that was changed."""
    return target.make(chance) if target.make else mutated(chance, seeds, target.tokens)


def execute(target: Target, data: bytes) -> str:
    """Give an input to a target, and say what came of it: `value`, or the name of the error.

    An error that only the boundary of the API made one of ours is told by what it was: somebody below could say it better.

    Raises:
        Exception: the target did what it must not do.
    """
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS * 20)  # where it waits, or others have the processor
    try:
        target.run(data)
    except GraphwireError as error:
        foreign = error.__cause__ if error.remedy == DEFECT else None
        return type(error).__name__ if foreign is None else f"caught {type(foreign).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "value"


def _on_alarm(_signal: int, _frame: FrameType | None) -> None:
    raise Hang(f"more than {SECONDS} seconds")


def fuzz(target: Target, enough: Callable[[int, float], bool], seed: int) -> tuple[int, dict[str, int]]:
    """Execute a target until it is enough.

    Args:
        enough: tells from the executions and the seconds so far.
        seed: of the chance that inputs are made by.

    Returns:
        The executions, and how often each outcome came.
    """
    chance = random.Random(f"{target.name} {seed}")
    seeds = target.seeds()
    outcomes: dict[str, int] = {}
    start = time.monotonic()
    count = 0
    while not enough(count, time.monotonic() - start):
        for _ in range(min(50, target.batch)):
            data = input_of(target, chance, seeds)
            try:
                outcome = execute(target, data)
            except BaseException:
                folder = Path("fuzz-findings")
                folder.mkdir(exist_ok=True)
                (folder / f"{target.name}-{count}").write_bytes(data)
                print(f"{target.name}: finding after {count:,} executions, in {folder}", file=sys.stderr)
                raise
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            count += 1
    return count, outcomes


def main() -> None:
    """Fuzz what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all by default")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--executions", type=int, help="of each target, instead of a time")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    faulthandler.enable()
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _on_alarm)
    names = arguments.targets or list(TARGETS)
    print(f"seed {arguments.seed}", flush=True)
    for name in names:
        target = TARGETS[name]
        target.seeds()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, resource.RLIM_INFINITY)
        )
        share = arguments.seconds / len(names)
        wanted = arguments.executions

        def enough(count: int, seconds: float, share: float = share, wanted: int | None = wanted) -> bool:
            return seconds >= share if wanted is None else count >= wanted

        start = time.monotonic()
        count, outcomes = fuzz(target, enough, arguments.seed)
        told = ", ".join(f"{outcome} {times:,}" for outcome, times in sorted(outcomes.items()))
        print(f"{name}: {count:,} executions in {time.monotonic() - start:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
