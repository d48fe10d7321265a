"""Modes of torch that are on while a program is saved or loaded change nothing of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import graphwire


class _Zeros(TorchDispatchMode):
    """A mode that falsifies every result."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if isinstance(result, torch.Tensor) else result


class _ZerosOfFunctions(TorchFunctionMode):
    """The same of functions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if isinstance(result, torch.Tensor) else result


@contextlib.contextmanager
def _default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES: dict[str, Callable[[], Any]] = {
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "fake tensors": FakeTensorMode,
    "a mode of one's own": _Zeros,
    "a mode of functions": _ZerosOfFunctions,
    "a default device": lambda: torch.device("meta"),
    "a default type": _default_dtype,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@pytest.mark.parametrize("name", MODES)
def test_a_mode_that_is_on_changes_nothing(name: str) -> None:
    mode, x = MODES[name], torch.ones(2, 4)
    dynamic = {"input": {0: torch.export.Dim("rows")}}
    program = torch.export.export(torch.nn.Linear(4, 3), (x,), dynamic_shapes=dynamic)
    data, expected = graphwire.dumps(program), program.module()(x)
    with mode():
        assert graphwire.dumps(program) == data
        loaded, module = graphwire.loads(data), graphwire.load_module(data)
    for each in (loaded.module(), module):
        result = each(x)
        assert torch.equal(result, expected)
        result.sum().backward()
        assert all(weight.grad is not None for weight in each.parameters())


def test_a_program_loads_while_another_is_traced() -> None:
    data = graphwire.dumps(torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),)))

    class Loading(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights.append(graphwire.loads(data).state_dict["weight"])
            return x + 1

    weights: list[torch.Tensor] = []
    torch.export.export(Loading(), (torch.ones(2),), strict=False)
    assert torch.equal(weights[0], graphwire.loads(data).state_dict["weight"])


def test_the_names_of_no_parameters_are_no_unknown_names() -> None:
    class Nothing(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.ones(2)

    program = torch.export.export(Nothing(), ())
    (entry,) = program.module_call_graph
    assert entry.signature is not None
    for names in ([], None):
        entry.signature.forward_arg_names = names
        loaded = graphwire.loads(graphwire.dumps(program)).module_call_graph[0].signature
        assert loaded is not None
        assert loaded.forward_arg_names == names
