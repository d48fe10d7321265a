"""Sizes, strides and scalar values that may be symbolic."""

import math
from typing import Literal, TypeAlias

import msgspec

Float: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float in a document. Values that JSON cannot represent are strings, in every wire format (torch, schema 8.14)."""


class SymExprHint(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The value of a symbolic expression on the example inputs. Exactly one arm is set."""

    as_int: int | None = None
    """The value of an integer expression."""
    as_bool: bool | None = None
    """The value of a boolean expression."""
    as_float: Float | None = None
    """The value of a float expression."""


class SymExpr(msgspec.Struct, gc=False, frozen=True):
    """A symbolic expression."""

    expr_str: str
    """The expression, as constructor text such as `Symbol('s0', positive=True, integer=True)`."""
    hint: SymExprHint | None = None
    """The value on the example inputs. Null or absent: unknown, as of unbacked symbols."""


class SymInt(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An integer, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_int: int | None = None
    """A known value."""


class SymFloat(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A float, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_float: Float | None = None
    """A known value."""


class SymBool(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A boolean, known or symbolic. Exactly one arm is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_bool: bool | None = None
    """A known value."""


class RangeConstraint(msgspec.Struct, gc=False, frozen=True):
    """The inclusive range of a symbol or expression. A bound of None means unbounded."""

    min_val: int | None
    """The smallest value. Null: no lower bound."""
    max_val: int | None
    """The largest value. Null: no upper bound."""


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
