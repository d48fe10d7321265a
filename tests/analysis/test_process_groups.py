"""Names of process groups are found and replaced wherever a graph has them, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from inside.analysis import with_group_names
from msgspec.structs import replace

import graphwire
from graphwire.schema import (
    Argument,
    Graph,
    GraphArgument,
    MappingEntry,
    NamedArgument,
    Node,
    Program,
    SequenceValue,
)

OPERATORS = st.sampled_from(["torch.ops.lib.reduce.default", "torch.ops.higher_order.wrap"])


def graph(nodes: list[Node]) -> Graph:
    return Graph([], [], nodes, {}, {}, {})


def nodes(arguments: st.SearchStrategy[Argument]) -> st.SearchStrategy[list[Node]]:
    inputs = st.builds(NamedArgument, st.sampled_from(["x", "group_name", "group_size"]), arguments)
    return st.lists(
        st.builds(Node, OPERATORS, st.lists(inputs, max_size=3), st.just([]), st.just({})), max_size=3
    )


def nested(arguments: st.SearchStrategy[Argument]) -> st.SearchStrategy[Argument]:
    return st.one_of(
        nodes(arguments).map(lambda each: Argument(as_graph=GraphArgument("g", graph(each)))),
        st.lists(arguments, max_size=2).map(lambda items: Argument(as_sequence=SequenceValue("list", items))),
        st.lists(st.builds(MappingEntry, arguments, arguments), max_size=2).map(
            lambda each: Argument(as_mapping=each)
        ),
    )


@pytest.fixture(scope="module")
def base() -> Program:
    return graphwire.to_schema(torch.export.export(torch.nn.Identity(), (torch.ones(2),)))[0]


def replaced(tree: Any, names: dict[str, str], found: list[str]) -> Any:
    """The same, on the plain tree of the records."""
    if isinstance(tree, list):
        return [replaced(item, names, found) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("name") == "group_name" and "as_string" in tree.get("arg", {}):
        found.append(tree["arg"]["as_string"])
        return {**tree, "arg": {"as_string": names.get(found[-1], found[-1])}}
    return {key: replaced(item, names, found) for key, item in tree.items()}


def test_graphs_that_nodes_share_are_visited_once(base: Program) -> None:
    shared = graph(
        [Node("torch.ops.lib.f.default", [NamedArgument("group_name", Argument(as_string="0"))], [], {})]
    )
    for _ in range(40):  # 2 ** 40 paths
        argument = Argument(as_graph=GraphArgument("g", shared))
        shared = graph([Node("torch.ops.higher_order.f", [NamedArgument("", argument)] * 2, [], {})])
    program = replace(base, graph_module=replace(base.graph_module, graph=shared))
    inner = with_group_names(program, {"0": "tp"}).graph_module.graph
    while inner.nodes[0].inputs[0].arg.as_graph is not None:
        assert inner.nodes[0].inputs[0].arg.as_graph.graph is inner.nodes[0].inputs[1].arg.as_graph.graph
        inner = inner.nodes[0].inputs[0].arg.as_graph.graph
    assert inner.nodes[0].inputs[0].arg.as_string == "tp"
