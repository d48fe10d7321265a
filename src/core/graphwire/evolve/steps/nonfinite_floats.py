"""Converts floats that are not finite: bare tokens of JSON up to torch 2.6, text (`Infinity`, `-Infinity`, `NaN`) since 2.7.

torch 2.7 and 2.8 read the text NaN, but fail when they write one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphwire.evolve.documents import ROOT, Edits, Record, Where, arm_of, rewrite
from graphwire.schema import by_arm, decode_float, encode_float


def floats_to_text(tree: Record) -> Record:
    """Convert the floats of a program that are not finite to text."""
    return rewrite(tree, _floats(lambda value: value if isinstance(value, str) else encode_float(value)))


def floats_from_text(tree: Record) -> Record:
    """Convert all floats of a program to numbers."""
    return rewrite(tree, _floats(decode_float))


def _floats(convert: Callable[[Any], Any]) -> Edits:
    """Return edits that apply `convert` to every float of a document."""

    def of_argument(argument: Record, where: Where) -> Record:
        arm = arm_of(argument)
        found = of_arms.get(arm)
        return argument if found is None else {**argument, arm: found(argument[arm])}

    def of_float(value: Record, where: Where) -> Record:
        return (
            {**value, "as_float": convert(value["as_float"])} if value.get("as_float") is not None else value
        )

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

    of_arms = by_arm(
        {"as_float": convert, "as_sym_float": lambda value: of_float(value, ROOT)},
        lambda below: lambda items: [below(item) for item in items],
    )
    return Edits(argument=of_argument, sym_float=of_value, input_spec=of_spec)
