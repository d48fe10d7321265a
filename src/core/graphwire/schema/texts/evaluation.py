"""Evaluation of expressions whose symbols are numbers, with bounds and without sympy.

Integers and fractions are exact, floats are doubles. There is no value if it exceeds `growth.MAX_BITS`, is undefined or
infinite, or needs an operation that is not implemented here; the same holds for every expression that contains such a
part.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from graphwire.schema.texts.constructor import Expression
from graphwire.schema.texts.growth import MAX_BITS

Number: TypeAlias = int | Fraction | float
Operation: TypeAlias = Callable[[Sequence[Number]], Number]

_MOST = 2**63 - 1
"""The largest power of natural numbers that torch computes."""


class _NoValueError(ArithmeticError):
    """There is no value, or none within the bounds."""


def evaluate(expression: Expression, values: Mapping[str, Number]) -> Number | None:
    """Return the value of `expression`, or None if it has none.

    Args:
        values: the values of the symbols, by name. An expression with any other symbol has no value.
    """
    try:
        return _evaluate(expression, values)
    except (ArithmeticError, ValueError, RecursionError):  # a root of a negative number is a ValueError
        return None


def _evaluate(expression: Expression, values: Mapping[str, Number]) -> Number:
    head, args = expression
    if head == "Symbol":
        if args[0] not in values:
            raise _NoValueError
        return values[args[0]]
    if head == "Integer":
        return int(args[0])
    if head == "Rational":
        return _bounded(Fraction(args[0], args[1]))
    if head == "Float":
        return _bounded(float(args[0]))
    if head in ("true", "false"):
        return head == "true"
    if head == "Piecewise":
        for pair in expression.operands:
            if _evaluate(pair.operands[1], values):
                return _evaluate(pair.operands[0], values)
        raise _NoValueError
    compute = _OPERATIONS.get(head)
    if compute is None:
        raise _NoValueError
    return _bounded(compute([_evaluate(operand, values) for operand in expression.operands]))


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NoValueError
    elif max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise _NoValueError
    elif isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


def _sum(operands: Sequence[Number]) -> Number:
    total: Number = 0
    for operand in operands:
        total = _bounded(total + operand)
    return total


def _product(operands: Sequence[Number]) -> Number:
    product: Number = 1
    for operand in operands:
        product = _bounded(product * operand)
    return product


def _power(operands: Sequence[Number]) -> Number:
    base, exponent = operands
    if isinstance(base, float) or isinstance(exponent, float):
        return _float_power(operands)
    if isinstance(exponent, Fraction):  # a root, which is rarely a number that can be written
        raise _NoValueError
    size = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
    if (size - 1) * abs(exponent) > MAX_BITS:
        raise _NoValueError
    if size == 1:  # 0, 1 or -1, to any power
        exponent = min(exponent, 2) if base == 0 else exponent % 2
    return Fraction(base) ** exponent


def _natural_power(operands: Sequence[Number]) -> Number:
    base, exponent = _whole(operands)
    power = _power((base, exponent))
    if exponent < 0 or not -_MOST <= power <= _MOST:
        raise _NoValueError
    return power


def _float_power(operands: Sequence[Number]) -> Number:
    power = float(operands[0]) ** float(operands[1])
    if not isinstance(power, float):  # complex
        raise _NoValueError
    return power


def _left_shift(operands: Sequence[Number]) -> Number:
    base, shift = _whole(operands)
    return base * _natural_power((2, shift))


def _right_shift(operands: Sequence[Number]) -> Number:
    base, shift = _whole(operands)
    return base >> min(shift, MAX_BITS)


def _quotient(operands: Sequence[Number]) -> Number:
    base, divisor = operands
    if isinstance(base, int) and isinstance(divisor, int):
        return base // divisor
    return math.floor(base / divisor)


def _modulus(operands: Sequence[Number]) -> Number:
    base, divisor = _whole(operands)
    if base < 0 or divisor < 1:
        raise _NoValueError
    return base % divisor


def _true_quotient(operands: Sequence[Number]) -> Number:
    base, divisor = _whole(operands)
    return base / divisor


def _whole(operands: Sequence[Number]) -> list[int]:
    whole = [operand for operand in operands if isinstance(operand, int)]
    if len(whole) != len(operands):
        raise _NoValueError
    return whole


def _of_two(function: Callable[[int, int], int]) -> Operation:
    def compute(operands: Sequence[Number]) -> Number:
        left, right = _whole(operands)
        return function(left, right)

    return compute


def _of_one(function: Callable[[float], Number]) -> Operation:
    return lambda operands: function(float(operands[0]))


def _relation(compare: Callable[[Number, Number], bool]) -> Operation:
    return lambda operands: compare(operands[0], operands[1])


def _modular_index(operands: Sequence[Number]) -> Number:
    base, divisor, modulus = _whole(operands)
    return base // divisor % modulus


def _choice(operands: Sequence[Number]) -> Number:
    return operands[1] if operands[0] else operands[2]


_OPERATIONS: dict[str, Operation] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _natural_power,
    "FloatPow": _float_power,
    "LShift": _left_shift,
    "RShift": _right_shift,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "CeilDiv": _of_two(lambda base, divisor: -(-base // divisor)),
    "Mod": _modulus,
    "PythonMod": _of_two(operator.mod),
    "ModularIndexing": _modular_index,
    "IntTrueDiv": _true_quotient,
    "FloatTrueDiv": lambda operands: float(operands[0]) / float(operands[1]),
    "Max": max,
    "Min": min,
    "Abs": lambda operands: max(operands[0], -operands[0]),
    "sign": lambda operands: (operands[0] > 0) - (operands[0] < 0),
    "Identity": lambda operands: operands[0],
    "ToFloat": _of_one(float),
    "CeilToInt": lambda operands: math.ceil(operands[0]),
    "ceiling": lambda operands: math.ceil(operands[0]),
    "FloorToInt": lambda operands: math.floor(operands[0]),
    "floor": lambda operands: math.floor(operands[0]),
    "RoundToInt": _of_one(round),
    "TruncToInt": _of_one(math.trunc),
    "TruncToFloat": _of_one(lambda value: float(math.trunc(value))),
    "Where": _choice,
    "ITE": _choice,
    "Equality": _relation(operator.eq),
    "Unequality": _relation(operator.ne),
    "LessThan": _relation(operator.le),
    "StrictLessThan": _relation(operator.lt),
    "GreaterThan": _relation(operator.ge),
    "StrictGreaterThan": _relation(operator.gt),
    "And": all,
    "Or": any,
    "Xor": lambda operands: sum(map(bool, operands)) % 2 == 1,
    "Not": lambda operands: not operands[0],
    "BitwiseFn_bitwise_and": _of_two(operator.and_),
    "BitwiseFn_bitwise_or": _of_two(operator.or_),
    "BitwiseFn_bitwise_xor": _of_two(operator.xor),
    **{
        f"OpaqueUnaryFn_{name}": _of_one(getattr(math, name))
        for name in "sqrt cos cosh sin sinh tan tanh asin acos atan exp log asinh log2".split()
    },
}
