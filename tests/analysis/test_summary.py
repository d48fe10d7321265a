"""A summary says what a program is, and can be made of any document."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from typing import Any

import msgspec
import pytest
import torch
from inside.analysis import MethodInspection, Summary, ValueSummary, summarize
from inside.schema import from_tree

import graphwire
from graphwire import Inspection, LoadReport
from graphwire.schema import (
    SCHEMA_VERSION,
    Argument,
    CustomObjArgument,
    Graph,
    PayloadConfig,
    PayloadMeta,
    PluginRequirement,
    Program,
    SymFloatArgument,
    SymIntArgument,
)


class Model(torch.nn.Module):
    """A tied weight, a buffer, a constant, a branch, and a dynamic batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.body = torch.nn.ModuleDict({"one": torch.nn.Linear(4, 4)})
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def forward(self, tokens, flag, n, *, name="a"):
        self.steps.add_(1)
        x = self.embed(tokens) * n + torch.tensor([0.5, 1.5, 2.5, 3.5])
        x = torch.cond(flag, lambda t: t * 2, lambda t: t - 1, (x,))
        return self.head(self.body["one"](x)), tokens.shape[0] * 3 - 1


def written() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The document that torch reads, and its two payload configurations."""
    dynamic = {"tokens": {0: torch.export.Dim("batch", min=2, max=64)}, "flag": None, "n": None, "name": None}
    arguments = (torch.zeros(3, 5, dtype=torch.int64), torch.tensor(True), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it traces the branches of the condition
        program = torch.export.export(Model(), arguments, {"name": "a"}, dynamic_shapes=dynamic)
        program = program.run_decompositions({})
    file = io.BytesIO(graphwire.dumps(program, target="torch-2.13"))
    with zipfile.ZipFile(file) as archive:
        files = {name.partition("/")[2]: name for name in archive.namelist()}
        read = {
            path: json.loads(archive.read(name)) for path, name in files.items() if path.endswith(".json")
        }
    configs = {kind: read[f"data/{kind}/model_{kind}_config.json"] for kind in ("weights", "constants")}
    return read["models/model.json"], configs


@pytest.fixture(scope="module")
def document() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    return written()


@pytest.fixture
def program(document) -> Program:
    return from_tree(document[0], Program)


@pytest.fixture
def payloads(document) -> dict[str, dict[str, PayloadMeta]]:
    return {kind: from_tree(config, PayloadConfig).config for kind, config in document[1].items()}


@pytest.fixture
def summary(program) -> Summary:
    return summarize(program, name="net")


def test_it_names_the_program_and_its_versions(summary):
    assert summary.name == "net"
    assert summary.torch_version == torch.__version__
    assert summary.schema_version == ".".join(map(str, SCHEMA_VERSION))
    assert summary.opset_versions == {"aten": 10}
    assert summary.dialects in (["TRAINING"], ["ATEN"])


def test_it_counts_the_nodes_of_all_graphs(summary, program):
    inside = [
        named.arg.as_graph.graph
        for node in program.graph_module.graph.nodes
        for named in node.inputs
        if named.arg.as_graph
    ]
    assert summary.subgraphs == len(inside) == 2
    assert summary.nodes == sum(len(graph.nodes) for graph in [program.graph_module.graph, *inside])
    assert sum(summary.operators.values()) == summary.nodes
    counts = list(summary.operators.values())
    assert counts == sorted(counts, reverse=True)


def test_it_tells_what_the_caller_passes(summary):
    assert summary.inputs[:2] == [
        ValueSummary("tokens", "user_input", "tensor", "int64", f"[{summary.symbols[0].name}, 5]", "cpu"),
        ValueSummary("flag", "user_input", "tensor", "bool", "[]", "cpu"),
    ]
    literals = {value.name: (value.role, value.kind, value.value) for value in summary.inputs[2:]}
    assert literals == {"n": ("constant_input", "int", "2"), "name": ("constant_input", "string", "'a'")}


def test_it_tells_what_the_caller_gets_and_what_changes(summary):
    symbol = summary.symbols[0].name
    mutation, logits, size = summary.outputs
    assert (mutation.role, mutation.value, mutation.dtype) == ("buffer_mutation", "steps", "int64")
    assert (logits.role, logits.shape, logits.dtype) == ("user_output", f"[{symbol}, 5, 10]", "float32")
    assert (size.kind, size.value) == ("sym_int", f"3*{symbol} - 1")


def test_it_tells_the_ranges_of_symbols(summary):
    assert [(each.min_val, each.max_val, each.range) for each in summary.symbols] == [(2, 64, "[2, 64]")]


def test_ranges_without_an_end_are_written_as_such(program):
    limits = program.range_constraints[next(iter(program.range_constraints))]
    program.range_constraints = {
        "u0": msgspec.structs.replace(limits, min_val=0, max_val=None),
        "u1": msgspec.structs.replace(limits, min_val=None, max_val=7),
    }
    assert [each.range for each in summarize(program).symbols] == ["[0, ∞)", "(-∞, 7]"]


def test_without_payload_records_sizes_come_from_the_graph(summary):
    assert summary.parameters.count >= 3
    assert summary.parameters.elements >= 10 * 4 + 4 * 4 + 4
    assert (summary.buffers.count, summary.buffers.bytes) == (1, 8)
    assert (summary.constants.count, summary.constants.bytes) == (1, 16)


def test_payload_records_tell_which_weights_share_a_storage(program, payloads):
    summary = summarize(program, weights=payloads["weights"], constants=payloads["constants"])
    assert summary.parameters.count == 4
    assert summary.parameters.elements == 2 * 40 + 16 + 4
    assert summary.parameters.bytes == 4 * (40 + 16 + 4)
    assert (summary.buffers.count, summary.buffers.bytes) == (1, 8)
    assert (summary.constants.count, summary.constants.bytes) == (1, 16)


def test_it_shows_the_top_of_the_module_tree(program, payloads):
    modules = {each.name: each for each in summarize(program, weights=payloads["weights"]).modules}
    assert set(modules) == {"embed", "body", "head"}
    assert modules["embed"].type == "torch.nn.modules.sparse.Embedding"
    assert modules["body"].elements == 20
    assert modules["head"].nodes >= 1


def test_it_tells_what_a_reader_needs(program):
    plugin = PluginRequirement("graphwire-acme", "1.2", ["op:acme"])
    program.requires, program.plugins = ["sequences"], [plugin]
    program.guards_code = ["L['tokens'].size()[0] >= 2"]
    summary = summarize(program)
    assert (summary.features, summary.plugins) == (["sequences"], [plugin])
    assert summary.guards == ["L['tokens'].size()[0] >= 2"]


def test_a_value_of_which_nothing_is_known_is_a_question_mark(program):
    program.graph_module.graph.tensor_values.clear()
    program.graph_module.graph.sym_int_values.clear()
    summary = summarize(program)
    assert summary.inputs[0] == ValueSummary("tokens", "user_input", "tensor", "?", "?", "?")
    assert summary.outputs[-1].value == "?"
    assert summary.buffers.bytes == 0


def test_an_expression_outside_of_the_grammar_is_shown_as_it_is(document):
    text = json.dumps(document[0]).replace("Symbol('", "System('")
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


def test_the_records_are_plain_data(summary):
    report = LoadReport("model", "torch 2.13.0", "8.20", "pt2", "json", "torch-2.13")
    method = MethodInspection("model", "json", 10, 5, summary, report)
    inspection = Inspection("a.pt2", 100, "pt2", "torch 2.13.0", [method], 50, ["models/model.json"])
    assert msgspec.convert(msgspec.to_builtins(inspection), Inspection) == inspection
