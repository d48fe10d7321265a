"""Where nodes stand that are no nodes in a record: readers of elements (`getitem`) and of attributes (`get_attr`).

By rule they stand beside the node that makes, or first uses, what they read; a graph says where it deviates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from graphwire.errors import DecodeError


def place_by_rule(
    order: dict[torch.fx.Node, None], node: torch.fx.Node, attributes: Collection[torch.fx.Node]
) -> None:
    """Add a node to the order that a record implies, behind those of `attributes` that it is the first to use."""
    if attributes:
        for used in node.all_input_nodes:
            if used in attributes:
                order.setdefault(used)
    order.setdefault(node)


def unusual_positions(
    nodes: Sequence[torch.fx.Node], by_rule: Mapping[torch.fx.Node, None]
) -> dict[str, str]:
    """The nodes that stand elsewhere than by rule, each with the node that it stands behind (empty: it stands first).

    Args:
        nodes: the nodes in the order in which they stand; those that are not in `by_rule` are passed over.
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
    """Put nodes where they stood. Of nodes that an upgrade has removed nothing is asked.

    Raises:
        DecodeError: a node would stand before what it reads, or behind what uses it.
    """
    if not placed:
        return
    named = {node.name: node for node in graph.nodes}
    for name, behind in placed.items():
        node, anchor = named.get(name), named.get(behind)
        if node is None or not _reads(node) or (anchor is None and behind):
            continue
        if anchor is None:
            graph._root.append(node)
        else:
            anchor.append(node)
    try:
        graph.lint()
    except RuntimeError as error:
        raise DecodeError(f"nodes cannot stand where they are put: {error}") from error
