"""The content of a symbolic expression: equal for all spellings that torch and sympy have for it.

A number is itself, a symbol is `["symbol", NAME]`, an operation is a list of its head and operands. What two releases of
sympy, constructor text and infix text write differently is made the same, and nothing is evaluated beyond that:

* sums, products, Max, Min, And, Or and Xor hold no operation of their own kind, and their operands ascend by their bytes,
  like those of Equality and Unequality;
* the numbers among the factors of a product are one number, where that is no float and has no more than 256 bits;
* `a > b` is `b < a`, and `a >= b` is `b <= a`;
* what symbols are assumed to be is left out: their kind and ranges say it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphwire.analysis.canonical.encoding import content_bytes, content_float
from graphwire.schema.texts import Expression

_ASSOCIATIVE = frozenset("Add And Max Min Mul Or Xor".split())
COMMUTATIVE = _ASSOCIATIVE | {"Equality", "Unequality"}
"""The operations whose operands have no order."""
_CONVERSE = {"GreaterThan": "LessThan", "StrictGreaterThan": "StrictLessThan"}
_CONSTANTS: dict[str, Any] = {
    "true": True,
    "false": False,
    "oo": math.inf,
    "-oo": -math.inf,
    "nan": math.nan,
}
_MAX_BITS = 256


def expression_content(expression: Expression, rename: Callable[[str], str]) -> Any:
    """The content of an expression.

    Args:
        rename: the name that each symbol gets.

    Raises:
        RecursionError: the expression nests too deeply.
    """
    head, args = expression
    if head == "Integer":
        return args[0]
    if head == "Symbol":
        return ["symbol", rename(args[0])]
    if head == "Float":
        return content_float(float(args[0])) if args[1] == 53 else ["Float", *args]
    if head == "Rational":
        return _fraction(*args)
    if not args:
        return _CONSTANTS.get(head, [head])
    operands = []
    for part in args:
        operand = expression_content(part, rename)
        if head in _ASSOCIATIVE and type(operand) is list and operand[0] == head:
            operands += operand[1:]
        else:
            operands.append(operand)
    if head == "Mul":
        operands = _with_one_number(operands)
    if head in _ASSOCIATIVE and len(operands) == 1:
        return operands[0]
    if head in COMMUTATIVE:
        operands.sort(key=content_bytes)
    elif head in _CONVERSE:
        return [_CONVERSE[head], operands[1], operands[0]]
    return [head, *operands]


def _fraction(numerator: int, denominator: int) -> Any:
    divisor = math.gcd(numerator, denominator)
    numerator, denominator = numerator // divisor, denominator // divisor
    return numerator if denominator == 1 else ["Rational", numerator, denominator]


def _with_one_number(factors: list[Any]) -> list[Any]:
    """The factors of a product with their whole numbers and fractions multiplied, while these stay small."""
    numerator, denominator, others = 1, 1, []
    for factor in factors:
        one, other = (factor, 1) if type(factor) is int else (0, 0)
        if type(factor) is list and factor[0] == "Rational":
            one, other = factor[1:]
        if other and (numerator * one).bit_length() <= _MAX_BITS >= (denominator * other).bit_length():
            numerator, denominator = numerator * one, denominator * other
        else:
            others.append(factor)
    number = _fraction(numerator, denominator)
    return others if number == 1 and others else [number, *others]
