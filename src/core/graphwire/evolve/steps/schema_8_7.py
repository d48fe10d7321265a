"""Schema 8.7 (torch 2.7). It records how each argument is passed, and whether a higher-order operator returns a bare value.

The step to 8.8 (torch 2.8) added the arm `as_optional_tensor`. Downward it becomes the tensor, or None. Loaders before 2.8
cannot read a symbolic integer as a program's input, nor a literal bool as its output.
"""

from __future__ import annotations

from graphwire.evolve.documents import Edits, Record, Report, Step, Version, arm_edit, rewrite


def _content(optional: Record) -> Record:
    tensor = optional.get("as_tensor")
    return {"as_none": True} if tensor is None else {"as_tensor": tensor}


without_optional = arm_edit("as_optional_tensor", _content)
"""Converts an argument in the arm `as_optional_tensor` to another arm."""


def down(tree: Record, report: Report) -> Record:
    """Convert 8.8 to 8.7."""
    return rewrite(tree, Edits(argument=without_optional))


STEP = Step(Version(8, 7), Version(8, 8), to_older=down)
