"""Schema 8.7 (torch 2.7). It says how each argument is passed, and whether a higher-order operator returns a bare value.

The step to 8.8 (torch 2.8) brought the arm `as_optional_tensor`. Downward it becomes the tensor, or None. Loaders before 2.8
read no program with an integer as input that is a symbol, nor with a truth value as output that is a literal.
"""

from __future__ import annotations

from graphwire.evolve.documents import Edits, Record, Report, Step, Version, of_arm, rewrite


def _content(optional: Record) -> Record:
    tensor = optional.get("as_tensor")
    return {"as_none": True} if tensor is None else {"as_tensor": tensor}


without_optional = of_arm("as_optional_tensor", _content)
"""Puts an argument in another arm than `as_optional_tensor`."""


def down(tree: Record, report: Report) -> Record:
    """8.8 as 8.7."""
    return rewrite(tree, Edits(argument=without_optional))


STEP = Step(Version(8, 7), Version(8, 8), to_older=down)
