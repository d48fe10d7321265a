"""Converts expressions between infix text (schemas 1 to 7.3) and constructor text (8.2 and later).

Infix text does not state the assumptions of a symbol. Upward each symbol gets those that torch gives a new symbol of its
kind: `s0` is a positive integer, `u0` (and `i0`, its name up to torch 2.2) an integer, `zf0` and `zuf0` a real number.

Downward the text is in sympy's own spelling and uses only operations that the older readers support. The keys of ranges are
infix text in every version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from graphwire.lazy import pattern
from graphwire.schema.texts import (
    Expression,
    call,
    format_expression,
    format_infix,
    parse_expression,
    parse_infix,
)

_ASSUMPTIONS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "zuf": (),
    "zf": (),
    "s": (("positive", True), ("integer", True)),
    "u": (("integer", True),),
    "i": (("integer", True),),
}
"""The assumptions of a symbol by the prefix of its name, in the order in which torch writes them."""

_KNOWN_SYMBOL = pattern(rf"({'|'.join(_ASSUMPTIONS)})\d+", re.ASCII)

_OLD_NAMES = {"TrueDiv": "IntTrueDiv", "Round": "RoundToInt", "Trunc": "TruncToInt"}
"""Operations with another name in older releases: old name to the name in the grammar."""

_OLD_NAME = pattern(rf"\b({'|'.join(_OLD_NAMES)})\(")

_INFIX_OPERATIONS = frozenset(
    "Add Mul Pow FloorDiv Mod Max Min Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan And Or Not"
    " Abs Integer Rational Symbol true false".split()
)
"""The operations that a reader of infix text (torch 2.1 to 2.5) supports in sizes and conditions."""


def assumptions_of(name: str) -> tuple[tuple[str, bool], ...]:
    """Return torch's assumptions for a symbol of that name; for a name that torch does not give, that it is an integer."""
    found = _KNOWN_SYMBOL.fullmatch(name)
    return _ASSUMPTIONS[found[1] if found else "i"]


def to_constructor(text: str) -> str:
    """Convert infix text to constructor text.

    Raises:
        ExpressionError: the text does not match the grammar.
    """
    expression = parse_infix(_with_newer_names(text))
    return format_expression(_with_symbols(expression, lambda name: (name, *assumptions_of(name))))


def _with_newer_names(text: str) -> str:
    return _OLD_NAME.sub(lambda found: f"{_OLD_NAMES[found[1]]}(", text)


def to_infix(text: str) -> str:
    """Convert constructor text to infix text.

    Raises:
        ExpressionError: the text does not match the grammar.
    """
    return format_infix(parse_expression(text))


def foreign_operations(text: str) -> list[str]:
    """Return the operations in constructor text that readers of infix text do not support, each once."""
    found: dict[str, None] = {}
    pending = [parse_expression(text)]
    while pending:
        part = pending.pop()
        if part.head not in _INFIX_OPERATIONS:
            found[part.head] = None
        pending.extend(part.operands)
    return list(found)


def rename_symbols(text: str, old: str, new: str) -> str:
    """Rename the symbols in infix text that consist of `old` and a number to `new` and that number."""
    if old not in text:
        return text
    text = _with_newer_names(text)
    pattern = re.compile(rf"{old}(\d+)", re.ASCII)

    def rename(name: str) -> tuple[str]:
        found = pattern.fullmatch(name)
        return (f"{new}{found[1]}" if found else name,)

    return format_infix(_with_symbols(parse_infix(text), rename))


def _with_symbols(expression: Expression, symbol: Callable[[str], tuple[object, ...]]) -> Expression:
    head, args = expression
    if head == "Symbol":
        return Expression("Symbol", symbol(args[0]))
    if not expression.operands:
        return expression
    return call(head, [_with_symbols(operand, symbol) for operand in expression.operands])
