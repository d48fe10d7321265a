"""Schema 8.14 (torch 2.9). It has complex literals, mutated parameters and guards.

The step to 8.15 (torch 2.10) brought the arms `as_int_lists` and `as_string_to_argument`.
"""

from __future__ import annotations

from graphwire.evolve.step import Step
from graphwire.evolve.trees import Record, Report
from graphwire.evolve.versions import Version, stamped

OLDER, NEWER = Version(8, 14), Version(8, 15)


def up(tree: Record) -> Record:
    """8.14 as 8.15: nothing changes."""
    return stamped(tree, NEWER)


def down(tree: Record, report: Report) -> Record:
    """8.15 as 8.14."""
    return stamped(tree, OLDER)


STEP = Step(OLDER, NEWER, up, down)
