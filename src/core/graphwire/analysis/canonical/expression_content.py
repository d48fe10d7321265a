"""The content of a symbolic expression: equal for all texts that torch and sympy write for the same expression.

A number is itself, a symbol is `["symbol", NAME]`, an operation is a list of its head and operands. Differences between
releases of sympy, and between constructor text and infix text, are normalized. Nothing else is evaluated:

* operands of sums, products, Max, Min, And, Or and Xor that are the same operation are merged into it. Operands of these, of
  Equality and of Unequality ascend by their bytes;
* the integers and fractions among the factors of a product become one number, as long as it has at most 256 bits;
* `a > b` is `b < a`, and `a >= b` is `b <= a`;
* assumptions about symbols are omitted: the symbols' kinds and ranges encode them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphwire.analysis.canonical.encoding import content_bytes, content_float
from graphwire.schema.texts import Expression

_ASSOCIATIVE = frozenset("Add And Max Min Mul Or Xor".split())
COMMUTATIVE = _ASSOCIATIVE | {"Equality", "Unequality"}
"""The operations in which the order of operands has no meaning."""
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
    """Return the content of an expression.

    Args:
        rename: returns the new name of a symbol.

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
    """Return the factors of a product with integers and fractions multiplied, as long as the result has at most 256 bits."""
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
