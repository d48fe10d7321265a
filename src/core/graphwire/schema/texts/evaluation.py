"""Evaluation of expressions whose symbols are numbers, with bounds and without sympy.

Integers and fractions are exact, floats are doubles. There is no value if it exceeds `growth.MAX_BITS`, is undefined or
infinite, or needs an operation that is not implemented here; the same holds for every expression that contains such a
part.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from graphwire.schema.texts.constructor import Expression
from graphwire.schema.texts.growth import MAX_BITS

Number: TypeAlias = int | Fraction | float
Operation: TypeAlias = Callable[..., Number]

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
    return _bounded(compute(*[_evaluate(operand, values) for operand in expression.operands]))


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NoValueError
    elif max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise _NoValueError
    elif isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


def _joined(join: Callable[[Number, Number], Number], start: Number) -> Operation:
    def compute(*operands: Number) -> Number:
        value = start
        for operand in operands:
            value = _bounded(join(value, operand))
        return value

    return compute


def _exact_power(base: Number, exponent: Number) -> Number:
    if isinstance(base, float) or isinstance(exponent, float):
        return _float_power(base, exponent)
    if isinstance(exponent, Fraction):  # a root, which is rarely a number that can be written
        raise _NoValueError
    size = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
    if (size - 1) * abs(exponent) > MAX_BITS:
        raise _NoValueError
    if size == 1:  # 0, 1 or -1, to any power
        exponent = min(exponent, 2) if base == 0 else exponent % 2
    return Fraction(base) ** exponent


def _float_power(base: Number, exponent: Number) -> Number:
    power = float(base) ** float(exponent)
    if not isinstance(power, float):  # complex
        raise _NoValueError
    return power


def _of_integers(function: Callable[..., Number]) -> Operation:
    """Return the operation `function`, without a value unless all operands are integers."""

    def compute(*operands: Number) -> Number:
        if not all(isinstance(operand, int) for operand in operands):
            raise _NoValueError
        return function(*operands)

    return compute


@_of_integers
def _natural_power(base: int, exponent: int) -> Number:
    power = _exact_power(base, exponent)
    if exponent < 0 or not -_MOST <= power <= _MOST:
        raise _NoValueError
    return power


@_of_integers
def _modulus(base: int, divisor: int) -> Number:
    if base < 0 or divisor < 1:
        raise _NoValueError
    return base % divisor


def _quotient(base: Number, divisor: Number) -> Number:
    if isinstance(base, int) and isinstance(divisor, int):
        return base // divisor
    return math.floor(base / divisor)


def _on_float(function: Callable[[float], Number]) -> Operation:
    return lambda operand: function(float(operand))


def _choice(condition: Number, chosen: Number, otherwise: Number) -> Number:
    return chosen if condition else otherwise


_OPERATIONS: dict[str, Operation] = {
    "Add": _joined(operator.add, 0),
    "Mul": _joined(operator.mul, 1),
    "Pow": _exact_power,
    "PowByNatural": _natural_power,
    "FloatPow": _float_power,
    "LShift": _of_integers(lambda base, shift: base * _natural_power(2, shift)),
    "RShift": _of_integers(lambda base, shift: base >> min(shift, MAX_BITS)),
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "CeilDiv": _of_integers(lambda base, divisor: -(-base // divisor)),
    "Mod": _modulus,
    "PythonMod": _of_integers(operator.mod),
    "ModularIndexing": _of_integers(lambda base, divisor, modulus: base // divisor % modulus),
    "IntTrueDiv": _of_integers(operator.truediv),
    "FloatTrueDiv": lambda base, divisor: float(base) / float(divisor),
    "Max": lambda *operands: max(operands),
    "Min": lambda *operands: min(operands),
    "Abs": lambda operand: max(operand, -operand),
    "sign": lambda operand: (operand > 0) - (operand < 0),
    "Identity": lambda operand: operand,
    "ToFloat": _on_float(float),
    "CeilToInt": math.ceil,
    "ceiling": math.ceil,
    "FloorToInt": math.floor,
    "floor": math.floor,
    "RoundToInt": _on_float(round),
    "TruncToInt": _on_float(math.trunc),
    "TruncToFloat": _on_float(lambda value: float(math.trunc(value))),
    "Where": _choice,
    "ITE": _choice,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "LessThan": operator.le,
    "StrictLessThan": operator.lt,
    "GreaterThan": operator.ge,
    "StrictGreaterThan": operator.gt,
    "And": lambda *operands: all(operands),
    "Or": lambda *operands: any(operands),
    "Xor": lambda *operands: sum(map(bool, operands)) % 2 == 1,
    "Not": operator.not_,
    "BitwiseFn_bitwise_and": _of_integers(operator.and_),
    "BitwiseFn_bitwise_or": _of_integers(operator.or_),
    "BitwiseFn_bitwise_xor": _of_integers(operator.xor),
    **{
        f"OpaqueUnaryFn_{name}": _on_float(getattr(math, name))
        for name in "sqrt cos cosh sin sinh tan tanh asin acos atan exp log asinh log2".split()
    },
}
