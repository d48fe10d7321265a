"""Orders values so that each symbol appears alone before an expression uses it.

The loaders of 2.1 and 2.2 read the tensors in order and fail on an expression of a symbol that was not a size by itself before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphwire.evolve.documents.record_edits import with_module
from graphwire.evolve.documents.trees import Record, Refuse, Where
from graphwire.lazy import pattern

_SYMBOL = pattern(r"\bs\d+\b", re.ASCII)


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
                known.update(filter(_SYMBOL.fullmatch, texts))
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
        if _SYMBOL.fullmatch(text):
            met.add(text)
        elif not met.issuperset(_SYMBOL.findall(text)):
            return text
    return None
