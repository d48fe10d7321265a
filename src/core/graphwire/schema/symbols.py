"""Sizes, strides and values that may be symbolic."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

Float: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float in a document. The values that JSON cannot say are text, in every wire format (torch, schema 8.14)."""


class SymExprHint(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The value that a symbolic expression had on the example inputs: exactly one arm."""

    as_int: int | None = None
    as_bool: bool | None = None
    as_float: Float | None = None


class SymExpr(msgspec.Struct, gc=False, frozen=True):
    """A symbolic expression, as text of the grammar in `schema.texts.constructor`."""

    expr_str: str
    hint: SymExprHint | None = None


class SymInt(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """An integer, known or symbolic: exactly one arm."""

    as_expr: SymExpr | None = None
    as_int: int | None = None


class SymFloat(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A float, known or symbolic: exactly one arm."""

    as_expr: SymExpr | None = None
    as_float: Float | None = None


class SymBool(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A truth value, known or symbolic: exactly one arm."""

    as_expr: SymExpr | None = None
    as_bool: bool | None = None


class RangeConstraint(msgspec.Struct, gc=False, frozen=True):
    """The values that a symbol or expression may take, both ends included; None where there is no bound."""

    min_val: int | None
    max_val: int | None


def encode_float(value: float) -> Float:
    """`value` as a document says it: the text `Infinity`, `-Infinity` or `NaN` where it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_float(value: Float) -> float:
    """The float that a document says."""
    return float(value)
