"""Canonical names of symbols: renumbers them in the order of first appearance, and prints expressions with the new names.

sympy sorts the operands of a sum by the names of its symbols. So the content of an expression is used, in which operands
are sorted independently of names. Symbols that first appear in the same expression are distinguished by their ranges and
their positions in all expressions. This takes two rounds; the second also uses the positions of neighbouring symbols. The
time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from graphwire.analysis.canonical.encoding import content_bytes, digest
from graphwire.analysis.canonical.expression_content import COMMUTATIVE, expression_content
from graphwire.errors import ExpressionError
from graphwire.lazy import pattern
from graphwire.schema import RangeConstraint
from graphwire.schema.texts import (
    Expression,
    format_expression,
    format_infix,
    parse_expression,
    parse_infix,
    symbols_of,
)

_NUMBERED = pattern(r"([a-z]+)[0-9]+", re.ASCII)
"""A symbol's name in torch's form. Its letters (`s`, `u`, `zuf` …) encode the symbol's origin and are kept."""
_ROUNDS = 2


class SymbolNames:
    """The new names of the symbols of one program."""

    def __init__(self, texts: Iterable[str], ranges: Mapping[str, RangeConstraint]) -> None:
        """Name the symbols.

        Args:
            texts: every expression in the program's values, in canonical order.
            ranges: the ranges by symbol or expression.
        """
        self._ranges = ranges
        self._texts: dict[str, str] = {}
        self._contents: dict[str, Any] = {}
        self._parsed = {text: parsed(text) for text in dict.fromkeys(texts)}
        self._keys = {text: _infix_or_none(text) for text in ranges}
        self.names = self._named()
        """The new name of each symbol."""

    def content(self, text: str) -> Any:
        """Return the content of an expression with the new names, or `["text", TEXT]` for a text that cannot be parsed."""
        if text not in self._contents:
            expression, _ = self._parse(text)
            self._contents[text] = (
                ["text", text] if expression is None else expression_content(expression, self._name)
            )
        return self._contents[text]

    def expression(self, text: str) -> str:
        """Return the expression with the new names, in its original syntax. Text that cannot be parsed stays unchanged."""
        if text not in self._texts:
            expression, write = self._parse(text)
            self._texts[text] = text if expression is None else write(self._renamed(expression))
        return self._texts[text]

    def range_contents(self) -> list[Any]:
        """Return the content of the ranges: expression, minimum and maximum of each, sorted by their bytes."""
        found = []
        for text, key in self._keys.items():
            content = ["text", text] if key is None else expression_content(key, self._name)
            found.append([content, self._ranges[text].min_val, self._ranges[text].max_val])
        return sorted(found, key=content_bytes)

    def ranges(self) -> dict[str, RangeConstraint]:
        """Return the ranges under the new names, sorted."""
        found = {}
        for text, key in self._keys.items():
            found[text if key is None else format_infix(self._renamed(key))] = self._ranges[text]
        return dict(sorted(found.items()))

    def _parse(self, text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
        return self._parsed.get(text) or parsed(text)

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _renamed(self, expression: Expression) -> Expression:
        return renamed_expression(expression, self._name)

    def _named(self) -> dict[str, str]:
        values = [expression for expression, _ in self._parsed.values() if expression is not None]
        keys = [key for key in self._keys.values() if key is not None]
        groups = _by_first_appearance(values, keys)
        if any(len(group) > 1 for group in groups):
            colours = self._colours([name for group in groups for name in group], values)
            groups = [sorted(group, key=lambda name: (colours[name], name)) for group in groups]
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        for name in [name for group in groups for name in group]:
            letters = _letters(name)
            number = counts[letters] = counts.get(letters, -1) + 1
            names[name] = f"{letters}{number}"
        return names

    def _colours(self, names: Iterable[str], values: Iterable[Expression]) -> dict[str, bytes]:
        """Return a digest of each symbol: of its letters, its range and its positions, but not of its number."""
        none = RangeConstraint(None, None)
        colours = {
            name: digest(_letters(name).encode(), _ends(self._ranges.get(name, none))) for name in names
        }
        trees: dict[bytes, Any] = {}
        for expression in values:
            tree = expression_content(expression, str)
            trees.setdefault(content_bytes(tree), tree)
        placed = [(tree, digest(b"value", str(index).encode())) for index, tree in enumerate(trees.values())]
        for text, key in self._keys.items():
            if key is not None:
                placed.append((expression_content(key, str), digest(b"range", _ends(self._ranges[text]))))
        for _ in range(_ROUNDS):
            found: dict[str, list[bytes]] = {name: [] for name in colours}
            for tree, place in placed:
                _note_places(_shape(tree, colours), place, found)
            colours = {name: digest(colours[name], *sorted(places)) for name, places in found.items()}
        return colours


def _by_first_appearance(values: Iterable[Expression], keys: Iterable[Expression]) -> list[list[str]]:
    """Return the symbols that first appear in each expression and, as the last group, those that appear only in ranges."""
    seen: set[str] = set()
    groups: list[list[str]] = []
    for expression in values:
        groups.append([name for name in symbols_of(expression) if name not in seen])
        seen.update(groups[-1])
    alone = dict.fromkeys(name for key in keys for name in symbols_of(key) if name not in seen)
    return [*groups, list(alone)]


class _Shape(msgspec.Struct, frozen=True):
    """An expression without the names of its symbols."""

    digest: bytes
    name: str
    """The symbol's name; empty for other expressions."""
    is_commutative: bool
    parts: list[_Shape]


def _shape(tree: Any, colours: Mapping[str, bytes]) -> _Shape:
    if type(tree) is not list:
        return _Shape(digest(b"number", content_bytes(tree)), "", False, [])
    head, *operands = tree
    if head == "symbol":
        return _Shape(colours[operands[0]], operands[0], False, [])
    parts = [_shape(operand, colours) for operand in operands]
    digests = [part.digest for part in parts]
    if head in COMMUTATIVE:
        digests.sort()
    return _Shape(digest(head.encode(), *digests), "", head in COMMUTATIVE, parts)


def _note_places(shape: _Shape, place: bytes, found: Mapping[str, list[bytes]]) -> None:
    """Add a digest of the path from the root of the expression for each occurrence of each symbol."""
    if shape.name:
        found[shape.name].append(place)
    for index, part in enumerate(shape.parts):
        step = part.digest if shape.is_commutative else str(index).encode()
        _note_places(part, digest(place, shape.digest, step), found)


def _letters(name: str) -> str:
    numbered = _NUMBERED.fullmatch(name)
    return numbered[1] if numbered else "s"


def _ends(limits: RangeConstraint) -> bytes:
    return content_bytes([limits.min_val, limits.max_val])


def parsed(text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
    """Return the tree of an expression in either syntax (None if it cannot be parsed), and the formatter for that syntax."""
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
    """Return the expression with its symbols renamed, and with operands sorted if their order has no meaning."""
    return _renamed(expression, rename)[0]


def _renamed(expression: Expression, rename: Callable[[str], str]) -> tuple[Expression, str]:
    """Return the renamed expression and its text, which is composed of the texts of its operands."""
    head, args = expression
    if head == "Symbol":
        renamed = Expression(head, (rename(args[0]), *sorted(args[1:])))
    elif not expression.operands:
        renamed = expression
    else:
        operands = [_renamed(part, rename) for part in expression.operands]
        if head in COMMUTATIVE:
            operands.sort(key=lambda operand: operand[1])
        text = f"{head}({', '.join([text for _, text in operands])})"
        return Expression(head, tuple([operand for operand, _ in operands])), text
    return renamed, format_expression(renamed)
