"""Symbolic expressions as infix text, such as `2*s0 - 1`: parsed and written, never evaluated; and bounds on their values.

A few characters can denote a number that no memory holds: `9**9**9`, `2**(s0 + 10**11)`. This module never computes
one, but torch's shape environment does, with sympy, which has no bounds. Therefore an expression that could exceed a
bound is rejected wherever programs are checked or built. Expressions of real programs stay four orders of magnitude
below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from graphwire.errors import ExpressionError
from graphwire.schema.texts.operations import (
    CONSTANTS,
    MAX_BITS,
    MAX_DEPTH,
    OPERATIONS,
    Expression,
    call,
    check_digits,
    check_length,
    float_number,
    format_expression,
    integer,
    parse_digits,
    parse_expression,
    rational,
    refuse,
    symbol,
)

_TOKEN = r"""(?ax)\s*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>'[^'\\]*')
    | (?P<sign>\*\*|//|<=|>=|==|!=|[-+*/<>=()~&|^,])
    )\s*"""
_ROWS = OPERATIONS.values()
_RELATED = {row.sign: row.name for row in _ROWS if row.call}
_NAMES = {row.call: row.name for row in _ROWS if row.call}
_CONNECTIVES = {row.sign: row.name for row in _ROWS if row.sign and not row.call}
_SIGNS = {1: "<= < >= > == !=", 2: "|", 3: "^", 4: "&", 5: "+ -", 6: "* / //", 8: "**"}
"""The operators by how tightly they bind, as in Python. The sign of a number (7) lies between product and power."""
_POWER = {sign: power for power, signs in _SIGNS.items() for sign in signs.split()}

MINUS_ONE = integer(-1)
_NUMBERS = frozenset({"Integer", "Rational", "Float"})


def _is_negative(number: Expression) -> bool:
    return str(number.args[0]).startswith("-")


def _negated(operand: Expression) -> Expression:
    """Return the negation of `operand`, with the sign where sympy writes it: in a number, or as first factor of a
    product."""
    head, args = operand
    if head in _NUMBERS and not _is_negative(operand):
        return Expression(head, (f"-{args[0]}" if head == "Float" else -int(args[0]), *args[1:]))
    if head in ("oo", "int_oo"):
        return Expression(f"-{head}", ())
    if head == "Mul" and args[0] != MINUS_ONE:
        return Expression("Mul", (MINUS_ONE, *args))
    return Expression("Mul", (MINUS_ONE, operand))


def _inverses(divisor: Expression) -> tuple[int, list[Expression]]:
    """Return `divisor` as an integer, and powers to multiply with."""
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
    """Parses one infix text by operator precedence.

    A chain of one operator makes one node, or a loop, rather than a recursion.
    """

    def __init__(self, text: str) -> None:
        self.text, self.index = text, 0
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.places: list[int] = []
        match, position = re.compile(_TOKEN).match, 0
        while position < len(text):
            found = match(text, position)
            if found is None:
                refuse("not part of the expression grammar", text, position)
            kind = str(found.lastgroup)
            self.kinds.append(kind)
            self.words.append(found[kind])
            self.places.append(position)
            position = found.end()
        # Twice, because `called` moves past a part of a Float before it checks it.
        self.kinds += "end", "end"
        self.words += "", ""
        self.places += len(text), len(text)

    def refuse(self, problem: str, remedy: str = "") -> NoReturn:
        refuse(problem, self.text, self.places[self.index], remedy)

    def take(self, word: str) -> bool:
        """Consume `word` if it comes next, and return whether it did."""
        if self.words[self.index] != word or self.kinds[self.index] == "string":
            return False
        self.index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.refuse(f"{word!r} is missing")

    def read(self, power: int, depth: int) -> Expression:
        """Parse an operand and every operator after it that binds at least as tightly as `power`."""
        if depth > MAX_DEPTH:
            self.refuse(f"operations nested deeper than {MAX_DEPTH}")
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
        """Parse the rest of a sum, a conjunction or the like, or the right side of a relation."""
        operands = [left]
        if binding == 1:
            self.index += 1
            operands.append(self.read(2, depth + 1))
            if self.words[self.index] in _RELATED:
                self.refuse("a chain of relations", "Write the relations one by one, joined by &")
            return call(_RELATED[word], operands)
        while _POWER.get(self.words[self.index]) == binding:
            minus = self.words[self.index] == "-"
            self.index += 1
            operand = self.read(binding + 1, depth + 1)
            operands.append(_negated(operand) if minus else operand)
        return Expression(_CONNECTIVES.get(word, "Add"), tuple(operands))

    def product(self, first: Expression, negative: bool, depth: int) -> Expression:
        """Parse the rest of a product: its sign first, its rational coefficient next, then its factors."""
        factors = [first]
        nested = 0
        while (word := self.words[self.index]) in ("*", "/", "//"):
            self.index += 1
            operand = self.read(7, depth + 1)
            if word == "*":
                factors.append(operand)
            elif word == "//":
                nested += 1
                if depth + nested > MAX_DEPTH:
                    self.refuse(f"operations nested deeper than {MAX_DEPTH}")
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
        """Parse a number, a name, a call, a parenthesis, or a negation."""
        kind, word = self.kinds[self.index], self.words[self.index]
        if kind == "number":
            self.index += 1
            if word.isdigit():
                return integer(parse_digits(word))
            check_digits(word)
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
            precision = parse_digits(self.words[self.index]) if self.kinds[self.index] == "number" else 0
            self.index += 1
            self.expect(")")
            return float_number(decimal, precision)
        operands: list[Expression] = []
        while not self.take(")"):
            if operands:
                self.expect(",")
            operands.append(self.pair(depth) if name == "Piecewise" else self.read(1, depth + 1))
        if name == "ExprCondPair":
            self.refuse("a (value, condition) pair outside of a Piecewise")
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


def parse_infix(text: str) -> Expression:
    """Parse infix text, such as `2*s0 - 1`, into the tree of the same constructor text, with symbols without
    assumptions.

    Raises:
        ExpressionError: the text violates the grammar or the limits; the message quotes the offending part.
    """
    check_length(text)
    reader = _InfixReader(text)
    tree = reader.read(1, 0)
    if reader.kinds[reader.index] != "end":
        reader.refuse("text after the end of the expression")
    return tree


_OPERATORS = {head: sign for sign, head in _RELATED.items() if sign not in ("==", "!=")}
_CALLED = {head: name for name, head in _NAMES.items()} | {"true": "True", "false": "False"}
_ATOM = 9


def format_infix(expression: Expression) -> str:
    """Return infix text as sympy's `str` spells it, provided that the text parses back to an equal tree.

    Deviations from `str`: a float keeps all its digits; `Identity` and `CleanDiv` keep their names; a product or power
    that sympy would spell like another one is spelled as a call, such as `Mul(2, 3)`. Assumptions are omitted.
    """
    return _infix(expression, 0)


def _infix(expression: Expression, power: int) -> str:
    text, binding = _spelled(expression)
    return f"({text})" if binding < power else text


def _spelled_leaf(expression: Expression) -> tuple[str, int] | None:
    """Return the text and binding of a number, symbol or constant, or None for an operation."""
    head, args = expression
    if head == "Symbol":
        return str(args[0]), _ATOM
    if head == "Integer" or (head == "Float" and args[1] == 53 and not str(args[0]).lstrip("-").isdigit()):
        return str(args[0]), 5 if _is_negative(expression) else _ATOM
    if head == "Rational" and args[1] != 1 and args[0] != 0:
        return f"{args[0]}/{args[1]}", 5 if _is_negative(expression) else 6
    if head in _NUMBERS:
        return format_expression(expression), _ATOM
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
    return f"{_CALLED.get(head, head)}({listed})", OPERATIONS[head].binding


def _sum(terms: Sequence[Expression]) -> str:
    first, *others = [_infix(term, 6 if term.head == "Add" else 5) for term in terms]
    return first + "".join([f" - {text[1:]}" if text[0] == "-" else f" + {text}" for text in others])


def _product(factors: Sequence[Expression]) -> str:
    """Return a product's text, or an empty string if only a call would parse back to it."""
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
    lead, *others = rest
    is_number = lead.head in _NUMBERS
    if is_number and (lead.head == "Rational" or _is_negative(lead) or lead.args == (1,)):
        return ""
    if any(factor.head in _NUMBERS for factor in others) or (
        not others and (is_number or lead.head == "Mul")
    ):
        return ""
    first, *texts = [_infix(factor, 6 if factor.head == "Pow" else 7) for factor in rest]
    words = [text[1:] if text.startswith("1/") else f"*{text}" for text in texts]
    return f"{sign}{first}{''.join(words)}{divisor}"


def _power(base: Expression, exponent: Expression) -> tuple[str, int] | None:
    """Return a power's text and binding, or None if only a call would parse back to it."""
    if exponent == MINUS_ONE and base.head not in ("Mul", "Pow", *_NUMBERS):
        return f"1/{_infix(base, _ATOM)}", 6
    if exponent == Expression("Rational", (1, 2)):
        return f"sqrt({_infix(base, 0)})", _ATOM
    return f"{_infix(base, _ATOM)}**{_infix(exponent, _ATOM)}", 8


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


class Growth(msgspec.Struct, frozen=True):
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
    head = expression.head
    leaf = _LEAVES.get(head)
    if leaf is not None:
        return leaf(expression)
    operands = expression.operands
    if not operands:
        return Growth(1, 64, 1, True)
    if head in _RAISING:
        return _checked(
            head, _powergrowth_of(head, (_EULER, *operands) if head in _EXPONENTIAL else operands)
        )
    parts = [growth_of(operand) for operand in operands]
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


def _powergrowth_of(head: str, operands: Sequence[Expression]) -> Growth:
    """Return the growth of a power or a shift: that of its base, multiplied by its exponent."""
    base, exponent = growth_of(operands[0]), growth_of(operands[1])
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
