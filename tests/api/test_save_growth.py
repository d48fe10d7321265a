"""A save takes work that grows with the program: twice as much of anything that nodes have takes about twice the calls."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from growth import calls_of
from torch.export import ExportedProgram, export
from torch.fx.traceback import NodeSource
from torch.utils import _pytree as pytree

import graphwire
from graphwire_plugins.object_codecs import encode_data

X = torch.ones(2, 3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(x, 2)[0] + torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x.mean(), (x,))


def _calls(count: int, make: Callable[[ExportedProgram, torch.fx.Node, int], None]) -> ExportedProgram:
    program = export(Model(), (X,))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.topk.default)
    with program.graph.inserting_before(program.graph.output_node()):
        for index in range(count):
            make(program, call, index)
    return program


def _copies(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """Another node that reads an element, and is used."""
    reader = program.graph.call_function(operator.getitem, (call, 0))
    reader.meta["val"] = call.meta["val"][0]
    user = program.graph.call_function(torch.ops.aten.neg.default, (reader,))
    user.meta["val"] = call.meta["val"][0]


def _objects(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """An object that a node is given itself."""
    element = call.meta["val"][0]
    packed = torch.ops.quantized.linear_prepack(_weight(), None)
    node = program.graph.call_function(torch.ops.quantized.linear_dynamic.default, (call, packed))
    node.meta["val"] = element


def _weight() -> torch.Tensor:
    return torch._empty_affine_quantized([1, 3], scale=0.5, zero_point=0, dtype=torch.qint8).fill_(1)


def _constants(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """A tensor of a branch's own."""
    branch: Any = program.graph_module.true_graph_0
    branch.register_buffer(f"held_{index}", torch.ones(()))
    output = branch.graph.output_node()
    with branch.graph.inserting_before(output):
        reader = branch.graph.get_attr(f"held_{index}")
        node = branch.graph.call_function(torch.ops.aten.neg.default, (reader,))
    reader.meta["val"] = node.meta["val"] = output.args[0][0].meta["val"]


def _subgraphs(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """A call of a subgraph that others call too."""
    (cond,) = program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)[:1]
    node = program.graph.call_function(cond.target, cond.args)
    node.meta["val"] = cond.meta["val"]


def _inputs(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """An input of a branch under another name than its argument's."""
    branch: Any = program.graph_module.true_graph_0
    (first,) = branch.graph.find_nodes(op="placeholder")[:1]
    with branch.graph.inserting_after(first):
        made = branch.graph.placeholder(f"more_{index}")
    made.target, made.meta = f"argument_{index}", dict(first.meta)


def _literals(program: ExportedProgram, call: torch.fx.Node, index: int) -> None:
    """An input of a branch that is no value."""
    _inputs(program, call, index)
    branch: Any = program.graph_module.true_graph_0
    made = next(node for node in branch.graph.nodes if node.name == f"more_{index}")
    made.meta["val"] = None


KINDS = (_copies, _objects, _constants, _subgraphs, _inputs, _literals)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.slow
def test_twice_as_many_take_about_twice_the_calls(
    make: Callable[[ExportedProgram, torch.fx.Node, int], None],
) -> None:
    programs = [_calls(count, make) for count in (40, 80, 160)]
    graphwire.dumps(programs[0])  # fills what is kept of operators
    first, second, third = (calls_of(lambda p=each: graphwire.dumps(p)) for each in programs)  # type: ignore[misc]
    assert third - second < 2.15 * (second - first) + 500, (first, second, third)


def _sources(levels: int) -> ExportedProgram:
    """Origins that share their origins."""
    program = export(Model(), (X,))
    source = NodeSource(None, "first")
    for _ in range(levels):
        outer = NodeSource(None, "next")
        outer.from_node = [source, source]
        source = outer
    for node in program.graph.nodes:
        node.meta["from_node"] = [source]
    return program


def _specs(levels: int) -> ExportedProgram:
    """A structure of inputs whose parts share theirs."""
    program = export(Model(), (X,))
    spec = pytree.tree_structure(0)
    for _ in range(levels):
        spec = pytree.TreeSpec(list, None, [spec, spec])
    signature = program.module_call_graph[0].signature
    assert signature is not None
    signature.in_spec = spec
    return program


def _states(levels: int) -> Any:
    """A state of an object that shares its parts."""
    state: Any = [1]
    for _ in range(levels):
        state = (state, {"a": state})
    return state


@pytest.mark.parametrize("make", [_sources, _specs, _states])
def test_twice_as_many_levels_of_what_is_shared_take_about_twice_the_calls(
    make: Callable[[int], Any],
) -> None:
    programs = [make(levels) for levels in (40, 80, 160)]
    calls_of(lambda: _attempt(programs[0]))  # fills what is kept of operators
    first, second, third = (calls_of(lambda p=each: _attempt(p)) for each in programs)  # type: ignore[misc]
    assert third - second < 2.15 * (second - first) + 500, (first, second, third)


def _attempt(given: Any) -> None:
    """A program is saved, and a state made data, or refused."""
    if isinstance(given, ExportedProgram):
        graphwire.dumps(given)
    else:
        encode_data(given, [])
