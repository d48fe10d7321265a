"""The table of symbolic operations, and the evaluation of expressions whose symbols are numbers, with bounds and without sympy.

A row has all that differs between operations; parsers, bounds, the tables of the specification and those of graphwire-js are made
from it. sympy's classes have the same names, by which `bridge` finds them.

Integers and fractions are exact, floats are doubles. There is no value if it exceeds `MAX_BITS`, is undefined or
infinite, or needs an operation that is not implemented here; the same holds for every expression that contains such a
part.

An expression is a tree, which has two text forms, and neither is ever evaluated:

* constructor text, which torch >= 2.6 writes: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`;
* infix text (`schema.texts.infix`), which older releases write, and which every release writes as the key of a range:
  `2*s0 - 1`.

Nothing is folded or reordered: `9**9**9` is a tree of two powers. Infix text omits the assumptions of symbols, so
`parse_infix` creates symbols without assumptions.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from keyword import iskeyword
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from graphwire.errors import ExpressionError

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
    Operation(
        "CeilDiv", 2, 2, _of_integers(lambda base, divisor: (base + divisor - 1) // divisor), "integer"
    ),
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


class Expression(NamedTuple):
    """A node of an expression tree; immutable, and equal to any tree with the same heads and parts.

    `head` determines the contents of `args`:
        `Integer`   (value,)
        `Rational`  (numerator, denominator)
        `Float`     (decimal text, precision in bits)
        `Symbol`    (name, (assumption, bool), …)
        a constant  () — the head is the constant's own spelling, such as `-int_oo`
        otherwise   the operands, each an Expression, in the order in which they are written
    """

    head: str
    args: tuple[Any, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The parts of this node that are expressions; empty for numbers, symbols and constants."""
        return tuple(part for part in self.args if isinstance(part, Expression))


MAX_CHARACTERS = 1_000_000
"""Length of an expression's text."""
MAX_DEPTH = 200
"""Nesting depth of operations."""
MAX_DIGITS = 4300
"""Digits of one number. Python's own `int` accepts as many by default."""

CONSTANTS: frozenset[str] = frozenset({"true", "false", "oo", "-oo", "int_oo", "-int_oo", "zoo", "nan"})
"""Every constant of the grammar, as constructor text spells it."""

ASSUMPTIONS: frozenset[str] = frozenset(
    "algebraic antihermitian commutative complex composite even extended_negative extended_nonnegative"
    " extended_nonpositive extended_nonzero extended_positive extended_real finite hermitian imaginary infinite"
    " integer irrational negative noninteger nonnegative nonpositive nonzero odd polar positive prime rational"
    " real transcendental zero".split()
)
"""The assumptions that a symbol may carry, in sympy's terms."""

_OPERATIONS_LISTED = "The operations are listed in graphwire.schema.texts.operations"
_SYMBOL_NAME = r"[A-Za-z_][A-Za-z0-9_]{,1023}"
_DECIMAL = r"-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?"


def refuse(problem: str, text: str = "", position: int = 0, remedy: str = "") -> NoReturn:
    if text:
        chunk = text[position : position + 40]
        problem = (
            f"{problem}: {chunk!r} at character {position}" if chunk else f"{problem} at the end of the text"
        )
    raise ExpressionError(problem, remedy=remedy)


def integer(value: int) -> Expression:
    """Return the tree of a whole number."""
    return Expression("Integer", (value,))


def rational(numerator: int, denominator: int) -> Expression:
    """Return the tree of a fraction, unreduced.

    Raises:
        ExpressionError: `denominator` is not positive.
    """
    if denominator <= 0:
        refuse(f"a fraction has denominator {denominator}", remedy="A denominator is a positive number")
    return Expression("Rational", (numerator, denominator))


def float_number(decimal: str, precision: int = 53) -> Expression:
    """Return the tree of a binary floating-point number.

    Args:
        decimal: its value in decimal, such as `0.5` or `-1.0e-30`.
        precision: the width of its significand in bits; 53 is IEEE 754 double.

    Raises:
        ExpressionError: `decimal` is not a decimal number, or the precision is not in 1 … 4096.
    """
    if not re.fullmatch(_DECIMAL, decimal):
        refuse(f"{decimal!r} is not a decimal number")
    if not 1 <= precision <= 4096:
        refuse(f"a Float has a precision of {precision} bits", remedy="torch writes 53 (double)")
    return Expression("Float", (decimal, precision))


def symbol(name: str, assumptions: Sequence[tuple[str, bool]] = ()) -> Expression:
    """Return the tree of a symbol.

    Args:
        name: a plain ASCII identifier such as `s0`.
        assumptions: pairs such as `("integer", True)`, kept in this order.

    Raises:
        ExpressionError: the name is not an identifier, or is a keyword, a constant's name or a dunder; or an assumption
            is unknown.
    """
    if not re.fullmatch(_SYMBOL_NAME, name) or iskeyword(name) or name.startswith("__") or name in CONSTANTS:
        refuse(
            f"{name[:80]!r} cannot name a symbol", remedy="A symbol is named by a plain identifier such as s0"
        )
    if assumptions:
        known = [key for key, _ in assumptions]
        if not ASSUMPTIONS.issuperset(known):
            unknown = sorted(set(known) - ASSUMPTIONS)
            refuse(f"symbol {name!r} has an assumption that sympy does not know: {', '.join(unknown)}")
        if len(set(known)) != len(known):
            refuse(f"symbol {name!r} has a duplicate assumption")
    return Expression("Symbol", (name, *assumptions))


def call(head: str, operands: Sequence[Expression]) -> Expression:
    """Return the tree of an operation.

    Raises:
        ExpressionError: the grammar lacks the operation, or the number of operands is wrong.
    """
    row = OPERATIONS.get(head)
    if row is None:
        refuse(f"{head[:80]!r} is not an operation of the expression grammar", remedy=_OPERATIONS_LISTED)
    least, most, count = row.least, row.most, len(operands)
    if count < least or (most is not None and count > most):
        wanted = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        refuse(f"{head} has {count} operand{'s' * (count != 1)}, and takes {wanted}")
    if head == "Piecewise":
        if any(operand.head != "ExprCondPair" for operand in operands):
            refuse("Piecewise has an operand that is not a (value, condition) pair")
    elif any(operand.head == "ExprCondPair" for operand in operands):
        refuse(f"{head} has a (value, condition) pair as operand", remedy="Only Piecewise holds such pairs")
    return Expression(head, tuple(operands))


def symbols_of(expression: Expression) -> tuple[str, ...]:
    """Return the names of all symbols of `expression`, each once, in order of first occurrence."""
    names: dict[str, None] = {}
    pending: list[Any] = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, Expression):
            if part.head == "Symbol":
                names[part.args[0]] = None
            else:
                pending.extend(reversed(part.args))
    return tuple(names)


# ---------------------------------------------------------------------------------------------------- constructor text

_CHUNK = r"""(?ax)\s*(?:
      Integer\(\s*(?P<Integer>-?[0-9]+)\s*\)
    | Symbol\(\s*'(?P<Symbol>[^'\\]*)'(?P<assumptions>(?:\s*,\s*[a-z_]+\s*=\s*(?:True|False))*)\s*\)
    | Float\(\s*'(?P<Float>[^'\\]*)'\s*,\s*precision\s*=\s*(?P<precision>[0-9]{1,5})\s*\)
    | Rational\(\s*(?P<numerator>-?[0-9]+)\s*,\s*(?P<Rational>[0-9]+)\s*\)
    | (?P<open>[A-Za-z_][A-Za-z0-9_]*)\(
    | (?P<close>\))
    | (?P<comma>,)
    | (?P<constant>-?[A-Za-z_][A-Za-z0-9_]*)
    )\s*"""
_ASSUMPTION = r"(?a)([a-z_]+)\s*=\s*(True|False)"
_SPELLED = {"Integer": "Integer(5)", "Symbol": "Symbol('s0', integer=True)", "Rational": "Rational(1, 2)"} | {
    "Float": "Float('0.5', precision=53)"
}


def parse_digits(digits: str) -> int:
    check_digits(digits)
    return int(digits)


def check_digits(number: str) -> None:
    if len(number) > MAX_DIGITS:
        refuse(f"a number of {len(number)} digits; at most {MAX_DIGITS} are read")


def _leaf(found: re.Match[str]) -> Expression:
    kind, value = str(found.lastgroup), found[found.lastgroup or 0]
    if kind == "Integer":
        return Expression("Integer", (parse_digits(value),))
    if kind == "constant":
        if value not in CONSTANTS:
            refuse(
                f"{value[:80]!r} is not a constant of the expression grammar",
                remedy="A symbol is written Symbol('s0'); infix text is read by parse_infix",
            )
        return Expression(value, ())
    if kind == "Rational":
        return rational(parse_digits(found["numerator"]), parse_digits(value))
    if kind == "precision":
        check_digits(found["Float"])
        return float_number(found["Float"], int(value))
    pairs = [(key, word == "True") for key, word in re.findall(_ASSUMPTION, found["assumptions"])]
    return symbol(found["Symbol"], pairs)


def _refuse_head(head: str, text: str, position: int) -> NoReturn:
    if head in _SPELLED:
        refuse(f"not a {head}", text, position, f"A {head} is written like {_SPELLED[head]}")
    refuse(f"{head[:80]!r} is not an operation of the expression grammar", text, position, _OPERATIONS_LISTED)


def parse_expression(text: str) -> Expression:
    """Parse constructor text, such as `Add(Symbol('s0', integer=True), Integer(-1))`.

    Raises:
        ExpressionError: the text violates the grammar or the limits; the message quotes the offending chunk.
    """
    check_length(text)
    match = re.compile(_CHUNK).match
    stack: list[tuple[str, list[Expression]]] = []
    operands: list[Expression] = []
    position, length, wanted = 0, len(text), True
    while position < length:
        found = match(text, position)
        if found is None:
            refuse("not part of the expression grammar", text, position)
        kind = found.lastgroup
        if kind == "close":
            if not stack or (wanted and operands):
                refuse("a closing parenthesis without an operation", text, position)
            head, outer = stack.pop()
            outer.append(call(head, operands))
            operands, wanted = outer, False
        elif kind == "comma":
            if wanted or not stack:
                refuse("a comma without an operand before it", text, position)
            wanted = True
        elif not wanted:
            refuse("an operand without a comma before it", text, position)
        elif kind == "open":
            head = found["open"]
            if head not in OPERATIONS:
                _refuse_head(head, text, position)
            if len(stack) >= MAX_DEPTH:
                refuse(f"operations nested deeper than {MAX_DEPTH}", text, position)
            stack.append((head, operands))
            operands = []
        else:
            operands.append(_leaf(found))
            wanted = False
        position = found.end()
    if stack or len(operands) != 1:
        refuse("an expression that is not complete", text, length)
    if operands[0].head == "ExprCondPair":
        refuse("a (value, condition) pair outside of a Piecewise", text)
    return operands[0]


def check_length(text: str) -> None:
    if not isinstance(text, str):
        refuse(f"an expression is text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        refuse(f"an expression of {len(text)} characters; at most {MAX_CHARACTERS} are read")


def format_expression(expression: Expression) -> str:
    """Return the constructor text of `expression`, byte for byte as sympy's `srepr` prints the same tree."""
    head, args = expression
    if head == "Symbol":
        name, *assumptions = args
        return f"Symbol('{name}'{''.join(f', {pair[0]}={pair[1]}' for pair in assumptions)})"
    if head == "Integer":
        return f"Integer({args[0]})"
    if head == "Float":
        return f"Float('{args[0]}', precision={args[1]})"
    if head == "Rational":
        return f"Rational({args[0]}, {args[1]})"
    if head in CONSTANTS:
        return head
    return f"{head}({', '.join([format_expression(operand) for operand in args])})"
