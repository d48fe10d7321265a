"""Removes effect tokens from graphs. They order operators with effects; in a graph that runs, the order of its nodes does."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch

from graphwire.bridge.torch_compat.private import is_effect, number_of_results


def remove_effect_tokens(
    graph: torch.fx.Graph,
    root: torch.nn.Module,
    objects: Mapping[torch.fx.Node, Any],
    inputs: Collection[torch.fx.Node],
) -> dict[torch.fx.Node, torch.fx.Node]:
    """Remove the tokens of a graph and of its subgraphs, and the nodes that nothing uses, as torch does.

    Returns the nodes that call without a token, by those that called with one.

    Args:
        root: the module whose attributes the graph reads.
        objects: the objects that nodes read, whose methods the graph may call.
        inputs: the nodes that read inputs of the program. They stay.
    """
    nested = {each: each.graph for each in root.modules() if isinstance(each, torch.fx.GraphModule)}
    effectful = {each for each, inner in nested.items() if any(is_effect(n.target) for n in inner.nodes)}
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    for owner, each in ((root, graph), *nested.items()):
        taken: set[torch.fx.Node] = set()
        outputs: set[torch.fx.Node] = set()
        for node in list(each.nodes):
            if is_effect(node.target):
                replaced[node] = _call_directly(each, node, taken, outputs, objects)
            elif node.target is torch.ops.higher_order.invoke_subgraph:
                called: Any = node.args[0]
                if getattr(owner, called.target) in effectful:
                    _pass_no_token(node, taken, outputs)
        if outputs:
            output = each.output_node()
            returned: Any = output.args[0]
            output.args = (tuple(returned[len(outputs) :]),)
        each.eliminate_dead_code(lambda node: node in inputs or node.is_impure())
        for token in taken:
            if not token.users:
                each.erase_node(token)
    return replaced


def _call_directly(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    inputs: set[torch.fx.Node],
    outputs: set[torch.fx.Node],
    objects: Mapping[torch.fx.Node, Any],
) -> torch.fx.Node:
    """Replace a call with a token by a call without one, and return that."""
    token, function, *args = node.args
    _note_tokens(node, token, inputs, outputs)
    with graph.inserting_before(node):
        made = graph.call_function(function, tuple(args), dict(node.kwargs))
    made.meta.update(node.meta)
    readers = {user: user.args[1] for user in node.users if user.args[1] != 0}
    called = [objects.get(each, each) if isinstance(each, torch.fx.Node) else each for each in args]
    single = number_of_results(function, called) == 1
    for reader, index in readers.items():
        if single:
            reader.replace_all_uses_with(made)
        else:
            reader.args = (made, index - 1)
    return made


def _pass_no_token(node: torch.fx.Node, inputs: set[torch.fx.Node], outputs: set[torch.fx.Node]) -> None:
    """Remove the token from a call of a subgraph."""
    subgraph, identifier, token, *operands = node.args
    _note_tokens(node, token, inputs, outputs)
    node.args = (subgraph, identifier, *operands)
    for reader in list(node.users):
        index: Any = reader.args[1]
        if index >= 1:
            reader.args = (node, index - 1)


def _note_tokens(
    node: torch.fx.Node, token: Any, inputs: set[torch.fx.Node], outputs: set[torch.fx.Node]
) -> None:
    """Note the token that a node takes, if it is an input of the graph, and the one that it makes, if it is an output."""
    if token.op == "placeholder":
        inputs.add(token)
    for reader in node.users:
        if reader.target is operator.getitem and reader.args[1] == 0:
            outputs.update([reader] if any(user.op == "output" for user in reader.users) else [])
