"""Schema 8.8 (torch 2.8, the first in a PT2 archive). Floats that are not finite are JSON's bare tokens.

The step to 8.14 (torch 2.9) brought complex literals, mutated parameters, guards, the element types float8_e4m3fnuz and
float8_e5m2fnuz, and text (`Infinity`, `-Infinity`, `NaN`) for floats that are not finite.

Downward the guards are dropped: they check inputs, and 2.8 makes its own checks from the ranges.
"""

from __future__ import annotations

from typing import Any

from graphwire.evolve.rewrite import Edits, Record, Report, Where, arm_of, rewrite
from graphwire.evolve.step import Step, report_new
from graphwire.evolve.versions import Version, stamped
from graphwire.schema.scalars import ScalarType
from graphwire.schema.symbols import decode_float, encode_float

OLDER, NEWER = Version(8, 8), Version(8, 14)


def up(tree: Record) -> Record:
    """8.8 as 8.14."""
    tree = rewrite(tree, _floats(encode_float))
    return stamped({**tree, "guards_code": []}, NEWER)


def down(tree: Record, report: Report) -> Record:
    """8.14 as 8.8."""
    report_new(
        tree,
        report,
        NEWER,
        arms={"as_complex": "a complex number"},
        types=(ScalarType.FLOAT8E4M3FNUZ, ScalarType.FLOAT8E5M2FNUZ),
        outputs={"parameter_mutation": "a parameter that the program changes"},
    )
    tree = rewrite(tree, _floats(decode_float))
    return stamped({key: value for key, value in tree.items() if key != "guards_code"}, OLDER)


def _floats(convert: Any) -> Edits:
    """`convert` applied to every float of a document."""

    def of_argument(argument: Record, where: Where) -> Record:
        arm = arm_of(argument)
        if arm == "as_float":
            return {**argument, arm: convert(argument[arm])}
        if arm == "as_floats":
            return {**argument, arm: [convert(value) for value in argument[arm]]}
        if arm == "as_sym_float":
            return {**argument, arm: of_float(argument[arm], where)}
        if arm == "as_sym_floats":
            return {**argument, arm: [of_float(value, where) for value in argument[arm]]}
        return argument

    def of_float(value: Record, where: Where) -> Record:
        return {**value, "as_float": convert(value["as_float"])} if value.get("as_float") is not None else value

    def of_value(value: Record, where: Where) -> Record:
        expression = value.get("as_expr")
        if expression is None:
            return of_float(value, where)
        hint = expression.get("hint")
        if hint is None or hint.get("as_float") is None:
            return value
        return {**value, "as_expr": {**expression, "hint": of_float(hint, where)}}

    def of_spec(spec: Record, where: Where) -> Record:
        constant = spec.get("constant_input")
        if constant is None:
            return spec
        return {**spec, "constant_input": {**constant, "value": of_float(constant["value"], where)}}

    return Edits(argument=of_argument, sym_float=of_value, input_spec=of_spec)


STEP = Step(OLDER, NEWER, up, down)
