"""Symbolic expressions as trees: the text that torch.export writes for sizes, strides, ranges and conditions.

A tree has two text forms, and neither is ever evaluated:

* constructor text, which torch >= 2.6 writes: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`;
* infix text (`schema.texts.infix`), which older releases write, and which every release writes as the key of a range:
  `2*s0 - 1`.

Nothing is folded or reordered: `9**9**9` is a tree of two powers. Infix text omits the assumptions of symbols, so
`parse_infix` creates symbols without assumptions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn

from graphwire.errors import ExpressionError
from graphwire.schema.texts.operations import OPERATIONS


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
_SYMBOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{,1023}")
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
    if not _SYMBOL_NAME.fullmatch(name) or iskeyword(name) or name.startswith("__") or name in CONSTANTS:
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
    _, least, most, *_ = row
    count = len(operands)
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

_CHUNK = re.compile(
    r"""\s*(?:
      Integer\(\s*(?P<Integer>-?[0-9]+)\s*\)
    | Symbol\(\s*'(?P<Symbol>[^'\\]*)'(?P<assumptions>(?:\s*,\s*[a-z_]+\s*=\s*(?:True|False))*)\s*\)
    | Float\(\s*'(?P<Float>[^'\\]*)'\s*,\s*precision\s*=\s*(?P<precision>[0-9]{1,5})\s*\)
    | Rational\(\s*(?P<numerator>-?[0-9]+)\s*,\s*(?P<Rational>[0-9]+)\s*\)
    | (?P<open>[A-Za-z_][A-Za-z0-9_]*)\(
    | (?P<close>\))
    | (?P<comma>,)
    | (?P<constant>-?[A-Za-z_][A-Za-z0-9_]*)
    )\s*""",
    re.VERBOSE | re.ASCII,
)
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
    match = _CHUNK.match
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
    """Return the constructor text of `expression`, byte for byte as sympy's `srepr` prints the same tree.

    Raises:
        ExpressionError: the tree is nested too deeply to be printed.
    """
    try:
        return _constructor(expression)
    except RecursionError:
        refuse("an expression is nested too deeply to be written")


def _constructor(expression: Expression) -> str:
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
    return f"{head}({', '.join([_constructor(operand) for operand in args])})"
