"""Symbols by other names: numbered anew in the order of their first appearance, and expressions printed again.

sympy sorts the operands of a sum by the names of its symbols, so expressions are sorted again after the renaming, by
their new text. Two symbols that appear first in one expression are told apart by where they stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from graphwire.errors import ExpressionError
from graphwire.schema.expression import Expression, format_expression, parse_expression, symbols_of
from graphwire.schema.infix import format_infix, parse_infix
from graphwire.schema.symbols import RangeConstraint

__all__ = ["SymbolNames", "parsed", "renamed_expression"]

_COMMUTATIVE = frozenset("Add And Equality Max Min Mul Or Unequality Xor".split())
_NUMBERED = re.compile(r"([a-z]+)[0-9]+", re.ASCII)
"""A symbol as torch names it; what its letters are (`s`, `u`, `zuf` …) says where it comes from, and is kept."""


class SymbolNames:
    """The new names of the symbols of one program, given as their expressions are met."""

    def __init__(self, ranges: Mapping[str, RangeConstraint]) -> None:
        self._ranges = ranges
        self.names: dict[str, str] = {}
        """The new name of each symbol that was met."""
        self._counts: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._seen: set[str] = set()

    def meet(self, text: str) -> None:
        """Give names to the symbols of an expression that have none."""
        if text not in self._seen:
            self._seen.add(text)
            expression, _ = parsed(text)
            if expression is not None:
                self._meet(expression)

    def meet_ranges(self) -> None:
        """Give names to the symbols that have a range and appear nowhere else, the smallest range first."""
        keys = sorted(self._ranges, key=lambda text: (_ends(self._ranges[text]), len(text)))
        for text in keys:
            expression = _infix_or_none(text)
            if expression is not None:
                self._meet(expression)

    def expression(self, text: str) -> str:
        """The expression with the new names, in the spelling that it had. Text that is no expression stays as it is."""
        if text not in self._texts:
            expression, write = parsed(text)
            self._texts[text] = text if expression is None else write(self._renamed(expression))
        return self._texts[text]

    def ranges(self) -> dict[str, RangeConstraint]:
        """The ranges under the new names, sorted."""
        found = {}
        for text, limits in self._ranges.items():
            expression = _infix_or_none(text)
            found[text if expression is None else format_infix(self._renamed(expression))] = limits
        return dict(sorted(found.items()))

    def _renamed(self, expression: Expression) -> Expression:
        return renamed_expression(expression, lambda name: self.names.get(name, name))

    def _meet(self, expression: Expression) -> None:
        fresh = [name for name in symbols_of(expression) if name not in self.names]
        if len(fresh) > 1:
            fresh.sort(key=lambda name: self._standing(expression, name, fresh))
        for name in fresh:
            numbered = _NUMBERED.fullmatch(name)
            letters = numbered[1] if numbered else "s"
            self.names[name] = f"{letters}{self._counts.setdefault(letters, 0)}"
            self._counts[letters] += 1

    def _standing(
        self, expression: Expression, name: str, fresh: Iterable[str]
    ) -> tuple[str, tuple[int, ...]]:
        """Where a symbol stands in an expression, whatever it and the other new symbols are called."""
        others = {**self.names, **{each: "_" for each in fresh}, name: "_this"}
        placed = renamed_expression(expression, lambda each: others[each])
        return format_expression(placed), _ends(self._ranges.get(name, RangeConstraint(None, None)))


def _ends(limits: RangeConstraint) -> tuple[int, ...]:
    low, high = limits.min_val, limits.max_val
    return (low is not None, low or 0, high is not None, high or 0)


def parsed(text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
    """The tree of an expression in either spelling, and what writes that spelling; None for another text."""
    try:
        return parse_expression(text), format_expression
    except ExpressionError:
        return _infix_or_none(text), format_infix


def _infix_or_none(text: str) -> Expression | None:
    try:
        return parse_infix(text)
    except ExpressionError:
        return None


def renamed_expression(expression: Expression, rename: Callable[[str], str]) -> Expression:
    """The expression with other names of its symbols, and its operands sorted where their order has no meaning."""
    head, args = expression
    if head == "Symbol":
        return Expression(head, (rename(args[0]), *sorted(args[1:])))
    operands = [renamed_expression(part, rename) if isinstance(part, Expression) else part for part in args]
    if head in _COMMUTATIVE:
        operands.sort(key=format_expression)
    return Expression(head, tuple(operands))
