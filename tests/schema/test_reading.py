"""Equal metas of a program's values become one record, however the program is read."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import pytest
import torch
from inside.schema import ProgramDecoder, from_tree, to_tree
from torch.export import export

import graphwire
from graphwire.errors import SchemaError
from graphwire.schema import Graph, GraphModule, Program

_DECODERS = {each: ProgramDecoder(each) for each in (msgspec.json, msgspec.msgpack)}


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a, b: (a + b).relu(), lambda a, b: (a - b).relu(), (x, y))


@pytest.fixture(scope="module")
def program() -> Program:
    return graphwire.to_schema(export(_Model(), (torch.rand(3), torch.rand(3))))[0]


def _metas(program: Program) -> dict[str, int]:
    return {name: id(meta) for name, meta in program.graph_module.graph.tensor_values.items()}


@pytest.mark.parametrize("protocol", _DECODERS)
def test_a_document_is_read_as_the_records_that_it_was_written_from(
    program: Program, protocol: ModuleType
) -> None:
    read = _DECODERS[protocol].decode(protocol.encode(program))
    assert read == program
    assert (type(read), type(read.graph_module), type(read.graph_module.graph)) == (
        Program,
        GraphModule,
        Graph,
    )


@pytest.mark.parametrize("protocol", _DECODERS)
def test_equal_metas_of_a_document_are_one_record(program: Program, protocol: ModuleType) -> None:
    metas = _metas(_DECODERS[protocol].decode(protocol.encode(program)))
    assert metas["x"] == metas["y"] != metas["sum_1"]


def test_equal_metas_of_a_tree_are_one_record(program: Program) -> None:
    read = from_tree(to_tree(program), Program)
    assert read == program
    metas = _metas(read)
    assert metas["x"] == metas["y"] != metas["sum_1"]


@pytest.mark.parametrize("protocol", _DECODERS)
def test_a_meta_of_another_shape_is_no_record(program: Program, protocol: ModuleType) -> None:
    tree = to_tree(program)
    values = tree["graph_module"]["graph"]["tensor_values"]
    values["y"] = {**values["y"], "sizes": "three"}
    with pytest.raises(msgspec.ValidationError):
        _DECODERS[protocol].decode(protocol.encode(tree))


@pytest.mark.parametrize(
    ("name", "change", "place"),
    [
        ("y", {"sizes": "three"}, "graph_module.graph.tensor_values[...].sizes"),
        ("y", {"dtype": 2**70}, "graph_module.graph.tensor_values[...].dtype"),
        (3, {}, ""),
        ("y", {"layout": object()}, "graph_module.graph.tensor_values[...].layout"),
    ],
)
def test_the_place_of_a_fault_in_a_tree_is_told(
    program: Program, name: Any, change: dict[str, Any], place: str
) -> None:
    tree = to_tree(program)
    values = tree["graph_module"]["graph"]["tensor_values"]
    values[name] = {**values["y"], **change}
    with pytest.raises(SchemaError) as caught:
        from_tree(tree, Program)
    assert place in caught.value.place


@pytest.mark.parametrize("tree", [[], "text", {"graph_module": []}, {"graph_module": {"graph": {}}}, None])
def test_what_is_no_program_is_told(tree: Any) -> None:
    with pytest.raises(SchemaError):
        from_tree(tree, Program)
