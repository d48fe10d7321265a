"""Calls of Triton kernels are kept by what the kernel is, not by its place in a table of the process that saved them."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import triton_kernel_wrap
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import EncodeError, UnknownOperatorError
from graphwire.testing import assert_same_program


class Kernel:
    """What torch's table holds of a kernel, where Triton is not installed: a function and its source."""

    def __init__(self, source: str) -> None:
        self.fn, self.src = double, source


def double(pointer: Any, count: Any) -> None:
    """Stands for the Python function of a kernel."""


@pytest.fixture(autouse=True)
def empty_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("id_to_kernel", "kernel_to_id", "constant_args"):
        monkeypatch.setattr(table, name, {}, raising=False)


class _Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


def _calling(wrapper: str, kernel: Any) -> ExportedProgram:
    program = export(_Sine(), (torch.ones(4),))
    (sine,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    launch = {
        "kernel_idx": table.add_kernel(kernel),
        "constant_args_idx": table.add_constant_args({"BLOCK": 16, "kind": torch.float16, "none": None}),
        "grid": [(1, 2, 3), (4, 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"pointer": sine.args[0], "count": 4},
    }
    if wrapper == "functional":
        launch["tensors_to_clone"] = ["pointer"]
    with program.graph.inserting_before(sine):
        target = getattr(triton_kernel_wrap, f"triton_kernel_wrapper_{wrapper}")
        call = program.graph.call_function(target, (), launch)
    call.meta = {**sine.meta, "val": {"pointer": sine.meta["val"]} if wrapper == "functional" else None}
    program.graph_module.recompile()
    return program


@pytest.mark.parametrize("wrapper", ["functional", "mutation"])
def test_a_call_comes_back_with_its_kernel_and_constants(wrapper: str) -> None:
    program = _calling(wrapper, Kernel("def double(): ..."))
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert graphwire.dumps(loaded) == data


def test_another_process_does_not_take_the_kernel_that_stands_in_its_place() -> None:
    data = graphwire.dumps(_calling("functional", Kernel("def double(): ...")))
    table.id_to_kernel.clear(), table.kernel_to_id.clear(), table.constant_args.clear()
    table.add_kernel(Kernel("def double(): another"))
    loaded = graphwire.loads(data)
    call = next(node for node in loaded.graph.nodes if "kernel_idx" in node.kwargs)
    kernel = table.get_kernel(call.kwargs["kernel_idx"])
    assert (kernel.name, kernel.source) == ("double", "def double(): ...")
    assert table.get_constant_args(call.kwargs["constant_args_idx"])["BLOCK"] == 16
    assert graphwire.dumps(loaded) == data
    with pytest.raises(UnknownOperatorError, match=r"double is not in this process"):
        kernel.run(torch.ones(4), grid=(1,))


class Tuner:
    """What torch's table holds of a kernel with configurations to try."""

    def __init__(self, kernel: Kernel, **options: Any) -> None:
        self.fn, self.keys, self.reset_to_zero, self.restore_value = kernel, ["count"], [], []
        self.configs = [types.SimpleNamespace(kwargs={"BLOCK": 16}, maxnreg=None, **options)]


def test_kernels_of_one_function_are_told_apart_by_what_tunes_them() -> None:
    kernel = Kernel("def double(): ...")
    for each in (kernel, Tuner(kernel, num_warps=4), Tuner(kernel, num_warps=8)):
        program = _calling("functional", each)
        data = graphwire.dumps(program)
        loaded = graphwire.loads(data)
        assert_same_program(loaded, program)
        assert graphwire.dumps(loaded) == data


def test_what_tunes_a_kernel_is_kept_where_the_kernel_is_not() -> None:
    data = graphwire.dumps(_calling("functional", Tuner(Kernel("def double(): ..."), num_warps=8)))
    table.id_to_kernel.clear(), table.kernel_to_id.clear()
    loaded = graphwire.loads(data)
    call = next(node for node in loaded.graph.nodes if "kernel_idx" in node.kwargs)
    kernel = table.get_kernel(call.kwargs["kernel_idx"])
    assert kernel.tuning == [{"configs": [{"kwargs": {"BLOCK": 16}, "num_warps": 8}], "key": ["count"]}]
    assert graphwire.dumps(loaded) == data


def test_a_kernel_that_torch_does_not_know_is_refused() -> None:
    program = _calling("functional", Kernel(""))
    table.id_to_kernel.clear()
    with pytest.raises(EncodeError, match="no Triton kernel"):
        graphwire.dumps(program)
