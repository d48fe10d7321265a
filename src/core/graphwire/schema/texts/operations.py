"""The table of symbolic operations, and the evaluation of expressions whose symbols are numbers, with bounds and without sympy.

A row has all that differs between operations; parsers, bounds, the tables of the specification and those of graphwire-js are made
from it. sympy's classes have the same names, by which `bridge` finds them.

Integers and fractions are exact, floats are doubles. There is no value if it exceeds `MAX_BITS`, is undefined or
infinite, or needs an operation that is not implemented here; the same holds for every expression that contains such a
part.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from graphwire.schema.texts.constructor import Expression

Number: TypeAlias = int | Fraction | float
Compute: TypeAlias = Callable[..., Number]

MAX_BITS = 1 << 14
"""Bits of any number that an expression can evaluate to, with 64 bits for a symbol. A number of 4300 digits has as
many."""

_DENSE = "IsNonOverlappingAndDenseIndicator"
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
    row = OPERATIONS.get(head)
    if row is None or row.compute is None:
        raise _NoValueError
    return _bounded(row.compute(*[_evaluate(operand, values) for operand in expression.operands]))


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NoValueError
    elif max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise _NoValueError
    elif isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


def _joined(join: Callable[[Number, Number], Number], start: Number) -> Compute:
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


def _of_integers(function: Callable[..., Number]) -> Compute:
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


def _on_float(function: Callable[[float], Number]) -> Compute:
    return lambda operand: function(float(operand))


def _choice(condition: Number, chosen: Number, otherwise: Number) -> Number:
    return chosen if condition else otherwise


class Operation(NamedTuple):
    """A row of the table."""

    name: str
    """The head of a tree, the name in constructor text, and that of sympy's or torch's class."""
    least: int
    """The smallest number of operands."""
    most: int | None
    """The largest; None if there is none."""
    compute: Compute | None = None
    """Returns the value; None if there is no evaluation."""
    growth: Literal["", "integer", "float", "power", "shift", "exponential"] = ""
    """How the value grows (`growth`): it is an integer, or a float, for any operands; or it is larger than they are. Empty if it
    is about as large as its operands, and an integer if they are."""
    sign: str = ""
    """The operator of infix text that joins the operands, if it is a relation or a connective."""
    call: str = ""
    """The name in a call of infix text, where it is another one."""
    binding: int = 9
    """How tightly its call binds in infix text: sympy puts some in parentheses as if they were operators."""
    guard: str = ""
    """The functions of a guard that are this operation, if a function spells it there."""
    since: str = "2.6"
    """The oldest release of torch whose reader reads it in sizes and conditions. Infix text is that of releases before 2.6."""


def _unary(name: str) -> tuple[Operation, ...]:
    """Return the rows of a function of the math library: on doubles, and if sympy has it, as sympy's own."""
    growth: Literal["exponential", "float"] = "exponential" if name in ("exp", "sinh", "cosh") else "float"
    spelled = f"OpaqueUnaryFn_{name}"
    guard = f"math.{name} {spelled}" if name in ("asinh", "exp", "log") else f"math.{name}"
    opaque = Operation(spelled, 1, 1, _on_float(getattr(math, name)), growth, guard=guard)
    own = Operation(name, 1, 2 if name == "log" else 1, None, growth)
    return (opaque,) if name in ("sqrt", "log2") else (opaque, own)


_ROWS = (
    Operation("Add", 1, None, _joined(operator.add, 0), since="2.1"),
    Operation("Mul", 1, None, _joined(operator.mul, 1), since="2.1"),
    Operation("Pow", 2, 2, _exact_power, "power", since="2.1"),
    Operation("PowByNatural", 2, 2, _natural_power, "power", binding=6),
    Operation("FloatPow", 2, 2, _float_power, "power", binding=8),
    Operation("LShift", 2, 2, _of_integers(lambda base, shift: base * _natural_power(2, shift)), "shift"),
    Operation("RShift", 2, 2, _of_integers(lambda base, shift: base >> min(shift, MAX_BITS)), "shift"),
    Operation("FloorDiv", 2, 2, _quotient, "integer", since="2.1"),
    Operation("CleanDiv", 2, 2, _quotient, "integer"),
    Operation("CeilDiv", 2, 2, _of_integers(lambda base, divisor: -(-base // divisor)), "integer"),
    Operation("Mod", 2, 2, _modulus, binding=4, since="2.1"),
    Operation("PythonMod", 2, 2, _of_integers(operator.mod), binding=4),
    Operation("ModularIndexing", 3, 3, _of_integers(lambda a, b, c: a // b % c), "integer", binding=4),
    Operation("IntTrueDiv", 2, 2, _of_integers(operator.truediv), "float"),
    Operation("FloatTrueDiv", 2, 2, lambda base, divisor: float(base) / float(divisor), "float"),
    Operation("Max", 1, None, lambda *operands: max(operands), guard="max torch.sym_max", since="2.1"),
    Operation("Min", 1, None, lambda *operands: min(operands), guard="min torch.sym_min", since="2.1"),
    Operation("Abs", 1, 1, lambda operand: max(operand, -operand), guard="abs", since="2.1"),
    Operation("sign", 1, 1, lambda operand: (operand > 0) - (operand < 0), "integer"),
    Operation("Identity", 1, 1, lambda operand: operand),
    Operation("ToFloat", 1, 1, _on_float(float), "float", guard="float torch.sym_float"),
    Operation("CeilToInt", 1, 1, math.ceil, "integer", guard="math.ceil"),
    Operation("ceiling", 1, 1, math.ceil, "integer"),
    Operation("FloorToInt", 1, 1, math.floor, "integer", guard="math.floor"),
    Operation("floor", 1, 1, math.floor, "integer"),
    Operation("RoundToInt", 1, 1, _on_float(round), "integer", guard="round"),
    Operation("RoundDecimal", 2, 2, None, "float", guard="round"),
    Operation("TruncToInt", 1, 1, _on_float(math.trunc), "integer", guard="math.trunc int torch.sym_int"),
    Operation("TruncToFloat", 1, 1, _on_float(lambda value: float(math.trunc(value))), "float"),
    *(
        row
        for name in "sqrt log2 exp log cos cosh sin sinh tan tanh asin acos atan asinh".split()
        for row in _unary(name)
    ),
    Operation("Where", 3, 3, _choice, binding=4, guard="Where"),
    Operation("ITE", 3, 3, _choice),
    Operation("Piecewise", 1, None),
    Operation("ExprCondPair", 2, 2),
    Operation("LessThan", 2, 2, operator.le, "integer", "<=", "Le", since="2.1"),
    Operation("StrictLessThan", 2, 2, operator.lt, "integer", "<", "Lt", since="2.1"),
    Operation("GreaterThan", 2, 2, operator.ge, "integer", ">=", "Ge", since="2.1"),
    Operation("StrictGreaterThan", 2, 2, operator.gt, "integer", ">", "Gt", since="2.1"),
    Operation("Equality", 2, 2, operator.eq, "integer", "==", "Eq", since="2.1"),
    Operation("Unequality", 2, 2, operator.ne, "integer", "!=", "Ne", since="2.1"),
    Operation("Or", 1, None, lambda *operands: any(operands), "integer", "|", since="2.1"),
    Operation("Xor", 1, None, lambda *operands: sum(map(bool, operands)) % 2 == 1, "integer", "^"),
    Operation("And", 1, None, lambda *operands: all(operands), "integer", "&", since="2.1"),
    Operation("Not", 1, 1, operator.not_, "integer", guard="torch.sym_not", since="2.1"),
    Operation("BitwiseFn_bitwise_and", 2, 2, _of_integers(operator.and_)),
    Operation("BitwiseFn_bitwise_or", 2, 2, _of_integers(operator.or_)),
    Operation("BitwiseFn_bitwise_xor", 2, 2, _of_integers(operator.xor), since="2.10"),
    Operation(_DENSE, 0, None, guard=_DENSE),
)
OPERATIONS: dict[str, Operation] = {row.name: row for row in _ROWS}
"""Every operation of the grammar, by its name."""

FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **{name: (row.least, row.most) for row in _ROWS for name in row.guard.split()},
    **{f"math.{name}": (1, 1) for name in "acosh atanh isinf isnan".split()},
    **{name: (1, 1) for name in ("cast_symbool_to_symint_guardless", "torch._sym_sqrt")},
    **{name: (2, None) for name in ("max", "min", "torch.sym_max", "torch.sym_min")},
    "round": (1, 2),
}
"""Every function that a guard may call, with the minimum and maximum number of its arguments (None: unbounded). Some are no
operation, or take other operands."""
