"""Positions of `getitem` and `get_attr` nodes, which have no node records of their own.

By default such a node is next to the node that makes, or first uses, the value it reads; a graph record lists exceptions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from graphwire.bridge import torch_compat
from graphwire.errors import DecodeError


def append_in_default_order(
    order: dict[torch.fx.Node, None], node: torch.fx.Node, attributes: Collection[torch.fx.Node]
) -> None:
    """Append a node to the order that a record implies, after the nodes of `attributes` that it is the first to use."""
    if attributes:
        for used in node.all_input_nodes:
            if used in attributes:
                order.setdefault(used)
    order.setdefault(node)


def nondefault_positions(
    nodes: Sequence[torch.fx.Node], by_rule: Mapping[torch.fx.Node, None]
) -> dict[str, str]:
    """Return the nodes that are not at their default position, each with the node before it (empty: it is the first).

    Args:
        nodes: the nodes in their actual order; those not in `by_rule` are skipped.
    """
    standing = [node for node in nodes if node in by_rule]
    expected = list(by_rule)
    if standing == expected:
        return {}
    before = dict(zip(expected[1:], expected, strict=False))
    moved: dict[str, str] = {}
    previous: torch.fx.Node | None = None
    for node in standing:
        if _reads(node) and (
            before.get(node) is not previous or (previous is not None and previous.name in moved)
        ):
            moved[node.name] = "" if previous is None else previous.name
        previous = node
    return moved


def _reads(node: torch.fx.Node) -> bool:
    import operator

    return node.op == "get_attr" or node.target is operator.getitem


def move_nodes(graph: torch.fx.Graph, placed: Mapping[str, str]) -> None:
    """Move nodes to their recorded positions. Skips nodes that an upgrade removed.

    Raises:
        DecodeError: a node would precede a node it reads, or follow one that uses it.
    """
    if not placed:
        return
    named = {node.name: node for node in graph.nodes}
    for name, behind in placed.items():
        node, anchor = named.get(name), named.get(behind)
        if node is None or not _reads(node) or (anchor is None and behind):
            continue
        if anchor is None:
            torch_compat.move_to_start(graph, node)
        else:
            anchor.append(node)
    try:
        graph.lint()
    except RuntimeError as error:
        raise DecodeError(f"nodes cannot be at their recorded positions: {error}") from error
