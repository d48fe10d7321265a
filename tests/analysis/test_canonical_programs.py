"""The canonical form of real programs: it runs, and it is the same whoever exported and wrote them."""

from __future__ import annotations

import copy
import functools
import io
from typing import Any

import pytest
import torch
from inside.analysis import validate
from inside.schema import to_tree
from nightly import one_in
from programs import Example
from small_programs import SMALL_PROGRAMS, shared_example, unused_example
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import graphwire
from graphwire.schema import Program

MAKERS = [*SMALL_PROGRAMS, "structured", "convnet", "decoder"]


@functools.cache
def _data(name: str) -> bytes:
    return graphwire.dumps(shared_example(name).program)


def _results(program: Any, example: Example) -> list[Any]:
    """What each call returns, and what it does to its arguments and to buffers."""
    module, found = program.module(), []
    with torch.no_grad():
        for call in example.calls:
            args, kwargs = copy.deepcopy((call.args, call.kwargs))
            torch.manual_seed(0)
            found.append(copy.deepcopy((module(*args, **kwargs), args, kwargs)))
    return [*found, dict(sorted(module.named_buffers()))]


@pytest.mark.parametrize("name", one_in(4, MAKERS))
def test_the_canonical_program_is_valid_and_computes_the_same(name) -> None:
    with graphwire.open(_data(name)) as archive:
        canonical = graphwire.canonicalize(archive)
        assert validate(canonical) == []
        assert to_tree(graphwire.canonicalize(canonical)) == to_tree(canonical)
        loaded = graphwire.from_schema(canonical, archive.payloads_of("model", copied=True))
    actual, expected = (
        pytree.tree_leaves(_results(each, shared_example(name)))
        for each in (loaded, graphwire.loads(_data(name), copy=True))
    )
    for one, other in zip(actual, expected, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        else:
            assert one == other


@pytest.mark.parametrize("name", one_in(2, MAKERS))
def test_the_hash_is_that_of_every_format_and_of_what_torch_writes(name) -> None:
    program = unused_example(name).program
    expected = graphwire.content_hash(program, weights=True)
    for format in ("msgpack", "cbor"):
        assert graphwire.content_hash(graphwire.dumps(program, format=format), weights=True) == expected
    again = graphwire.loads(_data(name))
    assert graphwire.content_hash(again, weights=True) == expected
    stream = io.BytesIO()
    try:
        torch.export.save(program, stream)
    except Exception as error:
        pytest.skip(f"torch cannot write it: {error}")
    try:
        written = graphwire.content_hash(stream.getvalue(), weights=True)
    except graphwire.errors.GraphwireError as error:
        pytest.skip(f"what torch writes cannot be read: {error}")
    if _is_said_by_torch(graphwire.to_schema(program)[0]):
        assert written == expected


@pytest.mark.parametrize("count", range(1, 4))
def test_weights_without_elements_have_one_hash_in_memory_and_in_what_torch_writes(count) -> None:
    model = torch.nn.Linear(2, 2)
    for index in range(count):
        model.register_parameter(f"none_{index}", torch.nn.Parameter(torch.empty(0, index)))
        model.register_buffer(f"nothing_{index}", torch.empty(index, 0, dtype=torch.int64))
    program = torch.export.export(model, (torch.ones(1, 2),), strict=False)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    files = [stream.getvalue(), graphwire.dumps(program), graphwire.dumps(graphwire.loads(stream.getvalue()))]
    hashes = {graphwire.content_hash(each, weights=True) for each in (program, *files)}
    assert len(hashes) == 1


def _is_said_by_torch(record: Program) -> bool:
    """Whether torch's schema describes the program, and each value in it, completely."""
    values = record.graph_module.graph.tensor_values.values()
    return set(record.requires) <= {"outputs"} and all(value.sparse is None for value in values)


# ------------------------------------------------------------------------------------------- one model, many ways


class Net(nn.Module):
    """A model whose parts are registered in any order and that computes in variants."""

    PARTS = ("first", "second", "scale", "count", "norm")

    def __init__(self, order: tuple[str, ...] = PARTS, **variant: Any) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.variant = {"slope": 0.1, "gain": 2, "swap": False, "extra": False, "twice": False, **variant}
        values = {name: torch.randn(4, 4, generator=generator) for name in ("first", "second", "scale")}
        for name in order:
            if name == "count":
                self.register_buffer("count", torch.zeros(1))
            elif name == "norm":
                self.norm = nn.LayerNorm(4)
            else:
                self.register_parameter(name, nn.Parameter(values[name]))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.count.add_(1)
        left = nn.functional.leaky_relu(x @ self.first, self.variant["slope"])
        right = torch.sin(y @ self.second) * self.variant["gain"]
        if self.variant["extra"]:
            right = right.abs()
        total = self.norm((left + right) * self.scale[0]).sum(0)
        drawn = torch.rand(4) if not self.variant["twice"] else torch.rand(4) + torch.rand(4)
        return (total, drawn) if not self.variant["swap"] else (drawn, total)


def _export(model: nn.Module, *, low: int = 2, high: int = 16, dtype: torch.dtype = torch.float32) -> Any:
    rows = Dim("rows", min=low, max=high)
    args = torch.ones(3, 4, dtype=dtype), torch.ones(3, 4, dtype=dtype)
    return torch.export.export(model.to(dtype), args, dynamic_shapes=({0: rows}, {0: rows}))


@functools.cache
def _base(decomposed: bool) -> Any:
    program = _export(Net())
    return program.run_decompositions() if decomposed else program


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("order", [Net.PARTS[::-1], ("norm", "count", "second", "first", "scale")])
def test_the_order_of_registration_has_no_meaning(order, decomposed) -> None:
    program = _export(Net(order))
    program = program.run_decompositions() if decomposed else program
    assert [*program.graph_signature.inputs_to_parameters] != [
        *_base(decomposed).graph_signature.inputs_to_parameters
    ]
    expected = graphwire.content_hash(_base(decomposed), weights=True)
    assert graphwire.content_hash(program, weights=True) == expected
    assert graphwire.diff(program, _base(decomposed), weights=True).same


def test_weights_count_only_when_asked() -> None:
    other = Net()
    with torch.no_grad():
        other.scale[0, 0] += 1
    program = _export(other)
    assert graphwire.content_hash(program) == graphwire.content_hash(_base(False))
    assert graphwire.content_hash(program, weights=True) != graphwire.content_hash(_base(False), weights=True)
    assert graphwire.diff(program, _base(False)).same
    found = graphwire.diff(program, _base(False), weights=True)
    assert [(change.section, change.name, change.details[0].what) for change in found.changes] == [
        ("weight", "scale", "elements")
    ]


def test_records_have_no_weights_to_compare() -> None:
    record, _ = graphwire.to_schema(_base(False))
    assert graphwire.content_hash(record) == graphwire.content_hash(_base(False))
    with pytest.raises(graphwire.errors.EncodeError, match="no weights"):
        graphwire.content_hash(record, weights=True)
