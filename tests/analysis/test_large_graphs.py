"""Canonical form, hash and diff take time in proportion to a graph's size, or little more, whatever the graph's form."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
import torch
from growth import growth_of

import graphwire
from graphwire.schema import Argument, ArgumentKind, NamedArgument, Node, Program, TensorArgument

SMALL, LARGE = 5_000, 20_000

ADD, SIN = "torch.ops.aten.add.Tensor", "torch.ops.aten.sin.default"


def _twins(index: int, salt: random.Random) -> tuple[str, list[int]]:
    return SIN, [-1]


def _dense(index: int, salt: random.Random) -> tuple[str, list[int]]:
    return ADD, [salt.randrange(-1, index), salt.randrange(-1, index)]


def _ladder(index: int, salt: random.Random) -> tuple[str, list[int]]:
    """Two chains of the same nodes, which meet at the end only."""
    return ADD, [max(index - 2, -1), -1]


FORMS: dict[str, Callable[[int, random.Random], tuple[str, list[int]]]] = {
    "nodes that do the same": _twins,
    "any nodes": _dense,
    "two chains of the same": _ladder,
}


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


@pytest.fixture(scope="module")
def base() -> Program:
    return graphwire.to_schema(torch.export.export(Model(), (torch.ones(2),)))[0]


def _graph(base: Program, form: str, count: int) -> Program:
    program = msgspec.convert(msgspec.to_builtins(base), Program)
    graph, salt = program.graph_module.graph, random.Random(count)
    meta = graph.tensor_values["x"]

    def tensor(index: int) -> Argument:
        return Argument(as_tensor=TensorArgument("x" if index < 0 else f"v{index}"))

    graph.nodes = []
    for index in range(count):
        operator, read = FORMS[form](index, salt)
        names = ("self", "other")
        inputs = [
            NamedArgument(name, tensor(each), ArgumentKind.POSITIONAL)
            for name, each in zip(names, read, strict=False)
        ]
        graph.nodes.append(Node(operator, inputs, [tensor(index)], {}, name=f"v{index}"))
        graph.tensor_values[f"v{index}"] = meta
    graph.outputs = [tensor(count - 1)]
    (spec,) = program.graph_module.signature.output_specs
    assert spec.user_output is not None
    spec.user_output.arg = tensor(count - 1)
    graph.tensor_values.pop("sin", None)
    return program


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow
def test_the_hash_of_four_times_the_nodes_takes_little_more_than_four_times_as_long(
    base: Program, form: str
) -> None:
    small, large = (_graph(base, form, count) for count in (SMALL, LARGE))
    # A sort of four times as many takes 4.6 times as long; what is quadratic, sixteen times.
    assert (
        growth_of(lambda: graphwire.content_hash(small), lambda: graphwire.content_hash(large), bound=9) < 9
    )


@pytest.mark.slow
def test_the_diff_of_four_times_the_nodes_takes_little_more_than_four_times_as_long(base: Program) -> None:
    pairs = []
    for count in (SMALL, LARGE):
        one, other = (_graph(base, "any nodes", count) for _ in range(2))
        other.graph_module.graph.nodes[count // 2].target = "torch.ops.aten.cos.default"
        pairs.append((one, other))
    assert growth_of(lambda: graphwire.diff(*pairs[0]), lambda: graphwire.diff(*pairs[1]), bound=9) < 9
