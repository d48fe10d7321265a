"""The module stacks of nodes: what torch's text says, what it cannot say, and what is none."""

from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire
from graphwire import errors


class _Add(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def with_stack(stack: dict[Any, Any]) -> ExportedProgram:
    program = export(_Add(), (torch.ones(2),))
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta["nn_module_stack"] = stack
    return program


def stack_of(program: ExportedProgram) -> Any:
    return next(n.meta["nn_module_stack"] for n in program.graph.nodes if n.op == "call_function")


@pytest.mark.parametrize(
    "stack",
    [
        {"a": ("", "T"), "b": ("x.y", "T")},
        {"L['self']": ("x", "T"), "b[0, 1](;)": ("y", "T")},
        {"a": ("x[1, 2]", "T")},
        {"a": ("x,y", "T"), "b": ("x", "T")},
        {"a": ("x", "T"), "b;c": ("x", "T")},
        {"a[": ("x", "T]")},
        {"a": ("(", "T,)")},
        {"": ("", "")},
    ],
)
def test_a_stack_comes_back_as_it_was(stack: dict[str, Any]) -> None:
    assert stack_of(graphwire.loads(graphwire.dumps(with_stack(stack)))) == stack


@pytest.mark.parametrize(
    "stack",
    [
        {"a": ("x", "T"), "b": (None, "T")},
        {"a;b": ("x", "T"), "c": (None, "T")},
        {"a": (["x"], "T")},
        {"a;b": ("x", "T"), "c": (["x"], "T")},
        {1: (b"x", "T")},
    ],
)
def test_what_is_no_path_is_refused_by_name_when_it_is_saved(stack: dict[Any, Any]) -> None:
    with pytest.raises(errors.EncodeError, match=r"graph\.add.*module stack has.*qualified name"):
        graphwire.dumps(with_stack(stack))
