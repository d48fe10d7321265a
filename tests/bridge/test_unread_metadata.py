"""What a document says of nodes and a load cannot give them is told by name, or refused; a save drops nothing that it writes."""

from __future__ import annotations

import functools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire import LoadReport
from graphwire.errors import GraphwireError, GraphwireWarning

sys.path.append(str(Path(__file__).parents[1] / "attacks"))
from hostile import Tree, Victim

KEYS = {
    "stack_trace": "stack_trace",
    "nn_module_stack": "nn_module_stack",
    "source_fn_stack": "source_fn_stack",
    "torch_fn": "torch_fn",
    "custom": "custom",
    "from_node": "from_node",
    "graphwire.nn_module_stack": "nn_module_stack",
    "graphwire.source_fn_stack": "source_fn_stack",
    "graphwire.torch_fn": "torch_fn",
    "graphwire.meta.recompute": "recompute",
    "graphwire.meta.nobodys": "nobodys",
    "nobodys": "nobodys",
    "": "",
}
"""Keys of the texts of nodes, with the key of `node.meta` that each becomes."""
NOTHING = {"stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn"}
"""Whose empty text says nothing."""
TEXTS = ["", "x", "a,b", "a,b,c", ";;", "0", "null", "[]", "{}", '"a"', '{"a": 1}', "[[]]", '[["a", "b"]]', '[["a", "b", "c"]]',
         '{"$enum": "a.B", "value": 1}', "[" * 500]  # fmt: skip


def _program() -> ExportedProgram:
    return export(nn.Linear(2, 3), (torch.ones(1, 2),))


@functools.cache
def _victim() -> Victim:
    return Victim.of(graphwire.dumps(_program()))


def _loaded(data: bytes) -> tuple[ExportedProgram, list[str], LoadReport]:
    reports: list[LoadReport] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = graphwire.loads(data, report=reports.append)
    told = [str(each.message) for each in caught if each.category is GraphwireWarning]
    return program, told, reports[0]


def _places(tree: Tree) -> dict[str, dict[str, str]]:
    """The texts of a node, of an input, of the output."""
    graph = tree["graph_module"]["graph"]
    name = graph["inputs"][0]["as_tensor"]["name"]
    return {
        "linear": graph["nodes"][0]["metadata"],
        name: graph.setdefault("value_metadata", {}).setdefault(name, {}).setdefault("metadata", {}),
        "output": (graph.get("output_metadata") or graph.setdefault("output_metadata", {})).setdefault(
            "metadata", {}
        ),
    }


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_junk_in_the_texts_of_nodes_is_had_or_told_or_refused(key: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS) | st.text(max_size=8))
    place = data.draw(st.sampled_from(["linear", "p_weight", "output"]))

    def change(tree: Tree) -> None:
        texts = _places(tree)[place]
        texts.clear()
        texts[key] = text

    try:
        program, told, report = _loaded(_victim().with_document(change))
    except GraphwireError:
        return
    (node,) = (each for each in program.graph.nodes if each.name == place)
    has = node.meta.get(KEYS[key]) not in (None, {})
    says_nothing = text in ("null", "[]", "{}") or (not text and key in NOTHING)
    named = f"{key.removeprefix('graphwire.meta.')!r}"
    assert has or says_nothing or any(named in each for each in told), (text, node.meta)
    assert len(told) == len(report.dropped)


def test_each_key_is_told_once_and_few_of_many() -> None:
    def change(tree: Tree) -> None:
        for texts in _places(tree).values():
            texts.update({f"key{index}": "x" for index in range(1000)})

    _, told, _ = _loaded(_victim().with_document(change))
    keys = "'key0', 'key1', 'key10', 'key100', 'key101' and 995 more"
    why = "nobody here knows what they say; a program computes the same without"
    assert told == [f"the texts of nodes under {keys} are not loaded: {why}"]


def test_custom_metadata_that_is_no_mapping_is_told() -> None:
    program, told, report = _loaded(
        _victim().with_document(lambda tree: _places(tree)["linear"].update(custom="[1]"))
    )
    assert all("custom" not in node.meta for node in program.graph.nodes)
    assert told == ["the texts of nodes under 'custom' are not loaded: the text is JSON of no mapping"]
    assert [each.what for each in report.dropped] == ["texts of nodes under 'custom'"]


def test_what_is_noted_of_a_node_that_is_not_there_is_told() -> None:
    def change(tree: Tree) -> None:
        _places(tree)
        tree["graph_module"]["graph"]["value_metadata"]["ghost"] = {"metadata": {"custom": '{"a": 1}'}}

    (told,) = _loaded(_victim().with_document(change))[1]
    assert "'value_metadata.ghost'" in told


def test_what_is_said_twice_is_told() -> None:
    def change(tree: Tree) -> None:
        _places(tree)["linear"].update({"torch_fn": "a;b", "graphwire.torch_fn": json.dumps(["c"])})

    (told,) = _loaded(_victim().with_document(change))[1]
    assert "torch_fn" in told


def test_metadata_of_the_module_under_a_key_that_nobody_knows_is_told() -> None:
    data = _victim().with_document(
        lambda tree: tree["graph_module"].setdefault("metadata", {}).update(ghost="x")
    )
    (told,) = _loaded(data)[1]
    assert "'ghost'" in told


@pytest.mark.parametrize(
    "key", ["stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node"]
)
@pytest.mark.parametrize("value", [0, False, [0], 3.5, [[]]], ids=repr)
def test_a_save_refuses_metadata_of_another_type(key: str, value: Any) -> None:
    program = _program()
    for node in program.graph.nodes:
        node.meta[key] = value
    with pytest.raises(GraphwireError):
        graphwire.dumps(program)


def test_a_function_without_a_name_comes_back() -> None:
    program = _program()
    for node in program.graph.nodes:
        node.meta["torch_fn"] = ("",)
    assert {node.meta["torch_fn"] for node in graphwire.loads(graphwire.dumps(program)).graph.nodes} == {
        ("",)
    }
