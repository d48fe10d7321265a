"""Sparse tensors as weights, constants and example inputs of a program."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.export import export

import graphwire
from graphwire.errors import DecodeError
from graphwire.testing import assert_same_program, assert_same_values
from graphwire_plugins.constants import SparseTensors

DENSE = torch.tensor([[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 3.0, 0.0], [0.0] * 4, [0.0, 4.0, 0.0, 0.0]])


@pytest.fixture(autouse=True, scope="module")
def _beta() -> None:
    """torch says once a process that compressed tensors are in beta."""
    with warnings.catch_warnings(action="ignore"):
        DENSE.to_sparse_csr()


TENSORS = {
    "coo": lambda: DENSE.to_sparse(),
    "coo with repeated indices": lambda: torch.sparse_coo_tensor(
        [[0, 0], [1, 1]], [1.0, 2.0], (4, 4), check_invariants=True
    ),
    "coo without elements": lambda: torch.sparse_coo_tensor(size=(4, 4), check_invariants=True),
    "coo with a dense dimension": lambda: DENSE.to_sparse(1),
    "csr": lambda: DENSE.to_sparse_csr(),
    "csr in batches": lambda: torch.stack([DENSE, DENSE]).to_sparse_csr(),
    "csr with 32-bit indices": lambda: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 1], dtype=torch.int32),
        torch.tensor([1], dtype=torch.int32),
        [2.0],
        (2, 4),
        check_invariants=True,
    ),
    "csc": lambda: DENSE.to_sparse_csc(),
    "bsr": lambda: DENSE.to_sparse_bsr((2, 2)),
    "bsc": lambda: DENSE.to_sparse_bsc((2, 2)),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_sparse_input_and_example_input_come_back(name: str, format: str) -> None:
    class Densified(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to_dense() + 1

    tensor = TENSORS[name]()
    program = export(Densified(), (tensor,))
    data = graphwire.dumps(program, format=format)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert_same_values(loaded.module()(tensor), program.module()(tensor))
    assert graphwire.dumps(loaded, format=format) == data


def test_sparse_parameters_buffers_and_constants_come_back() -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(DENSE.to_sparse())
            self.frozen = torch.nn.Parameter(DENSE.to_sparse(), requires_grad=False)
            self.register_buffer("buffer", DENSE.to_sparse(1))
            self.register_buffer("passing", DENSE.to_sparse(), persistent=False)
            self.constant = DENSE.to_sparse() * 2

        def forward(self, x: torch.Tensor) -> Any:
            kept = self.weight @ x + self.frozen @ x + self.buffer.to_dense()
            return kept + self.passing.to_dense() + torch.sparse.mm(self.constant, x)

    x = torch.randn(4, 4)
    program = export(Holder(), (x,))
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert_same_values(loaded.module()(x), program.module()(x))
    assert loaded.state_dict["weight"].requires_grad
    assert isinstance(loaded.state_dict["frozen"], torch.nn.Parameter)
    assert graphwire.dumps(loaded) == data
    with graphwire.open(data) as archive:
        assert archive.program.requires == ["codecs"]


@pytest.mark.parametrize(
    ("changes", "indices"),
    [
        ({"layout": "strided"}, None),
        ({"layout": "sparse_csr"}, None),
        ({"layout": "__class__"}, None),
        ({"sizes": "4"}, None),
        ({"sizes": [2, 2]}, None),
        ({"coalesced": 1}, None),
        ({"parameter": None}, None),
        ({}, torch.tensor([[0], [9]])),
        ({}, torch.tensor([[0], [-1]])),
    ],
)
def test_a_tree_that_describes_no_tensor_is_refused(changes: dict[str, Any], indices: Any) -> None:
    codec = SparseTensors()
    tree, tensors = codec.encode(torch.sparse_coo_tensor([[3], [3]], [1.0], (4, 4), check_invariants=True))
    assert isinstance(tree, dict)
    parts = tensors if indices is None else [indices, tensors[1]]
    with pytest.raises(DecodeError, match=r"sparse|layout"):
        codec.decode({**tree, **changes}, parts)


def test_a_plain_tensor_is_none_of_the_codec() -> None:
    assert not SparseTensors().owns(DENSE)
    assert not SparseTensors().owns(None)
