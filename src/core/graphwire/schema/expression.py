"""Symbolic expressions: the text that torch.export writes for sizes, strides, ranges and conditions, as a tree.

Two spellings of one tree are read and written here, and neither is ever evaluated:

* constructor text, which torch >= 2.6 writes: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`;
* infix text, which older releases write, and every release writes as the key of a range: `2*s0 - 1`.

Nothing is folded or reordered: `9**9**9` is a tree of two powers. Infix text names its symbols without their
assumptions, so `parse_infix` makes symbols that have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn

from graphwire.errors import ExpressionError

__all__ = [
    "ASSUMPTIONS",
    "CONSTANTS",
    "DEFAULT_LIMITS",
    "HEADS",
    "Expression",
    "ExpressionLimits",
    "call",
    "float_number",
    "format_expression",
    "format_infix",
    "integer",
    "parse_expression",
    "parse_infix",
    "rational",
    "symbol",
    "symbols_of",
]


class Expression(NamedTuple):
    """One node of an expression tree; immutable, and equal to any tree of the same heads and parts.

    `head` says what `args` holds:
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


class ExpressionLimits(NamedTuple):
    """How large a text may be before it is refused."""

    characters: int = 1_000_000
    """Length of the whole text."""
    depth: int = 200
    """Operations inside operations."""
    digits: int = 4300
    """Digits of one number: what Python's own `int` accepts by default."""


DEFAULT_LIMITS = ExpressionLimits()

_OPAQUE = "sqrt cos cosh sin sinh tan tanh asin acos atan exp log asinh log2"
_UNARY = (
    "Abs CeilToInt FloorToInt Identity Not RoundToInt ToFloat TruncToFloat TruncToInt ceiling exp floor sign"
    " acos asin asinh atan cos cosh sin sinh tan tanh"
)
_BINARY = (
    "CeilDiv CleanDiv ExprCondPair FloatPow FloatTrueDiv FloorDiv IntTrueDiv LShift Mod Pow PowByNatural PythonMod"
    " RShift RoundDecimal Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan"
    " BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor"
)

HEADS: dict[str, tuple[int, int | None]] = {
    **{f"OpaqueUnaryFn_{name}": (1, 1) for name in _OPAQUE.split()},
    **{name: (1, 1) for name in _UNARY.split()},
    **{name: (2, 2) for name in _BINARY.split()},
    **{name: (3, 3) for name in ("ITE", "ModularIndexing", "Where")},
    **{name: (1, None) for name in ("Add", "And", "Max", "Min", "Mul", "Or", "Piecewise", "Xor")},
    "IsNonOverlappingAndDenseIndicator": (0, None),
    "log": (1, 2),
}
"""Every operation of the grammar, with the least and the greatest number of its operands (None: any number)."""

CONSTANTS: frozenset[str] = frozenset({"true", "false", "oo", "-oo", "int_oo", "-int_oo", "zoo", "nan"})
"""Every constant of the grammar, as constructor text spells it."""

ASSUMPTIONS: frozenset[str] = frozenset(
    "algebraic antihermitian commutative complex composite even extended_negative extended_nonnegative"
    " extended_nonpositive extended_nonzero extended_positive extended_real finite hermitian imaginary infinite"
    " integer irrational negative noninteger nonnegative nonpositive nonzero odd polar positive prime rational"
    " real transcendental zero".split()
)
"""What a symbol may be assumed to be, in sympy's words."""

_OPERATIONS_LISTED = "The operations are listed in graphwire.schema.expression.HEADS"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?")


def _refuse(problem: str, text: str = "", position: int = 0, remedy: str = "") -> NoReturn:
    if text:
        piece = text[position : position + 40]
        problem = (
            f"{problem}: {piece!r} at character {position}" if piece else f"{problem} at the end of the text"
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
        _refuse(f"a fraction has denominator {denominator}", remedy="A denominator is a positive number")
    return Expression("Rational", (numerator, denominator))


def float_number(decimal: str, precision: int = 53) -> Expression:
    """Return the tree of a binary floating-point number.

    Args:
        decimal: its value in decimal, such as `0.5` or `-1.0e-30`.
        precision: the width of its significand in bits; 53 is IEEE 754 double.

    Raises:
        ExpressionError: `decimal` is no decimal number, or the precision is out of 1 … 4096.
    """
    if not _DECIMAL.fullmatch(decimal):
        _refuse(f"{decimal!r} is no decimal number")
    if not 1 <= precision <= 4096:
        _refuse(f"a Float has a precision of {precision} bits", remedy="torch writes 53 (double)")
    return Expression("Float", (decimal, precision))


def symbol(name: str, assumptions: Sequence[tuple[str, bool]] = ()) -> Expression:
    """Return the tree of a symbol.

    Args:
        name: a plain ASCII identifier such as `s0`.
        assumptions: pairs such as `("integer", True)`, kept in this order.

    Raises:
        ExpressionError: the name is no identifier, a keyword, a constant's name or a dunder; or an assumption is unknown.
    """
    if not _IDENTIFIER.fullmatch(name) or iskeyword(name) or name.startswith("__") or name in CONSTANTS:
        _refuse(f"{name!r} cannot name a symbol", remedy="A symbol is named by a plain identifier such as s0")
    if assumptions:
        known = [key for key, _ in assumptions]
        if not ASSUMPTIONS.issuperset(known):
            unknown = sorted(set(known) - ASSUMPTIONS)
            _refuse(f"symbol {name!r} makes an assumption that is none of sympy's: {', '.join(unknown)}")
        if len(set(known)) != len(known):
            _refuse(f"symbol {name!r} states an assumption twice")
    return Expression("Symbol", (name, *assumptions))


def call(head: str, operands: Sequence[Expression]) -> Expression:
    """Return the tree of an operation.

    Raises:
        ExpressionError: the grammar has no such operation, or it takes another number of operands.
    """
    arity = HEADS.get(head)
    if arity is None:
        _refuse(
            f"{head[:80]!r} is no operation of the expression grammar",
            remedy=_OPERATIONS_LISTED,
        )
    least, most = arity
    count = len(operands)
    if count < least or (most is not None and count > most):
        wanted = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        _refuse(f"{head} has {count} operand{'s' * (count != 1)}, and takes {wanted}")
    if head == "Piecewise":
        if any(operand.head != "ExprCondPair" for operand in operands):
            _refuse("Piecewise has an operand that is no (value, condition) pair")
    elif any(operand.head == "ExprCondPair" for operand in operands):
        _refuse(f"{head} has a (value, condition) pair as operand", remedy="Only Piecewise holds such pairs")
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


# ------------------------------------------------------------------------------------------------ constructor text

_PIECE = re.compile(
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
_ASSUMPTION = re.compile(r"([a-z_]+)\s*=\s*(True|False)", re.ASCII)
_SPELLED = {"Integer": "Integer(5)", "Symbol": "Symbol('s0', integer=True)", "Rational": "Rational(1, 2)"} | {
    "Float": "Float('0.5', precision=53)"
}


def _whole(digits: str, limits: ExpressionLimits) -> int:
    if len(digits) > limits.digits:
        _refuse(f"a number of {len(digits)} digits; at most {limits.digits} are read")
    return int(digits)


def _leaf(found: re.Match[str], limits: ExpressionLimits) -> Expression:
    kind, value = str(found.lastgroup), found[found.lastgroup or 0]
    if kind == "Integer":
        return Expression("Integer", (_whole(value, limits),))
    if kind == "constant":
        if value not in CONSTANTS:
            _refuse(
                f"{value[:80]!r} is no constant of the expression grammar",
                remedy="A symbol is written Symbol('s0'); infix text is read by parse_infix",
            )
        return Expression(value, ())
    if kind == "Rational":
        return rational(_whole(found["numerator"], limits), _whole(value, limits))
    if kind == "precision":
        if len(found["Float"]) > limits.digits:
            _whole(found["Float"], limits)
        return float_number(found["Float"], int(value))
    pairs = [(key, word == "True") for key, word in _ASSUMPTION.findall(found["assumptions"])]
    return symbol(found["Symbol"], pairs)


def _refuse_head(head: str, text: str, position: int) -> NoReturn:
    if head in _SPELLED:
        _refuse(f"not a {head}", text, position, f"A {head} is written like {_SPELLED[head]}")
    _refuse(f"{head[:80]!r} is no operation of the expression grammar", text, position, _OPERATIONS_LISTED)


def parse_expression(text: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Read constructor text, such as `Add(Symbol('s0', integer=True), Integer(-1))`.

    Raises:
        ExpressionError: the text is outside of the grammar or the limits; it names the offending piece.
    """
    _check_length(text, limits)
    match = _PIECE.match
    stack: list[tuple[str, list[Expression]]] = []
    operands: list[Expression] = []
    position, length, wanted = 0, len(text), True
    while position < length:
        found = match(text, position)
        if found is None:
            _refuse("not part of the expression grammar", text, position)
        kind = found.lastgroup
        if kind == "close":
            if not stack or (wanted and operands):
                _refuse("a closing parenthesis without an operation", text, position)
            head, outer = stack.pop()
            outer.append(call(head, operands))
            operands, wanted = outer, False
        elif kind == "comma":
            if wanted or not stack:
                _refuse("a comma without an operand before it", text, position)
            wanted = True
        elif not wanted:
            _refuse("an operand without a comma before it", text, position)
        elif kind == "open":
            head = found["open"]
            if head not in HEADS:
                _refuse_head(head, text, position)
            if len(stack) >= limits.depth:
                _refuse(f"operations nested deeper than {limits.depth}", text, position)
            stack.append((head, operands))
            operands = []
        else:
            operands.append(_leaf(found, limits))
            wanted = False
        position = found.end()
    if stack or len(operands) != 1:
        _refuse("an expression that is not complete", text, length)
    return operands[0]


def _check_length(text: str, limits: ExpressionLimits) -> None:
    if not isinstance(text, str):
        _refuse(f"an expression is text, not {type(text).__name__}")
    if len(text) > limits.characters:
        _refuse(f"an expression of {len(text)} characters; at most {limits.characters} are read")


def format_expression(expression: Expression) -> str:
    """Return the constructor text of `expression`, byte for byte as sympy's `srepr` prints the same tree.

    Raises:
        ExpressionError: the tree is nested too deeply to be printed.
    """
    try:
        return _constructor(expression)
    except RecursionError:
        _refuse("an expression that is nested too deeply to be written")


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


# ------------------------------------------------------------------------------------------------------ infix text

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>'[^'\\]*')
    | (?P<sign>\*\*|//|<=|>=|==|!=|[-+*/<>=()~&|^,])
    )\s*""",
    re.VERBOSE | re.ASCII,
)
_RELATIONS = {
    "<=": "LessThan",
    "<": "StrictLessThan",
    ">=": "GreaterThan",
    ">": "StrictGreaterThan",
    "==": "Equality",
    "!=": "Unequality",
}
_NAMES = {"Eq": "Equality", "Ne": "Unequality", "Le": "LessThan", "Lt": "StrictLessThan"} | {
    "Ge": "GreaterThan",
    "Gt": "StrictGreaterThan",
}
_CONNECTIVES = {"|": "Or", "^": "Xor", "&": "And"}
_POWER: dict[str, int] = dict.fromkeys(_RELATIONS, 1) | {
    "|": 2,
    "^": 3,
    "&": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "**": 8,
}
"""How tightly an operator binds: as in Python, where a sign (7) lies between a product and a power."""

MINUS_ONE = integer(-1)
_NUMBERS = frozenset({"Integer", "Rational", "Float"})


def _is_negative(number: Expression) -> bool:
    return str(number.args[0]).startswith("-")


def _negated(operand: Expression) -> Expression:
    """Return minus `operand`, with the sign where sympy writes it: in a number, or as first factor of a product."""
    head, args = operand
    if head in _NUMBERS and not _is_negative(operand):
        return Expression(head, (f"-{args[0]}" if head == "Float" else -int(args[0]), *args[1:]))
    if head in ("oo", "int_oo"):
        return Expression(f"-{head}", ())
    if head == "Mul" and args[0] != MINUS_ONE:
        return Expression("Mul", (MINUS_ONE, *args))
    return Expression("Mul", (MINUS_ONE, operand))


def _inverses(divisor: Expression) -> tuple[int, list[Expression]]:
    """Return `divisor` as a whole number, and powers to multiply with."""
    head, args = divisor
    if head == "Integer" and not _is_negative(divisor) and args[0] != 0:
        return int(args[0]), []
    if head == "Mul":
        parts = [_inverses(factor) for factor in divisor.operands]
        if all(number == 1 for number, _ in parts[1:]):
            return parts[0][0], [power for _, powers in parts for power in powers]
    if head == "Pow" and divisor.operands[1].head in ("Integer", "Rational"):
        base, exponent = divisor.operands
        if not _is_negative(exponent):
            return 1, [Expression("Pow", (base, _negated(exponent)))]
    return 1, [Expression("Pow", (divisor, MINUS_ONE))]


class _InfixReader:
    """Reads one infix text by operator precedence; a chain of one operator makes one node, or a loop, not a recursion."""

    def __init__(self, text: str, limits: ExpressionLimits) -> None:
        self.text, self.limits, self.index = text, limits, 0
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.places: list[int] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                _refuse("not part of the expression grammar", text, position)
            kind = str(found.lastgroup)
            self.kinds.append(kind)
            self.words.append(found[kind])
            self.places.append(position)
            position = found.end()
        self.kinds.append("end")
        self.words.append("")
        self.places.append(len(text))

    def refuse(self, problem: str, remedy: str = "") -> NoReturn:
        _refuse(problem, self.text, self.places[self.index], remedy)

    def take(self, word: str) -> bool:
        """Step over `word` if it comes next, and say whether it did."""
        if self.words[self.index] != word or self.kinds[self.index] == "string":
            return False
        self.index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.refuse(f"{word!r} is missing")

    def read(self, power: int, depth: int) -> Expression:
        """Read an operand and every operator after it that binds at least as tightly as `power`."""
        if depth > self.limits.depth:
            self.refuse(f"operations nested deeper than {self.limits.depth}")
        negative = power <= 7 and self.take("-")
        left = self.read(8, depth + 1) if negative else self.operand(depth)
        if self.words[self.index] == "**" and power <= 8:
            self.index += 1
            left = Expression("Pow", (left, self.read(7, depth + 1)))
        if power <= 6:
            left = self.product(left, negative, depth)
        elif negative:
            left = _negated(left)
        while True:
            word = self.words[self.index]
            binding = _POWER.get(word, 0) if self.kinds[self.index] == "sign" else 0
            if not binding or binding < power or binding > 5:
                return left
            left = self.chain(left, word, binding, depth)

    def chain(self, left: Expression, word: str, binding: int, depth: int) -> Expression:
        """Read the rest of a sum, a conjunction and so on, or the right side of a relation."""
        operands = [left]
        if binding == 1:
            self.index += 1
            operands.append(self.read(2, depth + 1))
            if self.words[self.index] in _RELATIONS:
                self.refuse("a chain of relations", "Write the relations one by one, joined by &")
            return call(_RELATIONS[word], operands)
        while _POWER.get(self.words[self.index]) == binding:
            minus = self.words[self.index] == "-"
            self.index += 1
            operand = self.read(binding + 1, depth + 1)
            operands.append(_negated(operand) if minus else operand)
        return Expression(_CONNECTIVES.get(word, "Add"), tuple(operands))

    def product(self, first: Expression, negative: bool, depth: int) -> Expression:
        """Read the rest of a product: its sign first, its rational coefficient next, then its factors."""
        factors = [first]
        nested = 0
        while (word := self.words[self.index]) in ("*", "/", "//"):
            self.index += 1
            operand = self.read(7, depth + 1)
            if word == "*":
                factors.append(operand)
            elif word == "//":
                nested += 1
                if depth + nested > self.limits.depth:
                    self.refuse(f"operations nested deeper than {self.limits.depth}")
                factors = [Expression("FloorDiv", (self.joined(factors, negative), operand))]
                negative = False
            else:
                whole, powers = _inverses(operand)
                if powers and factors == [Expression("Integer", (1,))]:
                    factors = []
                if whole != 1 and factors and factors[0].head == "Integer" and not _is_negative(factors[0]):
                    factors[0] = rational(int(factors[0].args[0]), whole)
                elif whole != 1:
                    factors.insert(0, rational(1, whole))
                factors.extend(powers)
        return self.joined(factors, negative)

    @staticmethod
    def joined(factors: list[Expression], negative: bool) -> Expression:
        if len(factors) > 1:
            return Expression("Mul", (MINUS_ONE, *factors) if negative else tuple(factors))
        if negative and factors[0].head == "Mul":
            return Expression("Mul", (MINUS_ONE, factors[0]))
        return _negated(factors[0]) if negative else factors[0]

    def operand(self, depth: int) -> Expression:
        """Read a number, a name, a call, a parenthesis, or a negation."""
        kind, word = self.kinds[self.index], self.words[self.index]
        if kind == "number":
            self.index += 1
            if word.isdigit():
                return integer(_whole(word, self.limits))
            if len(word) > self.limits.digits:
                _whole(word, self.limits)
            return float_number(word.lower() if word[0] != "." else f"0{word.lower()}")
        if kind == "name":
            self.index += 1
            return self.called(word, depth) if self.words[self.index] == "(" else self.named(word)
        if self.take("("):
            inner = self.read(1, depth + 1)
            self.expect(")")
            return inner
        if self.take("~"):
            return call("Not", [self.read(7, depth + 1)])
        if not self.take("-"):
            self.refuse("an operand is missing")
        return _negated(self.read(7, depth + 1))

    @staticmethod
    def named(word: str) -> Expression:
        if word in ("True", "False"):
            return Expression(word.lower(), ())
        return Expression(word, ()) if word in CONSTANTS else symbol(word)

    def called(self, name: str, depth: int) -> Expression:
        self.expect("(")
        if name == "Float":
            decimal = self.words[self.index][1:-1] if self.kinds[self.index] == "string" else ""
            self.index += 1
            for word in (",", "precision", "="):
                self.expect(word)
            precision = (
                _whole(self.words[self.index], self.limits) if self.kinds[self.index] == "number" else 0
            )
            self.index += 1
            self.expect(")")
            return float_number(decimal, precision)
        operands: list[Expression] = []
        while not self.take(")"):
            if operands:
                self.expect(",")
            operands.append(self.pair(depth) if name == "Piecewise" else self.read(1, depth + 1))
        if name == "sqrt":
            return call("Pow", [*operands, rational(1, 2)])
        if name == "Rational" and [operand.head for operand in operands] == ["Integer", "Integer"]:
            return rational(*(int(operand.args[0]) for operand in operands))
        return call(_NAMES.get(name, name), operands)

    def pair(self, depth: int) -> Expression:
        self.expect("(")
        value = self.read(1, depth + 1)
        self.expect(",")
        condition = self.read(1, depth + 1)
        self.expect(")")
        return Expression("ExprCondPair", (value, condition))


def parse_infix(text: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Read infix text, such as `2*s0 - 1`, into the tree that constructor text would give, symbols without assumptions.

    Raises:
        ExpressionError: the text is outside of the grammar or the limits; it names the offending piece.
    """
    _check_length(text, limits)
    reader = _InfixReader(text, limits)
    try:
        tree = reader.read(1, 0)
    except RecursionError:
        _refuse("an expression that is nested too deeply for the stack that is left")
    if reader.kinds[reader.index] != "end":
        reader.refuse("text after the end of the expression")
    return tree


_BINDING = {"Mod": 4, "PythonMod": 4, "ModularIndexing": 4, "Where": 4, "PowByNatural": 6, "FloatPow": 8}
"""Calls that sympy's `str` puts in parentheses of their own, as if they were loose operators."""

_OPERATORS = {head: word for word, head in _RELATIONS.items() if word not in ("==", "!=")}
_CALLED = {head: name for name, head in _NAMES.items()} | {"true": "True", "false": "False"}
_ATOM = 9


def format_infix(expression: Expression) -> str:
    """Return infix text as sympy's `str` spells it, wherever that text parses back to an equal tree.

    Deviations from `str`: a float keeps all its digits; `Identity` and `CleanDiv` keep their names; a product or power
    that sympy would spell like another one is spelled as a call, such as `Mul(2, 3)`. Assumptions are left out.

    Raises:
        ExpressionError: the tree is nested too deeply to be printed.
    """
    try:
        return _infix(expression, 0)
    except RecursionError:
        _refuse("an expression that is nested too deeply to be written")


def _infix(expression: Expression, power: int) -> str:
    text, binding = _spelled(expression)
    return f"({text})" if binding < power else text


def _spelled_leaf(expression: Expression) -> tuple[str, int] | None:
    """Return the text and binding of a number, symbol or constant, or None for an operation."""
    head, args = expression
    if head == "Symbol":
        return str(args[0]), _ATOM
    if head == "Integer":
        return str(args[0]), 5 if _is_negative(expression) else _ATOM
    if head == "Rational" and args[1] != 1 and args[0] != 0:
        return f"{args[0]}/{args[1]}", 5 if _is_negative(expression) else 6
    if head == "Rational":
        return f"Rational({args[0]}, {args[1]})", _ATOM
    if head == "Float":
        plain = args[1] == 53 and not str(args[0]).lstrip("-").isdigit()
        if plain:
            return str(args[0]), 5 if _is_negative(expression) else _ATOM
        return f"Float('{args[0]}', precision={args[1]})", _ATOM
    if head in CONSTANTS:
        return _CALLED.get(head, head), 5 if head[0] == "-" else _ATOM
    return None


def _spelled(expression: Expression) -> tuple[str, int]:
    """Return the text of `expression`, and how tightly its outermost operator binds."""
    if (leaf := _spelled_leaf(expression)) is not None:
        return leaf
    head, args = expression
    operands = expression.operands
    if head == "Add" and len(args) > 1:
        return _sum(operands), 5
    if head == "Mul" and (text := _product(operands)):
        return text, 5 if text[0] == "-" else 6
    if head == "Pow" and (spelled := _power(*operands)):
        return spelled
    if head == "FloorDiv":
        return f"({_infix(operands[0], _ATOM)}//{_infix(operands[1], _ATOM)})", 4
    if head in _OPERATORS:
        return f"{_infix(operands[0], 5)} {_OPERATORS[head]} {_infix(operands[1], 5)}", 1
    for word, connective in _CONNECTIVES.items():
        if head == connective and len(args) > 1:
            return f" {word} ".join(_infix(operand, _POWER[word] + 1) for operand in operands), _POWER[word]
    if head == "Not":
        return f"~{_infix(operands[0], 8)}", 7
    if head == "Piecewise":
        pairs = [f"({', '.join([_infix(part, 0) for part in pair.operands])})" for pair in operands]
        return f"Piecewise({', '.join(pairs)})", _ATOM
    listed = ", ".join([_infix(operand, 0) for operand in operands])
    return f"{_CALLED.get(head, head)}({listed})", _BINDING.get(head, _ATOM)


def _sum(terms: Sequence[Expression]) -> str:
    words = [_infix(terms[0], 5) if terms[0].head != "Add" else _infix(terms[0], 6)]
    for term in terms[1:]:
        text = _infix(term, 5) if term.head != "Add" else _infix(term, 6)
        words.append(f" - {text[1:]}" if text[0] == "-" else f" + {text}")
    return "".join(words)


def _product(factors: Sequence[Expression]) -> str:
    """Return a product's text, or nothing where no text but a call would parse back to it."""
    sign = "-" if factors[0] == MINUS_ONE else ""
    rest = list(factors[1:] if sign else factors)
    divisor = ""
    if len(rest) > 1 and rest[0].head == "Rational" and not _is_negative(rest[0]):
        numerator, denominator = rest[0].args
        if numerator == 0 or denominator == 1:
            return ""
        divisor = f"/{denominator}"
        rest = rest[1:] if numerator == 1 else [integer(int(numerator)), *rest[1:]]
    if not rest or (len(rest) == 1 and not (sign or divisor)):
        return ""
    lead = rest[0]
    plain = lead.head not in _NUMBERS or (
        lead.head != "Rational" and not _is_negative(lead) and lead.args != (1,)
    )
    if not plain or (lead.head in _NUMBERS and len(rest) == 1):
        return ""
    if any(factor.head in _NUMBERS for factor in rest[1:]) or (len(rest) == 1 and lead.head == "Mul"):
        return ""
    words = [_infix(lead, 7) if lead.head != "Pow" else _infix(lead, 6)]
    for factor in rest[1:]:
        text = _infix(factor, 7) if factor.head != "Pow" else _infix(factor, 6)
        words.append(text[1:] if text.startswith("1/") else f"*{text}")
    return f"{sign}{''.join(words)}{divisor}"


def _power(base: Expression, exponent: Expression) -> tuple[str, int] | None:
    """Return a power's text and binding, or None where no text but a call would parse back to it."""
    if exponent == MINUS_ONE and base.head not in ("Mul", "Pow", *_NUMBERS):
        return f"1/{_infix(base, _ATOM)}", 6
    if exponent == Expression("Rational", (1, 2)):
        return f"sqrt({_infix(base, 0)})", _ATOM
    return f"{_infix(base, _ATOM)}**{_infix(exponent, _ATOM)}", 8
