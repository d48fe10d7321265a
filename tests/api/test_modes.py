"""Modes of torch that are on while a program is saved or loaded change nothing of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

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
def _set(function: Callable[[Any], object], value: Any, before: Any) -> Iterator[None]:
    function(value)
    try:
        yield
    finally:
        function(before)


def _unwanted(*_: Any) -> Any:
    raise RuntimeError("a save or a load records gradients")


MODES: dict[str, Callable[[], Any]] = {
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "fake tensors": FakeTensorMode,
    "a mode of one's own": _Zeros,
    "a mode of functions": _ZerosOfFunctions,
    "a default device": lambda: torch.device("meta"),
    "the default device": lambda: _set(torch.set_default_device, "meta", None),
    "a default type": lambda: _set(torch.set_default_dtype, torch.float64, torch.float32),
    "a default class": lambda: _set(torch.set_default_tensor_type, torch.HalfTensor, torch.FloatTensor),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "deterministic": lambda: _set(torch.use_deterministic_algorithms, True, False),
    "anomalies": torch.autograd.detect_anomaly,
    "a profiler": torch.autograd.profiler.profile,
    "forward gradients": torch.autograd.forward_ad.dual_level,
    "saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(_unwanted, _unwanted),
    "counted": lambda: FlopCounterMode(display=False),
    "functional tensors": FunctionalTensorMode,
    "checked sparse tensors": lambda: torch.sparse.check_sparse_tensor_invariants(True),
    "no torch functions": torch._C.DisableTorchFunction,
    "swapped parameters": lambda: _set(torch.__future__.set_swap_module_params_on_conversion, True, False),
    "annotated": lambda: torch.fx.traceback.annotate({"mode": 1}),
}


IGNORED = "ignore:Anomaly Detection", "ignore:torch.set_default_tensor_type", "ignore:ComplexHalf"


def every_type() -> dict[str, torch.Tensor]:
    """A tensor of each type of elements that torch makes from bytes."""
    found = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    return {
        str(dtype).rpartition(".")[2]: torch.zeros(64, dtype=torch.uint8).view(dtype)
        for dtype in found
        if "q" not in str(dtype)
    }


@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("name", MODES)
def test_a_mode_that_is_on_changes_nothing(name: str) -> None:
    mode, x = MODES[name], torch.ones(2, 4)
    dynamic = {"input": {0: torch.export.Dim("rows")}}
    program = torch.export.export(torch.nn.Linear(4, 3), (x,), dynamic_shapes=dynamic)
    expected = program.module()(x)
    for held in (program.state_dict, program.constants):
        held.update({f"{key}_{len(held)}": value for key, value in every_type().items()})
    data = graphwire.dumps(program)
    with mode():
        assert graphwire.dumps(program) == data
        loaded, module = graphwire.loads(data), graphwire.load_module(data)
        graphwire.loads(data, weights=None)
        assert graphwire.dumps(loaded) == data
    for held, read in ((program.state_dict, loaded.state_dict), (program.constants, loaded.constants)):
        for key, value in held.items():
            facts = [(type(t), t.dtype, t.shape, t.device, t.requires_grad) for t in (value, read[key])]
            assert facts[0] == facts[1], key
            assert torch.equal(*(t.detach().view(torch.uint8) for t in (value, read[key]))), key
    for each in (loaded.module(), module):
        result = each(x)
        assert torch.equal(result, expected)
        result.sum().backward()
        assert all(weight.grad is not None for weight in each.parameters())


class _Refuses(TorchFunctionMode):
    """A mode that answers nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} is called")


class _RefusesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} is called")


class Odd(torch.nn.Module):
    """A save asks torch more about what lies oddly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(24.0).reshape(4, 6)[::2, 1:].t())
        self.register_buffer("conjugated", torch.ones(3, dtype=torch.complex64).conj())
        self.register_buffer("sparse", torch.eye(2).to_sparse())
        self.register_buffer("rows", torch.eye(2).to_sparse_csr())
        self.register_buffer("expanded", torch.ones(1, 2).expand(5, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", *IGNORED)
@pytest.mark.parametrize(
    "mode", [*MODES.values(), _Refuses, _RefusesOperators], ids=[*MODES, "refuses", "operators"]
)
def test_a_mode_is_asked_nothing_whatever_a_program_has(mode: Callable[[], Any]) -> None:
    program = torch.export.export(Odd(), (torch.ones(1, 5),))
    data = graphwire.dumps(program)
    with mode():
        assert graphwire.dumps(program) == data
        record, payloads = graphwire.to_schema(program)
        assert graphwire.dumps(graphwire.from_schema(record, payloads)) == data
        assert graphwire.content_hash(program) == graphwire.content_hash(data)
        assert graphwire.dumps(graphwire.loads(data)) == data
        graphwire.load_module(data)


FIRST = """
import sys, torch, graphwire
class Refuses(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} is called")
program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
with Refuses():
    data = graphwire.dumps(program)
    getattr(graphwire, sys.argv[1])(data)
"""


@pytest.mark.parametrize("load", ["loads", pytest.param("load_module", marks=pytest.mark.slow)])
def test_a_mode_is_asked_nothing_at_the_first_call_of_a_process(load: str) -> None:
    """The modules that a first call imports call torch, too."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST, load], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


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
