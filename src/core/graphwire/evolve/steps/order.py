"""The order of the later steps."""

from __future__ import annotations

from graphwire.evolve.step import Step
from graphwire.evolve.steps import (
    compact_5_3,
    draft_2022,
    schema_1,
    schema_2,
    schema_5_1,
    schema_5_3,
    schema_7_3,
    schema_8_2,
    schema_8_15,
)
from graphwire.evolve.trees import Edits, Record, rewrite, variant_edit, without
from graphwire.schema import Version

# ----------------------------------------------------------------------------------------- the order of the early steps


EARLY_STEPS: tuple[Step, ...] = (draft_2022.STEP, schema_1.STEP, schema_2.STEP, schema_5_1.STEP)
"""The steps up to schema 5.3, oldest first."""


# ------------------------------------------------------------------------------------------- versions that added little
# argument variants, element types, specs and a field, without changing what was there.
#
# 8.8     torch 2.8   the variant `as_optional_tensor`. Downward it becomes the tensor, or None. Loaders before 2.8 cannot read a
#                     symbolic integer as a program's input, nor a literal bool as its output
# 8.14    torch 2.9   complex literals, mutated parameters, guards, and the element types float8_e4m3fnuz and float8_e5m2fnuz.
#                     Downward the guards are dropped: they check inputs, and 2.8 makes its own checks from the ranges
# 8.15    torch 2.10  the variants `as_int_lists` and `as_string_to_argument`
# 8.20    torch 2.12  the variant `as_float_lists` and the element types float8_e8m0fnu, uint32 and uint64
#
# 8.17 (torch 2.11) also gave nodes names: `evolve.steps.schema_8_15`. What older versions cannot express is in
# `evolve.vocabulary`.


def _content(optional: Record) -> Record:
    tensor = optional.get("as_tensor")
    return {"as_none": True} if tensor is None else {"as_tensor": tensor}


without_optional = variant_edit("as_optional_tensor", _content)
"""Converts an argument in the variant `as_optional_tensor` to another variant."""

TO_8_8 = Step(
    Version(8, 7), Version(8, 8), to_older=lambda tree, _: rewrite(tree, Edits(argument=without_optional))
)
TO_8_14 = Step(
    Version(8, 8),
    Version(8, 14),
    lambda tree: {**tree, "guards_code": tree.get("guards_code", [])},
    lambda tree, _: without(tree, "guards_code"),
    absent=("guards",),
)
TO_8_15 = Step(Version(8, 14), Version(8, 15))
TO_8_20 = Step(Version(8, 17), Version(8, 20))


LATER_STEPS: tuple[Step, ...] = (
    schema_5_3.STEP,
    schema_7_3.STEP,
    schema_8_2.STEP,
    TO_8_8,
    TO_8_14,
    TO_8_15,
    schema_8_15.STEP,
    TO_8_20,
)
"""The steps from schema 5.3 on, oldest first."""
COMPACT_5_3: Step = compact_5_3.STEP
"""The step from the compact variant of schema 5.3 to schema 5.3."""
