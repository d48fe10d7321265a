"""Records that lend the memory of a program's tensors, and the values of nodes that no record states."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export
from torch.testing import assert_close

import graphwire
from graphwire.errors import GraphwireWarning


def linear() -> ExportedProgram:
    return export(nn.Linear(3, 2), (torch.ones(1, 3),))


def test_a_record_lends_its_memory_any_number_of_times() -> None:
    _, payloads = graphwire.to_schema(linear())
    for record in payloads.records.values():
        with record.view() as view:
            first = bytes(view)
        assert bytes(record.view()) == first
        assert len(first) == record.nbytes
    copied = copy.deepcopy(payloads)
    assert {n: bytes(r.view()) for n, r in copied.records.items()} == {
        n: bytes(r.view()) for n, r in payloads.records.items()
    }


def test_a_record_follows_a_tensor_that_is_moved() -> None:
    program = linear()
    record, payloads = graphwire.to_schema(program)
    expected = {name: tensor.detach().clone() for name, tensor in program.state_dict.items()}
    graphwire.from_schema(record, payloads)
    for tensor in program.state_dict.values():
        tensor.data.share_memory_()
    assert_close({**graphwire.from_schema(record, payloads).state_dict}, expected, check_dtype=True)


def test_a_value_that_is_not_saved_requires_nothing() -> None:
    """An attribute that a node reads and nothing uses."""
    program = linear()
    module = program.graph_module
    module.register_buffer("unused", torch.ones(2))
    made = next(node for node in module.graph.nodes if node.op == "call_function")
    with module.graph.inserting_before(made):
        reader = module.graph.get_attr("unused")
    with made.meta["val"].fake_mode:
        reader.meta["val"] = torch.empty(4, dtype=torch.uint4)
    with pytest.warns(GraphwireWarning, match="nothing uses"):
        record, _ = graphwire.to_schema(program)
    assert record.requires == []
