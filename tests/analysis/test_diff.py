"""What a diff says of two versions of a real model, and how it reads."""

from __future__ import annotations

import copy
import functools
import re
import time
from typing import Any

import msgspec
import pytest
import torch
from inside.analysis import diff_lines, module_path
from nightly import one_in
from small_programs import SMALL_PROGRAMS, shared_example
from torch import nn
from torch.export import Dim

import graphwire
from graphwire import Diff
from graphwire.schema import (
    Node,
)


def diff_text(found: Diff, *, a: str = "A", b: str = "B") -> str:
    return "\n".join(diff_lines(found, a=a, b=b))


class Block(nn.Module):
    def __init__(self, activation: str) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + getattr(torch, self.activation)(self.lin(x))


class Net(nn.Module):
    def __init__(
        self, activations: tuple[str, ...] = ("relu", "relu", "relu"), *, head: int = 2, more: bool = False
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(each) for each in activations)
        self.head = nn.Linear(4, head)
        self.more = more

    def forward(self, x: torch.Tensor, flag: bool = True) -> Any:
        for index, block in enumerate(self.blocks):
            x = block(x)
            if self.more and index == 0:
                x = torch.abs(x)
        return self.head(x)


@functools.cache
def _program(*activations: str, high: int = 16, **options: Any) -> Any:
    torch.manual_seed(0)
    model = Net(activations or ("relu", "relu", "relu"), **options)
    return torch.export.export(
        model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("rows", min=2, max=high)},)
    )


def _nodes(found: Diff) -> list[tuple[str, str, str]]:
    short = [change.operator.removeprefix("torch.ops.aten.").partition(".")[0] for change in found.nodes]
    return [
        (change.change, change.module, name)
        for change, name in zip(found.nodes, short, strict=True)
        if not change.derived
    ]


def test_another_operator_is_said_with_its_module() -> None:
    found = graphwire.diff(_program(), _program("relu", "tanh", "relu"))
    assert set(_nodes(found)) == {
        ("removed", "blocks.1", "relu"),
        ("added", "blocks.1", "tanh"),
        ("changed", "blocks.1", "add"),
    }
    (change,) = [change for change in found.nodes if change.change == "changed"]
    assert [(detail.what, detail.a, detail.b) for detail in change.details] == [("other", "relu_1", "tanh")]


def test_a_node_that_is_put_in_changes_its_readers_and_nothing_else() -> None:
    found = graphwire.diff(_program(), _program(more=True))
    assert [each[0] for each in _nodes(found)] == ["added", "changed", "changed"]
    back = graphwire.diff(_program(more=True), _program())
    assert sorted(each[0] for each in _nodes(back)) == ["changed", "changed", "removed"]


def test_a_layer_more_is_added_nodes_and_weights() -> None:
    found = graphwire.diff(_program(), _program("relu", "relu", "relu", "relu"))
    added = [each for each in _nodes(found) if each[0] == "added"]
    assert {module for _, module, _ in added} == {"blocks.3", "blocks.3.lin"}
    names = {(change.section, change.change, change.name) for change in found.changes}
    assert ("weight", "added", "blocks.3.lin.weight") in names
    assert ("input", "added", "parameter blocks.3.lin.bias") in names


def test_another_shape_is_said_once_and_its_consequences_counted() -> None:
    found = graphwire.diff(_program(), _program(head=3))
    weights = {change.name: change for change in found.changes if change.section == "weight"}
    assert [(d.what, d.a, d.b) for d in weights["head.weight"].details] == [("shape", "[2, 4]", "[3, 4]")]
    assert found.nodes
    assert all(change.derived for change in found.nodes)
    text = diff_text(found)
    assert "only because of other inputs" in text
    assert text.count("[2, 4] → [3, 4]") == 1
    assert "Weights\n  2, as under Inputs" in text


def test_a_node_with_other_results_of_the_same_inputs_is_changed_and_its_readers_follow_from_it() -> None:
    other = copy.deepcopy(_program())
    graph = other.graph_module.graph
    first = next(node for node in graph.nodes if "relu" in str(node.target))
    for node in (first, *first.users):  # as another release of torch may trace them
        node.meta["val"] = node.meta["val"].t().clone(memory_format=torch.contiguous_format).t()
    found = graphwire.diff(_program(), other)
    assert [(change.name, change.derived) for change in found.nodes] == [
        (first.name, False),
        *((node.name, True) for node in first.users),
    ]
    assert first.name in diff_text(found)


def test_weights_are_listed_where_they_are_not_as_their_inputs() -> None:
    one, other = (graphwire.dumps(_program(head=rows)) for rows in (2, 3))
    text = diff_text(graphwire.diff(one, other, weights=True))
    assert "as under Inputs" not in text
    assert "elements: " in text


def test_a_range_is_said_by_the_size_that_it_is_of() -> None:
    found = graphwire.diff(_program(), _program(high=8))
    ranges = [change for change in found.changes if change.section == "range"]
    assert [(change.name, change.details[0].a, change.details[0].b) for change in ranges] == [
        ("x.shape[0]", "[2, 16]", "[2, 8]")
    ]
    assert found.nodes == []


def test_the_same_programs_have_nothing_to_say() -> None:
    found = graphwire.diff(_program(), _program())
    assert (found.same, found.changes, found.nodes) == (True, [], [])
    assert "are the same" in diff_text(found)


def test_the_text_is_readable() -> None:
    text = diff_text(
        graphwire.diff(_program(), _program("relu", "tanh", "relu", high=8)), a="old.pt2", b="new.pt2"
    )
    text = re.sub(r"\(gw1:[0-9a-f]{12}", "(HASH", text)
    assert text == (
        "--- old.pt2 (HASH, 10 nodes)\n"
        "+++ new.pt2 (HASH, 10 nodes)\n"
        "Compared: graph; weights: 8 not compared (no checksum in A and B: blocks.0.lin.weight, blocks.0.lin.bias,"
        " blocks.1.lin.weight and 5 more)\n"
        "\n"
        "Ranges\n"
        "  ~ x.shape[0]\n"
        "      range: [2, 16] → [2, 8]\n"
        "\n"
        "Nodes: 1 added, 1 removed, 1 changed\n"
        "  blocks.1\n"
        "    - aten.relu.default relu_1 (node 4)\n"
        "    + aten.tanh.default tanh (node 4)\n"
        "    ~ aten.add.Tensor add_1 (node 5)\n"
        "        other: relu_1 → tanh"
    ), text


def test_a_diff_is_data() -> None:
    found = graphwire.diff(_program(), _program("relu", "tanh", "relu"))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Diff) == found


class Branches(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * self.factor, lambda x: x.sin(), (x,))


def test_a_change_in_a_branch_is_said_with_the_branch() -> None:
    one, other = (torch.export.export(Branches(factor), (torch.ones(3),)) for factor in (2.0, 3.0))
    found = graphwire.diff(one, other)
    (change,) = found.nodes
    assert change.graph.startswith("true_graph")
    assert [(detail.what, detail.a, detail.b) for detail in change.details] == [("other", "2.0", "3.0")]


@pytest.mark.parametrize("name", ["mutated_buffers", "outputs_of_every_kind", "tied_weights"])
def test_any_two_programs_can_be_compared(name) -> None:
    found = graphwire.diff(SMALL_PROGRAMS[name]().program, _program())
    assert not found.same
    assert diff_text(found)


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"nn_module_stack": "L__self__,,m.Net;L__self___a,blocks.0,m.Block"}, "blocks.0"),
        ({"nn_module_stack": "L,,m.Net"}, ""),
        ({"nn_module_stack": "L,,m.Net;k,a.b@1,m.Block"}, "a.b"),
        ({"graphwire.nn_module_stack": '[["k", "", "m.Net"], ["k", "x;y,z", "m.Block"]]'}, "x;y,z"),
        ({"graphwire.nn_module_stack": "no JSON"}, ""),
        ({}, ""),
    ],
)
def test_the_module_of_a_node(metadata, path) -> None:
    assert module_path(Node("torch.ops.aten.relu.default", [], [], metadata)) == path


def test_a_large_graph_takes_less_than_a_second() -> None:
    """1,500 nodes, one of them another, on a slow core."""
    record, _ = graphwire.to_schema(_program())
    node = next(node for node in record.graph_module.graph.nodes if node.target.endswith("relu.default"))
    graphs = []
    for literal in (1, 2):
        graph = msgspec.convert(msgspec.to_builtins(record), type(record))
        last, nodes = graph.graph_module.graph.nodes[-1].outputs[0], []
        for index in range(1500):
            name = f"long_{index}"
            tree = {**msgspec.to_builtins(node), "name": name, "outputs": [{"as_tensor": {"name": name}}]}
            source = msgspec.to_builtins(last) if index == 0 else {"as_tensor": {"name": f"long_{index - 1}"}}
            tree["inputs"] = [{"name": "self", "arg": source, "kind": 1}]
            if index == 700:
                tree["inputs"].append({"name": "more", "arg": {"as_int": literal}, "kind": 1})
            nodes.append(msgspec.convert(tree, Node))
            graph.graph_module.graph.tensor_values[name] = next(
                iter(graph.graph_module.graph.tensor_values.values())
            )
        graph.graph_module.graph.nodes += nodes
        graphs.append(graph)
    begun = time.process_time()
    found = graphwire.diff(*graphs)
    assert time.process_time() - begun < 1
    assert [(change.name, change.details[0].what) for change in found.nodes] == [("long_700", "more")]


@pytest.mark.parametrize(
    "name", one_in(4, ["cond", "buffers_and_constants", "ranges_of_dimensions", "guards"])
)
def test_what_an_older_schema_cannot_hold_is_no_difference(name: str) -> None:
    program = shared_example(name).program
    lossy = {}
    for target in graphwire.targets(program):
        if target.startswith("torch-"):
            try:
                file = graphwire.dumps(program, target=target, ranges="narrowed")
            except graphwire.errors.TargetError:
                continue
            found = graphwire.diff(program, file)
            assert found.same, (target, str(found))
            assert bool(found.not_held) == (found.hash_a != found.hash_b)
            lossy |= {target: found} if found.not_held else {}
    assert "torch-2.5" in lossy
    assert "torch-2.6" not in lossy
    (line, _, title, *rest) = str(lossy["torch-2.5"]).splitlines()
    assert line.startswith("A and B are the same")
    assert title == "Not held by schema 7.3 (torch 2.5), and no difference"
    assert rest[0] == "  ~ module call (root)"


def test_a_difference_to_an_older_file_counts_beside_what_the_file_cannot_hold() -> None:
    older = graphwire.dumps(_program(), target="torch-2.4")
    found = graphwire.diff(older, _program("relu", "sigmoid", "relu"))
    assert not found.same
    own = [change.operator for change in found.nodes if change.change != "changed"]
    assert own == ["torch.ops.aten.relu.default", "torch.ops.aten.sigmoid.default"]
    assert {change.section for change in found.changes} <= {"module call"}
    assert "dialect TRAINING" in [change.name for change in found.not_held]
    assert "Not held by schema 5.3 (torch 2.4)" in str(found)
    assert str(found).index("Nodes:") < str(found).index("Not held")


KINDS = ("relu", "tanh", "sin", "cos", "abs", "exp")


@functools.cache
def layered(names: tuple[str, ...]) -> Any:
    return torch.export.export(Net(names), (torch.ones(2, 4),))


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ((0, 1, 3, 4, 5), {"layers.2": None, "layers.3": "2", "layers.4": "3", "layers.5": "4"}),
        ((1, 2, 3, 4, 5), {"layers.0": None, **{f"layers.{at}": str(at - 1) for at in range(1, 6)}}),
        ((0, 1, 2, 3, 4), {}),
        ((0, 2, 1, 3, 4, 5), {"layers.1": "2", "layers.2": "1"}),
        ((0, 1, 4, 2, 3, 5), {"layers.4": "2", "layers.2": "3", "layers.3": "4"}),
    ],
)
def test_layers_with_other_numbers_are_compared_with_themselves(kept, told) -> None:
    before, after = layered(KINDS), layered(tuple(KINDS[index] for index in kept))
    found = graphwire.diff(before, after)
    layers = [each for each in found.changes if each.section == "layer"]
    told = {one.replace("layers", "blocks"): other for one, other in told.items()}
    assert {each.name for each in layers if each.change == "removed"} == {
        one for one in told if told[one] is None
    }
    moved = {each.details[0].a: each.details[0].b for each in layers if each.change == "changed"}
    assert moved == {one: f"blocks.{other}" for one, other in told.items() if other is not None}
    gone = {f"aten.{kind}.default" for index, kind in enumerate(KINDS) if index not in kept}
    own = {
        each.operator.removeprefix("torch.ops.")
        for each in found.nodes
        if each.change in ("added", "removed")
    }
    assert own <= gone | ({"aten.linear.default", "aten.add.Tensor"} if gone else set())
    back = [each for each in graphwire.diff(after, before).changes if each.section == "layer"]
    assert sum(each.change == "added" for each in back) == sum(each.change == "removed" for each in layers)
    for text in ("\n".join(diff_lines(found)), repr(found), str(found)):
        assert "\0" not in text


def test_tied_weights_of_layers_with_other_numbers_are_tied_as_before() -> None:
    def tied(names: tuple[str, ...]) -> Any:
        model = Net(names)
        model.blocks[-1].lin.weight = model.blocks[-2].lin.weight  # type: ignore[union-attr]
        return torch.export.export(model, (torch.ones(2, 4),))

    torch.manual_seed(0)
    found = graphwire.diff(tied(KINDS), tied((KINDS[0], *KINDS[2:])), weights=True)
    assert any(each.section == "layer" for each in found.changes)
    assert "shared by" not in "\n".join(diff_lines(found))
