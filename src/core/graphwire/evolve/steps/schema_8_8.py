"""Schema 8.8 (torch 2.8, the first release with a PT2 archive).

The step to 8.14 (torch 2.9) added complex literals, mutated parameters, guards, and the element types float8_e4m3fnuz and
float8_e5m2fnuz.

Downward the guards are dropped: they check inputs, and 2.8 makes its own checks from the ranges.
"""

from __future__ import annotations

from graphwire.evolve.documents import Record, Report, Step, Version, without


def up(tree: Record) -> Record:
    """Convert 8.8 to 8.14."""
    return {**tree, "guards_code": []}


def down(tree: Record, report: Report) -> Record:
    """Convert 8.14 to 8.8."""
    return without(tree, "guards_code")


STEP = Step(Version(8, 8), Version(8, 14), up, down, absent=("guards",))
