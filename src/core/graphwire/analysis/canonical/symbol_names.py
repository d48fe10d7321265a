"""Symbols by other names: numbered anew in the order of their first appearance, and expressions printed again.

sympy sorts the operands of a sum by the names of its symbols, so what is looked at is an expression's content, in which they
are sorted anew. Symbols that appear first in one expression are told apart by their ranges and by where they stand in all
expressions, in two rounds: in the second, by where those stand beside which they stand. All of it is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from graphwire.analysis.canonical.encoding import content_bytes, digest
from graphwire.analysis.canonical.expression_content import COMMUTATIVE, expression_content
from graphwire.errors import ExpressionError
from graphwire.schema import RangeConstraint
from graphwire.schema.texts import (
    Expression,
    format_expression,
    format_infix,
    parse_expression,
    parse_infix,
    symbols_of,
)

_NUMBERED = re.compile(r"([a-z]+)[0-9]+", re.ASCII)
"""A symbol as torch names it; what its letters are (`s`, `u`, `zuf` …) says where it comes from, and is kept."""
_ROUNDS = 2


class SymbolNames:
    """The new names of the symbols of one program."""

    def __init__(self, texts: Iterable[str], ranges: Mapping[str, RangeConstraint]) -> None:
        """Name the symbols.

        Args:
            texts: every expression of the program's values, in an order that means something.
            ranges: by symbol or expression.
        """
        self._ranges = ranges
        self._texts: dict[str, str] = {}
        self._contents: dict[str, Any] = {}
        self._parsed = {text: parsed(text) for text in dict.fromkeys(texts)}
        self._keys = {text: _infix_or_none(text) for text in ranges}
        self.names = self._named()
        """The new name of each symbol."""

    def content(self, text: str) -> Any:
        """The content of an expression, with the new names; `["text", TEXT]` of a text that is none."""
        if text not in self._contents:
            expression, _ = self._parse(text)
            self._contents[text] = (
                ["text", text] if expression is None else expression_content(expression, self._name)
            )
        return self._contents[text]

    def expression(self, text: str) -> str:
        """The expression with the new names, in the spelling that it had. Text that is no expression stays as it is."""
        if text not in self._texts:
            expression, write = self._parse(text)
            self._texts[text] = text if expression is None else write(self._renamed(expression))
        return self._texts[text]

    def range_contents(self) -> list[Any]:
        """The ranges as content: expression and ends, in the order of their bytes."""
        found = []
        for text, key in self._keys.items():
            content = ["text", text] if key is None else expression_content(key, self._name)
            found.append([content, self._ranges[text].min_val, self._ranges[text].max_val])
        return sorted(found, key=content_bytes)

    def ranges(self) -> dict[str, RangeConstraint]:
        """The ranges under the new names, sorted."""
        found = {}
        for text, key in self._keys.items():
            found[text if key is None else format_infix(self._renamed(key))] = self._ranges[text]
        return dict(sorted(found.items()))

    def _parse(self, text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
        found = self._parsed.get(text)
        return parsed(text) if found is None else found

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
        """For each symbol a digest of all that is known of it but its number."""
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
    """The symbols that each expression is the first to have; last, together, those of the ranges alone."""
    seen: set[str] = set()
    groups: list[list[str]] = []
    for expression in values:
        groups.append([name for name in symbols_of(expression) if name not in seen])
        seen.update(groups[-1])
    alone = dict.fromkeys(name for key in keys for name in symbols_of(key) if name not in seen)
    return [*groups, list(alone)]


class _Shape(NamedTuple):
    """An expression without the names of its symbols."""

    digest: bytes
    name: str
    """Of a symbol; else empty."""
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
    """Add to each symbol a digest of the way to it from the root of the expression, for every time it stands there."""
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
    return _renamed(expression, rename)[0]


def _renamed(expression: Expression, rename: Callable[[str], str]) -> tuple[Expression, str]:
    """The expression with other names, and its text, which is put together of those of its operands."""
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
