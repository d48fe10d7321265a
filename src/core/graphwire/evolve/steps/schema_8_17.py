"""Schema 8.17 (torch 2.11). It has every argument arm of torch's but one, and a name for each node.

The step to 8.20 (torch 2.12) brought the arm `as_float_lists` and the element types float8_e8m0fnu, uint32 and uint64.
"""

from __future__ import annotations

from graphwire.evolve.step import Step
from graphwire.evolve.trees import Record, Report
from graphwire.evolve.versions import Version, stamped

OLDER, NEWER = Version(8, 17), Version(8, 20)


def up(tree: Record) -> Record:
    """8.17 as 8.20: nothing changes."""
    return stamped(tree, NEWER)


def down(tree: Record, report: Report) -> Record:
    """8.20 as 8.17."""
    return stamped(tree, OLDER)


STEP = Step(OLDER, NEWER, up, down)
