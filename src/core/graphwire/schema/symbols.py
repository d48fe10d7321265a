"""Sizes, strides and scalar values that may be symbolic."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

Float: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float in a document. Values that JSON cannot represent are strings, in every wire format (torch, schema 8.14)."""


class SymExprHint(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The value of a symbolic expression on the example inputs. Exactly one arm is set."""

    as_int: int | None = None
    as_bool: bool | None = None
    as_float: Float | None = None


class SymExpr(msgspec.Struct, gc=False, frozen=True):
    """A symbolic expression, as text in the grammar of `schema.texts.constructor`."""

    expr_str: str
    hint: SymExprHint | None = None


class SymInt(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """An integer, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    as_int: int | None = None


class SymFloat(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A float, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    as_float: Float | None = None


class SymBool(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A boolean, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    as_bool: bool | None = None


class RangeConstraint(msgspec.Struct, gc=False, frozen=True):
    """The inclusive range of a symbol or expression. A bound of None means unbounded."""

    min_val: int | None
    max_val: int | None


def encode_float(value: float) -> Float:
    """Encode a float for a document: as `Infinity`, `-Infinity` or `NaN` if it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_float(value: Float) -> float:
    """Return the float that a document stores."""
    return float(value)
