"""Weights and constants against what the graph says of them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import GraphwireWarning, ValidationError


class Model(nn.Module):
    """A parameter, a persistent buffer and one that is not, a sparse buffer, and a lifted constant."""

    persistent: Tensor
    scratch: Tensor
    sparse: Tensor

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.lin = nn.Linear(width, 2)
        self.register_buffer("persistent", torch.ones(2, 2))
        self.register_buffer("scratch", torch.ones(2, 2), persistent=False)
        self.register_buffer("sparse", torch.eye(2).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        held = self.persistent + self.scratch + torch.tensor([[1.0], [2.0]])
        return torch.mm(self.sparse, self.lin(x).t()).t() @ held


def exported(width: int = 3) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about sparse tensors
        return export(Model(width), (torch.ones(4, width),))


@pytest.fixture
def program() -> ExportedProgram:
    return exported()


EDITS: dict[str, tuple[str, Callable[[Tensor], Tensor], str]] = {
    "element type": ("lin.weight", lambda t: nn.Parameter(t.detach().double()), r"float64\[2, 3\].*float32\[2, 3\]"),
    "shape": ("persistent", lambda t: torch.ones(2, 1), r"float32\[2, 1\].*float32\[2, 2\]"),
    "dimensions": ("persistent", lambda t: torch.ones(2), r"float32\[2\].*float32\[2, 2\]"),
    "order in memory": ("persistent", lambda t: torch.ones(2, 2).t(), r"strides \[1, 2\].*\[2, 1\]"),
    "layout": ("persistent", lambda t: torch.ones(2, 2).to_sparse(), r"SparseCoo float32\[2, 2\].*float32"),
    "no layout": ("sparse", lambda t: t.to_dense(), r"float32\[2, 2\].*SparseCoo"),
    "shape of a sparse buffer": ("sparse", lambda t: torch.eye(3).to_sparse(), r"SparseCoo float32\[3, 3\]"),
}  # fmt: skip


@pytest.fixture(params=EDITS)
def edited(request: pytest.FixtureRequest, program: ExportedProgram) -> tuple[ExportedProgram, str, str]:
    """A program whose state dict was edited; the name, and what is told of it."""
    name, edit, told = EDITS[request.param]
    program.state_dict[name] = edit(program.state_dict[name])
    return program, name, told


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
def test_an_edited_program_is_saved_with_a_warning_and_loads_as_it_is(
    edited: tuple[ExportedProgram, str, str],
) -> None:
    program, name, told = edited
    with pytest.warns(GraphwireWarning, match=f"{name}: it is .*{told}"):
        data = graphwire.dumps(program)
    assert graphwire.verify(data) == []
    for options in ({}, {"copy": True}, {"weights": None}):
        loaded = graphwire.loads(data, **options)
        assert loaded.state_dict[name].dtype == program.state_dict[name].dtype
        assert loaded.state_dict[name].shape == program.state_dict[name].shape
        assert loaded.state_dict[name].layout == program.state_dict[name].layout
    again = graphwire.loads(data)
    with pytest.warns(GraphwireWarning, match=f"{name}: it is .*{told}"):
        assert graphwire.dumps(again) == data


def test_the_same_weights_in_a_file_that_does_not_say_so_are_refused(
    edited: tuple[ExportedProgram, str, str],
) -> None:
    program, name, told = edited
    with pytest.warns(GraphwireWarning, match="differ from what the graph says"):
        record, payloads = graphwire.to_schema(program)
    assert record.edited_values == [name]
    record.edited_values = []
    with pytest.raises(ValidationError, match=f"payloads\\['{name}'\\]: it is .*{told}.*mismatch"):
        graphwire.from_schema(record, payloads)


@pytest.mark.parametrize("target", ["torch", "torch-2.6"])
def test_what_torch_writes_notes_no_edits_so_it_is_a_warning(target: str) -> None:
    program = export(nn.Linear(3, 2), (torch.ones(4, 3),))
    program.state_dict["weight"] = nn.Parameter(program.state_dict["weight"].detach().half())
    told = r"weight: it is float16\[2, 3\], but the graph states float32"
    if target == "torch":
        stream = io.BytesIO()
        torch.export.save(program, stream)
        data = stream.getvalue()
    else:
        with pytest.warns(GraphwireWarning, match=told):
            data = graphwire.dumps(program, target=target)
    with pytest.warns(GraphwireWarning, match=told):
        loaded = graphwire.loads(data)
    assert torch.equal(loaded.state_dict["weight"], program.state_dict["weight"])
    assert [problem.kind for problem in graphwire.verify(data)] == ["edited"]


def test_weights_of_another_model_are_refused_all_at_once(program: ExportedProgram) -> None:
    record, _ = graphwire.to_schema(program)
    _, others = graphwire.to_schema(exported(width=5))
    with pytest.raises(ValidationError) as caught:
        graphwire.from_schema(record, others)
    assert [problem.place for problem in caught.value.problems] == ["payloads['lin.weight']"]
    _, few = graphwire.to_schema(export(nn.Linear(3, 2), (torch.ones(4, 3),)))
    with pytest.raises(ValidationError) as caught:
        graphwire.from_schema(record, few)
    assert {problem.kind for problem in caught.value.problems} == {"missing-payload"}
    assert len(caught.value.problems) == 7


def test_what_is_compared_is_what_computes_the_same(program: ExportedProgram) -> None:
    """Not where a tensor lies in its storage, nor the stride of a dimension of one element, nor whether it has a gradient."""
    state: dict[str, Any] = program.state_dict
    state["persistent"] = torch.ones(3, 2)[1:]
    state["lin.bias"].requires_grad_(False)
    record, payloads = graphwire.to_schema(program)
    assert record.edited_values == []
    graphwire.from_schema(record, payloads)
