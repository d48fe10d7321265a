"""Converts the bounds of ranges. The releases encode infinity in four ways:

2.1, 2.4     9223372036854775806, the greatest integer but one
2.2, 2.3     the float infinity (a bare token in JSON)
2.5          the same
2.6 on       null

Sizes of 0 and 1 are a second case. Up to 2.3 `torch.export` fixes a size of 0 or 1, so the ranges of inputs' sizes that it
writes begin at 2. In files of other writers, 2.2 and 2.3 read ranges that begin at 1; 2.1 does not. None of these releases
checks, when a program is called, that a size is at least 2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from graphwire.evolve.documents.trees import ROOT, Record, Refuse
from graphwire.lazy import pattern
from graphwire.schema import Program, RangeConstraint, Version

_BACKED = pattern(r"s\d+", re.ASCII)
_LEAST_READ: Final = ((Version(1), 2), (Version(5, 1), 1))
"""The newest version of each kind of reader with a lower limit, and that limit."""
_LEAST_WRITTEN = 2
"""The lower bound that the exporters of these releases write."""


class NarrowedRange(NamedTuple):
    """The range of a size that the file narrows."""

    symbol: str
    given: int
    """The lower bound in the program."""
    written: int
    """The lower bound in the file."""

    def __str__(self) -> str:
        return f"{self.symbol} begins at {self.written}, not at {self.given}"


def narrow_ranges(program: Program, version: Version) -> tuple[Program, list[NarrowedRange]]:
    """Raise the lower bounds that an old reader rejects to the bound that its exporter writes.

    Return the program and each range that became narrower. A range that contains only 0 and 1 stays.
    """
    least = next((least for newest, least in _LEAST_READ if version <= newest), 0)
    found = []
    ranges = dict(program.range_constraints)
    for symbol, limits in program.range_constraints.items():
        low, high = limits.min_val, limits.max_val
        if not _BACKED.fullmatch(symbol) or low is None or low >= least:
            continue
        if high is None or high >= _LEAST_WRITTEN:
            ranges[symbol] = RangeConstraint(_LEAST_WRITTEN, high)
            found.append(NarrowedRange(symbol, low, _LEAST_WRITTEN))
    return (replace(program, range_constraints=ranges) if found else program), found


def report_small_sizes(tree: Record, refuse: Refuse, least: int) -> None:
    """Report each size whose range begins below the least that a reader reads."""
    for key, limits in tree["range_constraints"].items():
        if _BACKED.fullmatch(key) and limits["min_val"] < least:
            construct = "a size that may be 0" if least == 1 else "a size that may be 0 or 1"
            refuse(ROOT.at(f".range_constraints[{key!r}]"), f"{construct} ({key})")


GREATEST = 2**63 - 2
"""The integer that represents infinity in files of torch 2.1 and 2.4."""


def infinity_from_greatest_integer(tree: Record) -> Record:
    """Replace the greatest integer, or nearly the greatest, by infinity in the ranges of a program."""
    return _with_bounds(
        tree, lambda bound, _: math.copysign(math.inf, bound) if abs(bound) >= GREATEST else bound
    )


def greatest_integer_from_infinity(tree: Record) -> Record:
    """Replace infinity by the greatest integer in the ranges of a program."""
    return _with_bounds(
        tree, lambda bound, _: int(math.copysign(1, bound)) * GREATEST if math.isinf(bound) else bound
    )


def infinity_to_unbounded(tree: Record) -> Record:
    """Remove infinite bounds from the ranges of a program."""
    return _with_bounds(tree, lambda bound, infinity: None if bound == infinity else bound)


def unbounded_to_infinity(tree: Record) -> Record:
    """Write missing bounds of a program's ranges as infinity."""
    return _with_bounds(tree, lambda bound, infinity: infinity if bound is None else bound)


def _with_bounds(tree: Record, convert: Callable[[Any, float], Any]) -> Record:
    """Convert the ranges of a program: `convert` receives each bound and the infinity on its side."""
    ranges = {
        key: {end: convert(limits[end], infinity) for end, infinity in _ENDS}
        for key, limits in tree["range_constraints"].items()
    }
    return {**tree, "range_constraints": ranges}


_ENDS: Final = (("min_val", -math.inf), ("max_val", math.inf))
