"""Infinity in ranges, which the releases spelled in four ways.

2.1, 2.4     9223372036854775806, the greatest integer but one
2.2, 2.3     the float infinity (a bare token in JSON)
2.5          the same
2.6 on       null
"""

from __future__ import annotations

import math
from typing import Any

from graphwire.evolve.trees import Record

__all__ = ["GREATEST", "from_greatest", "to_greatest"]

GREATEST = 2**63 - 2
"""What stands for infinity in files of torch 2.1 and 2.4."""


def from_greatest(tree: Record) -> Record:
    """A program whose ranges say infinity where they said the greatest integer, or nearly."""
    return _with_bounds(tree, _to_infinity)


def to_greatest(tree: Record) -> Record:
    """A program whose ranges say the greatest integer where they said infinity."""
    return _with_bounds(tree, _to_integer)


def _with_bounds(tree: Record, convert: Any) -> Record:
    ranges = {
        key: {"min_val": convert(limits["min_val"]), "max_val": convert(limits["max_val"])}
        for key, limits in tree["range_constraints"].items()
    }
    return {**tree, "range_constraints": ranges}


def _to_infinity(bound: float) -> float:
    return math.copysign(math.inf, bound) if abs(bound) >= GREATEST else bound


def _to_integer(bound: float) -> float:
    return int(math.copysign(1, bound)) * GREATEST if math.isinf(bound) else bound
