"""A summary says what a program is, and can be made of any document."""

from __future__ import annotations

import json
import warnings
from typing import Any

import msgspec
import pytest
import torch
from inside.analysis import ValueSummary, summarize
from inside.schema import from_tree, to_tree

import graphwire
from graphwire.schema import (
    Argument,
    CustomObjArgument,
    Graph,
    PluginRequirement,
    Program,
    SymFloatArgument,
    SymIntArgument,
)


class Model(torch.nn.Module):
    """A buffer that changes, a branch, and a size among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def forward(self, x, flag, n):
        self.steps.add_(1)
        x = torch.cond(flag, lambda t: t * 2, lambda t: t - 1, (x * n,))
        return self.body(x), x.shape[0] * 3 - 1


@pytest.fixture(scope="module")
def document() -> Any:
    dynamic = {"x": {0: torch.export.Dim("batch", min=2, max=64)}, "flag": None, "n": None}
    with warnings.catch_warnings(
        action="ignore"
    ):  # torch's own, while it traces the branches of the condition
        program = torch.export.export(
            Model(), (torch.ones(3, 4), torch.tensor(True), 2), dynamic_shapes=dynamic
        )
    return to_tree(graphwire.to_schema(program)[0])


@pytest.fixture
def program(document) -> Program:
    return from_tree(document, Program)


def test_ranges_without_an_end_are_written_as_such(program):
    limits = program.range_constraints[next(iter(program.range_constraints))]
    program.range_constraints = {
        "u0": msgspec.structs.replace(limits, min_val=0, max_val=None),
        "u1": msgspec.structs.replace(limits, min_val=None, max_val=7),
    }
    assert [each.range for each in summarize(program).symbols] == ["[0, ∞)", "(-∞, 7]"]


def test_it_tells_what_a_reader_needs(program):
    plugin = PluginRequirement("graphwire-acme", "1.2", ["op:acme"])
    program.requires, program.plugins = ["sequences"], [plugin]
    program.guards_code = ["L['x'].size()[0] >= 2"]
    summary = summarize(program)
    assert (summary.features, summary.plugins) == (["sequences"], [plugin])
    assert summary.guards == ["L['x'].size()[0] >= 2"]


def test_a_value_of_which_nothing_is_known_is_a_question_mark(program):
    program.graph_module.graph.tensor_values.clear()
    program.graph_module.graph.sym_int_values.clear()
    summary = summarize(program)
    assert summary.inputs[0] == ValueSummary("x", "user_input", "tensor", "?", "?", "?")
    assert summary.outputs[-1].value == "?"
    assert summary.buffers.bytes == 0


def test_an_expression_outside_of_the_grammar_is_shown_as_it_is(document):
    text = json.dumps(document).replace("Symbol('", "System('")
    assert summarize(from_tree(json.loads(text), Program)).inputs[0].shape.startswith("[System('")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (Argument(), ("?", "?")),
        (Argument(as_none=True), ("none", "None")),
        (Argument(as_float="NaN"), ("float", "nan")),
        (Argument(as_ints=[1, 2]), ("ints", "[1, 2]")),
        (Argument(as_sym_int=SymIntArgument(as_int=4)), ("sym_int", "4")),
        (Argument(as_sym_float=SymFloatArgument(as_float=0.5)), ("sym_float", "0.5")),
        (Argument(as_custom_obj=CustomObjArgument("obj", "a.B")), ("custom_obj", "a.B")),
        (Argument(as_int=1 << 100_000), ("int", "a number of 100001 bits")),
    ],
)
def test_an_output_of_any_kind_can_be_shown(program, argument, expected):
    program.graph_module.signature.output_specs[-1].user_output.arg = argument
    shown = summarize(program).outputs[-1]
    assert (shown.kind, shown.value) == expected


def test_graphs_that_are_nested_deeply_are_counted_without_recursion(program):
    graph = program.graph_module.graph
    node = next(node for node in graph.nodes if node.inputs[1:] and node.inputs[1].arg.as_graph)
    shell = msgspec.structs.replace(node, inputs=[node.inputs[1]], outputs=[])
    for _ in range(2_000):
        owner = msgspec.structs.replace(
            shell.inputs[0].arg.as_graph, graph=Graph([], [], [shell], {}, {}, {})
        )
        named = msgspec.structs.replace(shell.inputs[0], arg=Argument(as_graph=owner))
        shell = msgspec.structs.replace(shell, inputs=[named])
    graph.nodes.append(shell)
    assert summarize(program).subgraphs == 2 + 2_001
    while shell.inputs[0].arg.as_graph.graph.nodes[0].inputs[0].arg.as_graph:  # taken apart from outside
        shell = shell.inputs[0].arg.as_graph.graph.nodes.pop()
        if not shell.inputs or shell.inputs[0].arg.as_graph is None or len(shell.inputs) > 1:
            break
