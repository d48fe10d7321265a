"""Programs that call real kernels of Triton come back with them, and say what is missing where they are not. Needs the extra
`triton`, and no GPU: `make test-triton`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernels
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table
from torch.export import Dim, ExportedProgram, export
from torch.library import triton_op, wrap_triton

import graphwire
from graphwire.testing import assert_same_program

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (kernels.double, {"BLOCK": 16}),
    "warps": (kernels.double, {"BLOCK": 16, "num_warps": 8}),
    "tuned": (kernels.tuned, {}),
    "judged": (kernels.judged, {}),
    "cast": (kernels.cast, {"BLOCK": 16, "KIND": tl.float16}),
}
"""Kernels, and what a call gives them beside its tensors."""


@pytest.fixture(autouse=True)
def empty_tables() -> Iterator[None]:
    table.reset_table()
    yield
    table.reset_table()


class Calling(nn.Module):
    def __init__(self, kernel: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.kernel, self.options = kernel, options

    def forward(self, x: Tensor) -> Tensor:
        out, n = torch.empty_like(x), x.numel()
        wrap_triton(self.kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, **self.options)
        return out + 1


def _program(call: str, *, dynamic: bool = False, decomposed: bool = False) -> ExportedProgram:
    shapes = ({0: Dim.DYNAMIC},) if dynamic else None
    program = export(Calling(*CALLS[call]), (torch.randn(30),), dynamic_shapes=shapes)
    return program.run_decompositions() if decomposed else program


def _kernel_of(program: ExportedProgram) -> Any:
    (call,) = (node for node in program.graph.nodes if "kernel_idx" in node.kwargs)
    return table.get_kernel(call.kwargs["kernel_idx"])


@pytest.mark.parametrize("decomposed", [False, True], ids=["mutation", "functional"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_comes_back_with_its_kernel(call: str, decomposed: bool) -> None:
    program = _program(call, decomposed=decomposed)
    for format in ("json", "msgpack", "cbor"):
        data = graphwire.dumps(program, format=format)
        loaded = graphwire.loads(data)
        assert_same_program(loaded, program)
        assert _kernel_of(loaded) is _kernel_of(program)
        assert graphwire.dumps(loaded, format=format) == data
        assert graphwire.verify(data) == []


@pytest.mark.parametrize("call", ["plain", "warps", "tuned", "cast"])
def test_a_grid_of_symbolic_sizes_comes_back(call: str) -> None:
    program = _program(call, dynamic=True)
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert graphwire.dumps(loaded) == data


@pytest.mark.parametrize("call", CALLS)
def test_a_kernel_that_is_there_is_enough_to_have_it_tuned(call: str) -> None:
    data = graphwire.dumps(_program(call))
    table.reset_table()
    kernel = CALLS[call][0]
    while call == "judged" and hasattr(kernel.fn, "fn"):
        kernel = kernel.fn  # the trace has taken the heuristics' answers, and calls the function itself
    table.add_kernel(kernel)
    loaded = graphwire.loads(data)
    found = _kernel_of(loaded)
    assert found.fn is kernel if call in ("warps", "judged") else found is kernel
    if call == "warps":
        assert [config.all_kwargs()["num_warps"] for config in found.configs] == [8]
    if call == "judged":
        assert [config.kwargs for config in found.configs] == [
            {"BLOCK": 16, "LARGE": False},
            {"BLOCK": 64, "LARGE": True},
        ]
    assert graphwire.dumps(loaded) == data


def test_kernels_with_one_source_and_other_configurations_are_told_apart() -> None:
    programs = [_program(call) for call in ("plain", "warps")]
    loaded = [graphwire.loads(graphwire.dumps(program)) for program in programs]
    assert [_kernel_of(each) for each in loaded] == [_kernel_of(each) for each in programs]


WITHOUT = """
import sys
{block}
import graphwire
from graphwire.errors import UnknownOperatorError

data = open({path!r}, "rb").read()
program = graphwire.loads(data)
assert graphwire.dumps(program) == data
assert "kernels" not in sys.modules
try:
    import torch
    program.module()(torch.randn(30))
except UnknownOperatorError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("call", "block"),
    [*((call, "sys.modules['triton'] = None") for call in CALLS), ("warps", "")],
    ids=[*CALLS, "Triton alone"],
)
def test_a_process_without_the_kernel_loads_saves_and_says_what_is_missing(
    call: str, block: str, tmp_path: Path
) -> None:
    path = tmp_path / "program.pt2"
    graphwire.save(_program(call), path)
    script = WITHOUT.format(block=block, path=str(path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name = {"plain": "double", "warps": "double"}.get(call, call)
    assert f"the Triton kernel kernels.{name} is not in this process" in done.stdout


@triton_op("graphwire_triton::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    wrap_triton(kernels.double)[(triton.cdiv(n, 16),)](x, out, n, BLOCK=16)
    return out


@pytest.mark.parametrize("strict", [False, True])
def test_an_operator_made_of_a_kernel_stays_an_operator(strict: bool) -> None:
    class Doubled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return doubled(x) + 1

    program = export(Doubled(), (torch.randn(30),), strict=strict)
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert torch.ops.graphwire_triton.doubled.default in {node.target for node in loaded.graph.nodes}
    assert graphwire.dumps(loaded) == data
