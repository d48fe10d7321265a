"""A Python range as an argument of a node."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch._ops import HigherOrderOperator

import graphwire
from graphwire.errors import SchemaError, TargetError


class _Take(HigherOrderOperator):
    """Adds the length of its second argument to a tensor."""

    def __init__(self) -> None:
        super().__init__("graphwire_take_ranges")

    def __call__(self, x: torch.Tensor, given: Any, **options: Any) -> Any:
        return super().__call__(x, given, **options)


take = _Take()
take.fallthrough(torch._C.DispatchKey.AutogradCPU)


@take.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)
def _(x: torch.Tensor, given: Any, **options: Any) -> torch.Tensor:
    return x + len(given)


def program(given: Any, **options: Any) -> torch.export.ExportedProgram:
    """A program that an FX pass gave a node with the argument."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin().cos()

    exported = torch.export.export(Model(), (torch.ones(3),))
    (node,) = exported.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    node.target, node.args, node.kwargs = take, (node.args[0], given), options
    exported.graph_module.recompile()
    return exported


RANGES: list[Any] = [
    range(10),
    range(0, 10, 3),
    range(5, -5, -2),
    range(0),
    range(2**70, 2**70 + 2),
    [range(1), range(2, 3)],
    (range(1), "text"),
    {"key": range(3)},
    {range(2): 1},
]


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
@pytest.mark.parametrize("given", RANGES, ids=repr)
def test_a_range_comes_back_as_a_range(given: Any, format: str) -> None:
    data = io.BytesIO()
    graphwire.save(program(given, size=range(1, 4)), data, format=format)
    loaded = graphwire.load(io.BytesIO(data.getvalue()))
    (node,) = loaded.graph.find_nodes(op="call_function", target=take)
    assert repr(node.args[1]) == repr(given)
    assert repr(node.kwargs["size"]) == "range(1, 4)"
    assert torch.equal(loaded.module()(torch.ones(3)), (torch.ones(3) + len(given)).cos())


def test_a_file_with_a_range_requires_the_extension() -> None:
    record, _ = graphwire.to_schema(program(range(3)))
    assert record.requires == ["ranges"]


def test_no_release_of_torch_reads_a_range() -> None:
    with pytest.raises(TargetError, match="a Python range as an argument"):
        graphwire.save(program(range(3)), io.BytesIO(), target="torch")


def test_a_range_without_a_step_is_refused() -> None:
    record, _ = graphwire.to_schema(program(range(0, 10, 3)))
    document = graphwire.encode(record, "json").replace(b'"step":3', b'"step":0')
    with pytest.raises(SchemaError, match="the step of a range must not be 0"):
        graphwire.decode(document)


def test_ranges_of_equal_numbers_that_were_made_otherwise_have_other_hashes() -> None:
    one, other = (graphwire.content_hash(program(each)) for each in (range(0, 10, 3), range(0, 12, 3)))
    assert one != other
