"""The three schemas where the system began work by name: the first design, schema 1, and the table of files."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

import pytest
from corpus_documents import documents, same
from inside.analysis import validate
from inside.evolve import downgrade, embed, embedded_tensors, upgrade, version_of
from inside.schema import program_from_tree

from graphwire.errors import SchemaError
from graphwire.schema import DRAFT, Version

Tree = dict[str, Any]

META: Tree = {
    "dtype": 7,
    "sizes": [{"as_int": 2}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": -1},
    "strides": [{"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 1,
}

HANDMADE: Tree = {
    "name": "main",
    "graph": {
        "inputs": [{"name": "x"}],
        "outputs": [{"name": "y"}],
        "nodes": [
            {
                "target": "aten.sym_size.int",
                "args": [{"as_tensor": {"name": "x"}}, {"as_int": 0}],
                "kwargs": {},
                "outputs": [{"as_symint": {"name": "n"}}],
                "metadata": {"stack_trace": "", "nn_module_stack": "", "extra": {}},
            },
            {
                "target": "aten.view.default",
                "args": [
                    {"as_tensor": {"name": "layer.w"}},
                    {"as_symints": [{"name": "n"}, {"name": "one"}]},
                ],
                "kwargs": {},
                "outputs": [{"as_tensor": {"name": "y"}}],
                "metadata": {"stack_trace": "there", "nn_module_stack": "", "extra": {"note": "kept"}},
            },
        ],
        "tensor_values": [{"name": name, "meta": META} for name in ("x", "layer.w", "y")],
        "symint_values": [{"name": "n", "value": {"as_sym": "s0"}}, {"name": "one", "value": {"as_int": 1}}],
    },
    "metadata": {},
    "parameters": {
        "layer.w": {
            "storage": {"data_location": "Internal", "data": {"buffer": struct.pack(">2f", 1.0, -2.5)}},
            "meta": META,
        }
    },
    "buffers": {},
}


def test_a_draft_by_another_hand_is_a_valid_program() -> None:
    assert version_of(HANDMADE) == DRAFT
    before = copy.deepcopy(HANDMADE)
    tree, steps = upgrade(HANDMADE)
    assert before == HANDMADE
    program = program_from_tree(tree)
    assert validate(program) == []
    assert str(steps[0]) == "schema draft-2022 → 1"
    view = program.graph_module.graph.nodes[1]
    assert view.target == "torch.ops.aten.view.default"
    assert view.inputs[0].arg.as_tensor is not None
    assert view.inputs[0].arg.as_tensor.name == "layer_w"
    assert view.inputs[1].arg.as_sym_ints is not None
    assert [(size.as_name, size.as_int) for size in view.inputs[1].arg.as_sym_ints] == [
        ("n", None),
        (None, 1),
    ]
    assert view.metadata == {"stack_trace": "there", "note": "kept"}
    parameter = program.graph_module.signature.input_specs[0].parameter
    assert parameter is not None
    assert (parameter.parameter_name, parameter.arg.name) == ("layer.w", "layer_w")


def test_a_program_of_today_becomes_a_draft_and_comes_back() -> None:
    tree, _ = upgrade(documents()["2.13.0", "linear"])
    draft = downgrade(tree, DRAFT)
    assert set(draft) == {"name", "graph", "metadata", "parameters", "buffers"}
    assert draft["graph"]["inputs"] == [{"name": "input_1"}]
    assert set(draft["parameters"]) == {"weight", "bias"}
    stored = {"weight": struct.pack("<12f", *range(12)), "bias": struct.pack("<3f", 1, 2, 3)}
    full = embed(draft, stored.__getitem__)
    assert {tensor.name: tensor.data for tensor in embedded_tensors(full)} == stored
    again, _ = upgrade(full)
    assert validate(program_from_tree(again)) == []
    assert again["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] == "weight"
    assert same(downgrade(again, DRAFT), draft)


def test_constants_inside_a_document_of_2_1_are_taken_out() -> None:
    tensors = embedded_tensors(documents()["2.1.0", "lifted_constant"])
    assert [(tensor.name, tensor.kind, tensor.encoding) for tensor in tensors] == [
        (f"_tensor_constant{index}", "constant", "torch.save") for index in range(3)
    ]
    assert all(isinstance(tensor.data, bytes) and tensor.data[:2] == b"PK" for tensor in tensors)
    assert embedded_tensors(documents()["2.13.0", "lifted_constant"]) == []


def test_keyword_arguments_of_2_1_are_told_from_a_tuple_of_positional_ones() -> None:
    for model, keywords in (("kwargs_input", '["scale", "opt"]'), ("linear", "[]")):
        tree, _ = upgrade(documents()["2.1.0", model])
        text = tree["graph_module"]["module_call_graph"][0]["signature"]["in_spec"]
        arguments, named = json.loads(text)[1]["children_spec"]
        assert arguments["type"] == "builtins.tuple"
        assert named["context"] == keywords


def test_a_value_with_the_name_of_a_field_is_renamed_without_the_field() -> None:
    text = json.dumps(upgrade(documents()["2.9.1", "ops_upsample_dyn"])[0])
    name = next(iter(json.loads(text)["graph_module"]["graph"]["tensor_values"]))
    for field in ("device", "type"):
        for version in (Version(5, 1), Version(2), Version(1)):
            older, plain = (
                downgrade(json.loads(each), version)["graph_module"]["graph"]["tensor_values"]
                for each in (text.replace(f'"{name}"', f'"{field}"'), text)
            )
            assert [*older.items()] == [
                (f"{field}_1" if key == name else key, value) for key, value in plain.items()
            ]


def test_traces_of_a_program_of_today_fill_the_table_of_files() -> None:
    tree, _ = upgrade(documents()["2.5.1", "conv_misc"])
    compact = downgrade(tree, Version(5, 3, "compact"))
    assert version_of(compact) == Version(5, 3, "compact")
    table = compact["graph_module"]["graph"]["co_fileinfo_ordered_list"]
    traces = [node["metadata"]["stack_trace"] for node in compact["graph_module"]["graph"]["nodes"]]
    for trace in traces:
        for file, line in trace:
            assert set(table[file]["line_info_map"][str(line)]) == {"name", "line"}
    assert same(upgrade(compact)[0], upgrade(downgrade(tree, Version(5, 3)))[0])


def test_two_traces_that_name_other_functions_at_one_line_come_back_as_they_were() -> None:
    tree, _ = upgrade(documents()["2.5.1", "conv_misc"])
    nodes = tree["graph_module"]["graph"]["nodes"]
    for node, function in zip(nodes[:2], ("forward", "helper"), strict=True):
        node["metadata"]["stack_trace"] = f'  File "model.py", line 3, in {function}\n    return x\n'
    compact = downgrade(tree, Version(5, 3, "compact"))
    assert same(upgrade(compact)[0], upgrade(downgrade(tree, Version(5, 3)))[0])


def test_a_trace_beyond_the_table_is_refused_with_its_place() -> None:
    tree, _ = upgrade(documents()["2.5.1", "linear"])
    compact = downgrade(tree, Version(5, 3, "compact"))
    compact["graph_module"]["graph"]["nodes"][0]["metadata"]["stack_trace"] = [[7, 1]]
    with pytest.raises(SchemaError, match=r"graph\.nodes\[0\]\.metadata\['stack_trace'\]"):
        upgrade(compact)
