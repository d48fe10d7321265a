"""Expressions: infix text (schemas 1 to 7.3) ⇄ constructor text (8.2 and later).

Infix text does not say what a symbol may be. Upward each gets what torch gives a symbol of its kind when it makes one:
`s0` is a positive integer, `u0` (and `i0`, its name up to torch 2.2) an integer, `zf0` and `zuf0` a real number.

Downward the text is sympy's own spelling, in operations that the older readers have. The keys of ranges are infix text in
every version.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from graphwire.schema.texts import (
    Expression,
    call,
    format_expression,
    format_infix,
    parse_expression,
    parse_infix,
)

_ASSUMPTIONS: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...] = (
    ("zuf", ()),
    ("zf", ()),
    ("s", (("positive", True), ("integer", True))),
    ("u", (("integer", True),)),
    ("i", (("integer", True),)),
)
"""What a symbol is assumed to be, by what its name begins with; in the order in which torch writes them."""

_KNOWN_SYMBOL = re.compile(r"(zuf|zf|s|u|i)\d+", re.ASCII)

_OLD_NAMES = {"TrueDiv": "IntTrueDiv", "Round": "RoundToInt", "Trunc": "TruncToInt"}
"""Operations that older releases named otherwise, in the names of the grammar."""

_OLD_NAME = re.compile(rf"\b({'|'.join(_OLD_NAMES)})\(")

_INFIX_OPERATIONS = frozenset(
    "Add Mul Pow FloorDiv Mod Max Min Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan And Or Not"
    " Abs Integer Rational Symbol true false".split()
)
"""What sizes and conditions may be made of for a reader of infix text (torch 2.1 to 2.5)."""


def assumptions_of(name: str) -> tuple[tuple[str, bool], ...]:
    """What torch assumes of a symbol of that name; of another than its own, that it is an integer."""
    if _KNOWN_SYMBOL.fullmatch(name):
        return next(known for start, known in _ASSUMPTIONS if name.startswith(start))
    return (("integer", True),)


def to_constructor(text: str) -> str:
    """Infix text as constructor text.

    Raises:
        ExpressionError: the text is not of the grammar.
    """
    text = _OLD_NAME.sub(lambda found: f"{_OLD_NAMES[found[1]]}(", text)
    return format_expression(_with_symbols(parse_infix(text), lambda name: (name, *assumptions_of(name))))


def to_infix(text: str) -> str:
    """Constructor text as infix text.

    Raises:
        ExpressionError: the text is not of the grammar.
    """
    return format_infix(parse_expression(text))


def foreign_operations(text: str) -> list[str]:
    """The operations of constructor text that readers of infix text do not have, each once."""
    found: dict[str, None] = {}
    pending = [parse_expression(text)]
    while pending:
        part = pending.pop()
        if part.head not in _INFIX_OPERATIONS:
            found[part.head] = None
        pending.extend(part.operands)
    return list(found)


def renamed_symbols(text: str, old: str, new: str) -> str:
    """Infix text whose symbols `old` and a number are `new` and that number."""
    if old not in text:
        return text
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
