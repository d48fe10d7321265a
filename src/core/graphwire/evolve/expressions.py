"""Converts expressions between infix text (schemas 1 to 7.3) and constructor text (8.2 and later).

Infix text does not state the assumptions of a symbol. Upward each symbol gets those that torch gives a new symbol of its
kind: `s0` is a positive integer, `u0` (and `i0`, its name up to torch 2.2) an integer, `zf0` and `zuf0` a real number.

Downward the text is in sympy's own spelling and uses only operations that the older readers support. The keys of ranges are
infix text in every version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from graphwire.evolve.trees import ROOT, Record, Refuse, Where, with_module
from graphwire.schema import Program, RangeConstraint, Version
from graphwire.schema.texts import operations
from graphwire.schema.texts.infix import format_infix, parse_infix

_ASSUMPTIONS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "zuf": (),
    "zf": (),
    "s": (("positive", True), ("integer", True)),
    "u": (("integer", True),),
    "i": (("integer", True),),
}
"""The assumptions of a symbol by the prefix of its name, in the order in which torch writes them."""

_KNOWN_SYMBOL = rf"(?a)({'|'.join(_ASSUMPTIONS)})\d+"

_OLD_NAMES = {"TrueDiv": "IntTrueDiv", "Round": "RoundToInt", "Trunc": "TruncToInt"}
"""Operations with another name in older releases: old name to the name in the grammar."""

_OLD_NAME = rf"\b({'|'.join(_OLD_NAMES)})\("

_INFIX_OPERATIONS = frozenset(
    {"Integer", "Rational", "Symbol", "true", "false"}.union(
        row.name for row in operations.OPERATIONS.values() if row.since == "2.1"
    )
)
"""The operations that a reader of infix text (torch 2.1 to 2.5) supports in sizes and conditions."""


def assumptions_of(name: str) -> tuple[tuple[str, bool], ...]:
    """Return torch's assumptions for a symbol of that name; for a name that torch does not give, that it is an integer."""
    found = re.fullmatch(_KNOWN_SYMBOL, name)
    return _ASSUMPTIONS[found[1] if found else "i"]


def to_constructor(text: str) -> str:
    """Convert infix text to constructor text.

    Raises:
        ExpressionError: the text does not match the grammar.
    """
    expression = parse_infix(_with_newer_names(text))
    return operations.format_expression(_with_symbols(expression, lambda name: (name, *assumptions_of(name))))


def _with_newer_names(text: str) -> str:
    return re.sub(_OLD_NAME, lambda found: f"{_OLD_NAMES[found[1]]}(", text)


def to_infix(text: str) -> str:
    """Convert constructor text to infix text.

    Raises:
        ExpressionError: the text does not match the grammar.
    """
    return format_infix(operations.parse_expression(text))


def foreign_operations(text: str) -> list[str]:
    """Return the operations in constructor text that readers of infix text do not support, each once."""
    found: dict[str, None] = {}
    pending = [operations.parse_expression(text)]
    while pending:
        part = pending.pop()
        if part.head not in _INFIX_OPERATIONS:
            found[part.head] = None
        pending.extend(part.operands)
    return list(found)


def rename_symbols(text: str, old: str, new: str) -> str:
    """Rename the symbols in infix text that consist of `old` and a number to `new` and that number."""
    if old not in text:
        return text
    text = _with_newer_names(text)
    pattern = re.compile(rf"{old}(\d+)", re.ASCII)

    def rename(name: str) -> tuple[str]:
        found = pattern.fullmatch(name)
        return (f"{new}{found[1]}" if found else name,)

    return format_infix(_with_symbols(parse_infix(text), rename))


def _with_symbols(
    expression: operations.Expression, symbol: Callable[[str], tuple[object, ...]]
) -> operations.Expression:
    head, args = expression
    if head == "Symbol":
        return operations.Expression("Symbol", symbol(args[0]))
    if not expression.operands:
        return expression
    return operations.call(head, [_with_symbols(operand, symbol) for operand in expression.operands])


# ----------------------------------------- orders values so that each symbol appears alone before an expression uses it
# The loaders of 2.1 and 2.2 read the tensors in order and fail on an expression of a symbol that was not a size by itself
# before.


_SYMBOL = r"(?a)\bs\d+\b"


def sort_symbols_first(tree: Record) -> Record:
    """Order a program's tensors so that symbols appear alone before expressions use them, where such an order exists."""
    graph = tree["graph_module"]["graph"]
    values = graph["tensor_values"]
    ordered, unmet = _in_order(values)
    if [*ordered, *unmet] == list(values):
        return tree
    values = {name: values[name] for name in (*ordered, *unmet)}
    return with_module(tree, graph={**graph, "tensor_values": values})


def report_unmet_symbols(refuse: Refuse, graph: Record, where: Where) -> None:
    """Report the first tensor with an expression of a symbol that is never a size by itself."""
    for name, text in _in_order(graph["tensor_values"])[1].items():
        place = where.at(f".tensor_values[{name!r}]")
        refuse(place, f"the size {text}, of a symbol that is not a size by itself")
        break


def _in_order(values: Record) -> tuple[list[str], dict[str, str]]:
    """Return the tensors that a loader can read one after the other, and the others, each with an expression that blocks it."""
    waiting = {name: _expressions(value) for name, value in values.items()}
    known: set[str] = set()
    ordered: list[str] = []
    while True:
        unmet = {}
        for name, texts in waiting.items():
            text = _unmet(texts, known)
            if text is None:
                known.update(filter(re.compile(_SYMBOL).fullmatch, texts))
                ordered.append(name)
            else:
                unmet[name] = text
        if len(unmet) in (0, len(waiting)):
            return ordered, unmet
        waiting = {name: waiting[name] for name in unmet}


def _expressions(value: Record) -> list[str]:
    """Return the expressions in a tensor's sizes and strides, in the order in which they are read."""
    meta = value.get("meta", value)
    found = [each.get("as_expr") for each in (*meta["sizes"], *meta["strides"])]
    return [expression["expr_str"] for expression in found if expression is not None]


def _unmet(texts: Iterable[str], known: set[str]) -> str | None:
    """Return the first expression with a symbol that does not appear before it; None if there is no such expression."""
    met = set(known)
    for text in texts:
        if re.fullmatch(_SYMBOL, text):
            met.add(text)
        elif not met.issuperset(re.findall(_SYMBOL, text)):
            return text
    return None


# ---------------------------------------------------------------------------------------- converts the bounds of ranges
# The releases encode infinity in four ways:
#
# 2.1, 2.4     9223372036854775806, the greatest integer but one
# 2.2, 2.3     the float infinity (a bare token in JSON)
# 2.5          the same
# 2.6 on       null
#
# Sizes of 0 and 1 are a second case. Up to 2.3 `torch.export` fixes a size of 0 or 1, so the ranges of inputs' sizes that it
# writes begin at 2. In files of other writers, 2.2 and 2.3 read ranges that begin at 1; 2.1 does not. None of these releases
# checks, when a program is called, that a size is at least 2.


_BACKED = r"(?a)s\d+"
_LEAST_READ: Final = ((Version(1), 2), (Version(5, 1), 1))
"""The newest version of each kind of reader with a lower limit, and that limit."""
_LEAST_WRITTEN = 2
"""The lower bound that the exporters of these releases write."""


class NarrowedRange(NamedTuple):
    """The range of a size that the file narrows."""

    symbol: str
    given: int
    """The lower bound in the program."""
    written: int
    """The lower bound in the file."""

    def __str__(self) -> str:
        return f"{self.symbol} begins at {self.written}, not at {self.given}"


def narrow_ranges(program: Program, version: Version) -> tuple[Program, list[NarrowedRange]]:
    """Raise the lower bounds that an old reader rejects to the bound that its exporter writes.

    Return the program and each range that became narrower. A range that contains only 0 and 1 stays.
    """
    least = next((least for newest, least in _LEAST_READ if version <= newest), 0)
    found = []
    ranges = dict(program.range_constraints)
    for symbol, limits in program.range_constraints.items():
        low, high = limits.min_val, limits.max_val
        if not re.fullmatch(_BACKED, symbol) or low is None or low >= least:
            continue
        if high is None or high >= _LEAST_WRITTEN:
            ranges[symbol] = RangeConstraint(_LEAST_WRITTEN, high)
            found.append(NarrowedRange(symbol, low, _LEAST_WRITTEN))
    return (replace(program, range_constraints=ranges) if found else program), found


def report_small_sizes(tree: Record, refuse: Refuse, least: int) -> None:
    """Report each size whose range begins below the least that a reader reads."""
    for key, limits in tree["range_constraints"].items():
        if re.fullmatch(_BACKED, key) and limits["min_val"] < least:
            construct = "a size that may be 0" if least == 1 else "a size that may be 0 or 1"
            refuse(ROOT.at(f".range_constraints[{key!r}]"), f"{construct} ({key})")


GREATEST = 2**63 - 2
"""The integer that represents infinity in files of torch 2.1 and 2.4."""


def infinity_from_greatest_integer(tree: Record) -> Record:
    """Replace the greatest integer, or nearly the greatest, by infinity in the ranges of a program."""
    return _with_bounds(
        tree, lambda bound, _: math.copysign(math.inf, bound) if abs(bound) >= GREATEST else bound
    )


def greatest_integer_from_infinity(tree: Record) -> Record:
    """Replace infinity by the greatest integer in the ranges of a program."""
    return _with_bounds(
        tree, lambda bound, _: int(math.copysign(1, bound)) * GREATEST if math.isinf(bound) else bound
    )


def infinity_to_unbounded(tree: Record) -> Record:
    """Remove infinite bounds from the ranges of a program."""
    return _with_bounds(tree, lambda bound, infinity: None if bound == infinity else bound)


def unbounded_to_infinity(tree: Record) -> Record:
    """Write missing bounds of a program's ranges as infinity."""
    return _with_bounds(tree, lambda bound, infinity: infinity if bound is None else bound)


def _with_bounds(tree: Record, convert: Callable[[Any, float], Any]) -> Record:
    """Convert the ranges of a program: `convert` receives each bound and the infinity on its side."""
    ranges = {
        key: {end: convert(limits[end], infinity) for end, infinity in _ENDS}
        for key, limits in tree["range_constraints"].items()
    }
    return {**tree, "range_constraints": ranges}


_ENDS: Final = (("min_val", -math.inf), ("max_val", math.inf))
