"""Bounds on the size of an expression's value, checked without computing it.

A few characters can denote a number that no memory holds: `9**9**9`, `2**(s0 + 10**11)`. This module never computes
one, but torch's shape environment does, with sympy, which has no bounds. Therefore an expression that could exceed a
bound is rejected wherever programs are checked or built. Expressions of real programs stay four orders of magnitude
below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from graphwire.errors import ExpressionError
from graphwire.schema.texts.constructor import Expression, parse_expression
from graphwire.schema.texts.infix import parse_infix
from graphwire.schema.texts.operations import MAX_BITS, OPERATIONS

MAX_TERMS = 1024
"""Terms of a product or power of sums after expansion to one sum. A sum itself may have any number of terms."""
MAX_SYMBOLIC_EXPONENT = 64
"""The largest number inside an exponent that has symbols, and the assumed value of such an exponent. torch shifts sizes
of 64 bits."""
MAX_EXPONENT_BITS = 16
"""Bits of all numbers together inside an exponent that is not itself a number."""
MAX_ROOT_BITS = 1024
"""Bits of a number whose root is taken: sympy searches for its factors."""
MAX_REASONED = 40
"""Numbers, symbols and operations of an expression that torch's shape environment may reason about while a program is
built or its module is created. Expressions of real programs have a dozen; sympy takes a second for sixty."""
MAX_REASONED_IN_ALL = 4096
"""The same, for all expressions of a program together."""
MAX_DECIMAL_EXPONENT = 400
"""The power of ten of a float; a double reaches 308."""

_FLOAT_BITS = 1100


def _growing(*kinds: str) -> frozenset[str]:
    return frozenset(row.name for row in OPERATIONS.values() if row.growth in kinds)


_SHIFTS = _growing("shift")
_EXPONENTIAL = _growing("exponential")
_RAISING = _growing("shift", "exponential", "power")
"""Operations whose value can grow exponentially with an operand."""
_ROUNDED = _growing("integer")
"""Operations whose value is an integer for any operands."""
_FLOATS = _growing("float")
"""Operations whose value is a float, with 53 bits and an exponent."""
_EULER = Expression("Integer", (3,))
"""The base assumed for an exponential."""


class Growth(NamedTuple):
    """Upper bounds on the value of an expression."""

    nodes: int
    """The numbers, symbols and operations in the expression."""
    bits: int
    """Bits of the largest number that the expression or a part of it can be."""
    terms: int
    """Terms of the largest sum that the expression or a part of it can expand to."""
    whole: bool
    """Whether the value is an integer if the symbols are integers."""
    exponents: tuple[str, ...] = ()
    """The symbols inside exponents."""


def _refuse(problem: str) -> NoReturn:
    raise ExpressionError(problem, remedy="No size is such a number; the text was not written by torch")


def check_expression(text: str) -> None:
    """Check the grammar of constructor text, and the bounds of this module.

    Raises:
        ExpressionError: the text is not an expression, or its value could exceed the bounds.
    """
    growth_of(parse_expression(text))


def check_range_key(text: str) -> None:
    """Check infix text that has a range: its grammar, the bounds, and whether torch can afford to solve it.

    torch may solve such an expression for its symbol when it creates a program's module.

    Raises:
        ExpressionError: the text is not an expression, could exceed the bounds, or is too complex to solve.
    """
    growth = growth_of(parse_infix(text))
    if growth.nodes > MAX_REASONED or growth.exponents:
        raise ExpressionError(
            f"the key of a range is an expression of {growth.nodes} parts, or has a symbol in an exponent",
            remedy=f"A range belongs to a symbol, or to an expression with at most {MAX_REASONED} parts",
        )


def growth_of(expression: Expression) -> Growth:
    """Return upper bounds on the value of `expression`.

    Raises:
        ExpressionError: the value of the expression or a part of it could exceed the bounds of this module.
    """
    try:
        return _growth(expression)
    except RecursionError:
        raise ExpressionError("an expression is nested too deeply for the remaining stack") from None


def _growth(expression: Expression) -> Growth:
    head = expression.head
    leaf = _LEAVES.get(head)
    if leaf is not None:
        return leaf(expression)
    operands = expression.operands
    if not operands:
        return Growth(1, 64, 1, True)
    if head in _RAISING:
        return _checked(head, _power(head, (_EULER, *operands) if head in _EXPONENTIAL else operands))
    parts = [_growth(operand) for operand in operands]
    bits = [part.bits for part in parts]
    most, terms, whole = max(bits), 1, all(part.whole for part in parts)
    if head == "Add":
        terms = sum([part.terms for part in parts])
        # A sum of fractions has the product of their denominators.
        most += len(parts).bit_length() + sum([part.bits for part in parts if not part.whole])
    elif head == "Mul":
        terms = math.prod([part.terms for part in parts])
        most = sum(bits)
    elif head in _FLOATS:
        most, whole = sum(bits) + 64, False
    elif not whole:
        most, whole = sum(bits), head in _ROUNDED
    exponents = tuple({name: None for part in parts for name in part.exponents})
    return _checked(head, Growth(1 + sum([part.nodes for part in parts]), most, terms, whole, exponents))


def _checked(head: str, growth: Growth) -> Growth:
    if growth.bits > MAX_BITS:
        _refuse(f"{head} can come to a number of {growth.bits} bits; at most {MAX_BITS} are computed")
    if growth.terms > MAX_TERMS and head != "Add":
        terms = f"{growth.terms:.6g} terms"
        _refuse(f"{head} is a sum of {terms} when it is written out; at most {MAX_TERMS} are computed")
    return growth


def _power(head: str, operands: Sequence[Expression]) -> Growth:
    """Return the growth of a power or a shift: that of its base, multiplied by its exponent."""
    base, exponent = _growth(operands[0]), _growth(operands[1])
    nodes, exponents = 1 + base.nodes + exponent.nodes, base.exponents
    times = _number(operands[1])
    if times is None:
        symbols = _symbols_of_exponent(operands[1])
        exponents = tuple(dict.fromkeys((*exponents, *symbols, *exponent.exponents)))
        # Without symbols, sympy computes the exponent, and then the power.
        times = MAX_SYMBOLIC_EXPONENT if symbols else 1 << min(exponent.bits, MAX_BITS.bit_length())
    count = math.ceil(abs(times)) if abs(times) <= MAX_BITS else MAX_BITS + 1
    if head in _SHIFTS:
        return Growth(nodes, base.bits + (count if head == "LShift" else 0), 1, base.whole, exponents)
    terms = 1
    if base.terms > 1 and count:
        # The number of ways to choose `count` of the terms, with repetition.
        terms = math.comb(count + base.terms - 1, count) if count + base.terms < MAX_TERMS else MAX_TERMS + 1
    whole = head == "PowByNatural" or (head == "Pow" and base.whole and type(times) is int and times >= 0)
    if operands[1].head == "Rational" and base.bits * max(count, 1) > MAX_ROOT_BITS:
        _refuse(f"a root of a number of {base.bits} bits; at most {MAX_ROOT_BITS} are computed")
    bits = max(base.bits, _FLOAT_BITS) if head == "FloatPow" else base.bits * max(count, 1)
    return Growth(nodes, bits, terms, whole, exponents)


def _number(expression: Expression) -> int | float | None:
    """Return the number that an exponent is; None for an exponent with symbols."""
    head, args = expression
    if head == "Integer":
        return int(args[0])
    if head == "Rational":
        return float(args[0] / args[1]) if max(abs(args[0]), args[1]) <= MAX_BITS else math.inf
    if head == "Float":
        return float(args[0])
    return None


def _symbols_of_exponent(expression: Expression) -> list[str]:
    """Return the symbols of an exponent. It must consist of symbols and small numbers, and contain no power."""
    found: list[str] = []
    bits = 0
    pending = [expression]
    while pending:
        part = pending.pop()
        number = _number(part)
        if part.head == "Symbol":
            found.append(part.args[0])
        elif number is not None and abs(number) > MAX_SYMBOLIC_EXPONENT:
            _refuse(f"an exponent with symbols holds a number greater than {MAX_SYMBOLIC_EXPONENT}")
        elif part.head in _RAISING:
            _refuse("a power in the exponent of another")
        bits += 0 if number is None else math.ceil(abs(number)).bit_length()
        if bits > MAX_EXPONENT_BITS:  # the bits of their product, at most
            _refuse(f"the numbers of an exponent have more than {MAX_EXPONENT_BITS} bits together")
        pending.extend(part.operands)
    return found


def _of_integer(expression: Expression) -> Growth:
    return Growth(1, max(expression.args[0].bit_length(), 1), 1, True)


def _of_rational(expression: Expression) -> Growth:
    return Growth(1, expression.args[0].bit_length() + expression.args[1].bit_length(), 1, False)


def _of_float(expression: Expression) -> Growth:
    decimal, precision = expression.args
    digits, _, exponent = decimal.partition("e")
    if len(digits) > MAX_BITS // 3 or len(exponent) > 8 or abs(int(exponent or 0)) > MAX_DECIMAL_EXPONENT:
        raise ExpressionError(
            f"a Float beyond {MAX_DECIMAL_EXPONENT} as power of ten", remedy="A double reaches 308"
        )
    return Growth(1, precision + 4 * (len(digits) + abs(int(exponent or 0))), 1, False)


_LEAVES: dict[str, Callable[[Expression], Growth]] = {
    "Integer": _of_integer,
    "Rational": _of_rational,
    "Float": _of_float,
    "Symbol": lambda _expression: Growth(1, 64, 1, True),
}
