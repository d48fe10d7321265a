"""The ends of ranges. Infinity, which the releases spelled in four ways:

2.1, 2.4     9223372036854775806, the greatest integer but one
2.2, 2.3     the float infinity (a bare token in JSON)
2.5          the same
2.6 on       null

And 0 and 1, at which the ranges of inputs' sizes did not begin up to 2.3: `torch.export` took a size of 0 or 1 for fixed, so that
what it wrote begins at 2. Of other files 2.2 and 2.3 read those that begin at 1, and 2.1 none. None of them checks, when a
program is called, that a size is at least 2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from graphwire.evolve.documents.trees import ROOT, Record, Report
from graphwire.evolve.documents.versions import Version
from graphwire.schema import Program, RangeConstraint

_BACKED = re.compile(r"s\d+", re.ASCII)
_LEAST_READ: Final = ((Version(1), 2), (Version(5, 1), 1))
"""The newest version of each kind of reader that minds, and the least that it reads."""
_LEAST_WRITTEN = 2
"""What the exporters of these releases wrote."""


class NarrowedRange(NamedTuple):
    """The range of a size that is written narrower than it is."""

    symbol: str
    given: int
    """What the range begins with."""
    written: int
    """What it begins with in the file."""

    def __str__(self) -> str:
        return f"{self.symbol} begins at {self.written}, not at {self.given}"


def narrow_ranges(program: Program, version: Version) -> tuple[Program, list[NarrowedRange]]:
    """A program whose sizes begin with what the exporter of an old release would have written, where its reader does not read the
    range as it is; and each range that became narrower. A range of 0 and 1 alone stays."""
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


def report_small_sizes(tree: Record, report: Report, least: int, first: str) -> None:
    """Report each size whose range begins below the least that a reader reads."""
    for key, limits in tree["range_constraints"].items():
        if _BACKED.fullmatch(key) and limits["min_val"] < least:
            construct = "a size that may be 0" if least == 1 else "a size that may be 0 or 1"
            report(ROOT.at(f".range_constraints[{key!r}]").obstacle(f"{construct} ({key})", first))


GREATEST = 2**63 - 2
"""What stands for infinity in files of torch 2.1 and 2.4."""


def infinity_from_greatest_integer(tree: Record) -> Record:
    """A program whose ranges say infinity where they said the greatest integer, or nearly."""
    return _with_bounds(
        tree, lambda bound, _: math.copysign(math.inf, bound) if abs(bound) >= GREATEST else bound
    )


def greatest_integer_from_infinity(tree: Record) -> Record:
    """A program whose ranges say the greatest integer where they said infinity."""
    return _with_bounds(
        tree, lambda bound, _: int(math.copysign(1, bound)) * GREATEST if math.isinf(bound) else bound
    )


def from_infinity(tree: Record) -> Record:
    """A program whose ranges have no bound where they said infinity."""
    return _with_bounds(tree, lambda bound, infinity: None if bound == infinity else bound)


def to_infinity(tree: Record) -> Record:
    """A program whose ranges say infinity where they had no bound."""
    return _with_bounds(tree, lambda bound, infinity: infinity if bound is None else bound)


def _with_bounds(tree: Record, convert: Callable[[Any, float], Any]) -> Record:
    """A program with other ranges: `convert` receives each bound, and the infinity on its side."""
    ranges = {
        key: {end: convert(limits[end], infinity) for end, infinity in _ENDS}
        for key, limits in tree["range_constraints"].items()
    }
    return {**tree, "range_constraints": ranges}


_ENDS: Final = (("min_val", -math.inf), ("max_val", math.inf))
