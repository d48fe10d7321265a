"""Converts duplicate `getitem` nodes, which read an element that another node already reads, to and from `Graph.copies`.

A record names an element of a node's results once. The first node that reads the element gives it its name. The graph
record lists the other readers separately (`Graph.copies`), with the references to them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from graphwire.bridge.graph.values import DecodeScope, EncodeScope, set_stated_value
from graphwire.errors import DecodeError
from graphwire.schema import ElementCopy

_OUTPUT = ""
"""The key of the output among the names of users."""


def encode_copies(scope: EncodeScope) -> dict[str, ElementCopy]:
    """Return the copies of a graph by name. For each user and value, references are counted from 0 in the order of the
    arguments, over all nodes that read the value."""
    if not scope.copies:
        return {}
    records = {node.name: ElementCopy(first.name) for node, first in scope.copies.items()}

    def note(user: torch.fx.Node, used: torch.fx.Node, position: int) -> torch.fx.Node:
        if used in scope.copies:
            by = _OUTPUT if user.op == "output" else user.name
            records[used.name].uses.setdefault(by, []).append(position)
        return used

    for user in {user: None for node in scope.copies for user in node.users}:
        _each_reference(user, lambda used: scope.copies.get(used, used), note)
    return records


def add_copies(scope: DecodeScope, graph: torch.fx.Graph) -> None:
    """Add the copies to a decoded graph, and restore the references to them. Skips copies of values that an upgrade removed.

    Raises:
        DecodeError: a node already has the name of a copy.
    """
    copies = scope.record.copies
    if not copies:
        return
    named = {node.name: node for node in graph.nodes}
    last: dict[torch.fx.Node, torch.fx.Node] = {}
    uses: dict[str, dict[tuple[torch.fx.Node, int], torch.fx.Node]] = {}
    for name, copy in copies.items():
        if name in named:
            raise DecodeError(f"two nodes are named {name!r}")
        first = named.get(copy.of)
        if first is None or first.target is not operator.getitem or copy.of in copies:
            continue
        with graph.inserting_after(last.get(first, first)):
            node = scope.call(operator.getitem, first.args, {}, name)
        value = element_of(first) if scope.context.describes else None
        scope.complete(node, name, value, scope.metadata(name, {}))
        set_stated_value(scope, node, scope.noted(name))
        named[name] = last[first] = node
        for by, positions in copy.uses.items():
            uses.setdefault(by, {}).update(dict.fromkeys(((first, at) for at in positions), node))
    output = graph.output_node()
    for by, replaced in uses.items():
        user = output if by == _OUTPUT else named.get(by)
        if user is not None:
            _each_reference(user, lambda used: used, _replacing(replaced))


def element_of(reader: torch.fx.Node) -> Any:
    """Return the metadata of the element that a `getitem` node reads, from the node that produces the results."""
    whole, key = reader.args
    assert isinstance(whole, torch.fx.Node)
    value = element_of(whole) if whole.target is operator.getitem else whole.meta["val"]
    return value[key]


def _replacing(
    replaced: dict[tuple[torch.fx.Node, int], torch.fx.Node],
) -> Callable[[torch.fx.Node, torch.fx.Node, int], torch.fx.Node]:
    return lambda _user, used, position: replaced.get((used, position), used)


def _each_reference(
    user: torch.fx.Node,
    value_of: Callable[[torch.fx.Node], torch.fx.Node],
    replace: Callable[[torch.fx.Node, torch.fx.Node, int], torch.fx.Node],
) -> None:
    """Replace each node that a user refers to by the result of `replace`.

    Args:
        value_of: maps a node to the first node that reads the same element.
        replace: (user, referenced node, number of earlier references to the same value) -> the node to refer to.
    """
    counts: dict[torch.fx.Node, int] = {}

    def visit(used: torch.fx.Node) -> torch.fx.Node:
        value = value_of(used)
        counts[value] = counts.get(value, -1) + 1
        return replace(user, used, counts[value])

    args, kwargs = torch.fx.map_arg(user.args, visit), torch.fx.map_arg(user.kwargs, visit)
    if args != user.args or kwargs != user.kwargs:
        user.args, user.kwargs = args, kwargs
