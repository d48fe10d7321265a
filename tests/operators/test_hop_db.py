"""Every higher-order operator that exports round-trips: those in torch's database of them; `tests/constructs` has others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from higher_order import (
    MODES,
    TRIED_MODES,
    database_programs,
    formats_of,
)
from small_programs import module_of
from torch.export import Dim, export

DOES_NOT_EXPORT = {
    **{("invoke_quant.simple", mode): "torch leaves the node without `val`" for mode in MODES},
    **{("local_map_hop.simple", mode): "needs a program of torch.distributed" for mode in MODES},
    ("register_hook.simple", "strict"): "dynamo does not trace it",
    **{
        (
            f"flex_attention_backward.{variant}",
            mode,
        ): "tracing calls a joint graph, which is None in the sample"
        for variant in ("simple", "explicit_buffers")
        for mode in ("nonstrict", "decomposed")
    },
}
"""What `torch.export.export` itself refuses, and why. A program that it takes must leave this table."""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("mode", TRIED_MODES)
def test_every_operator_in_the_database_that_exports_round_trips(
    mode: str,
    assert_round_trips: Callable[..., bool],
    torch_may_warn: Callable[[], warnings.catch_warnings[None]],
) -> None:
    wrong = []
    for index, (name, make) in enumerate(database_programs(mode)):
        with torch_may_warn():
            try:
                program, (args, _) = make()
            except Exception as error:
                if (name, mode) not in DOES_NOT_EXPORT:
                    wrong.append(f"{name} does not export: {error}")
                continue
        if (name, mode) in DOES_NOT_EXPORT:
            wrong.append(f"{name} exports")
        for format in formats_of(index + MODES.index(mode)):
            try:
                assert_round_trips(program, args, {}, format)
            except Exception as error:
                wrong.append(f"{name} in {format}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_subgraph_takes_symbolic_integers_and_floats(assert_round_trips: Callable[..., bool]) -> None:
    from torch._higher_order_ops.invoke_subgraph import mark_compile_region

    @mark_compile_region
    def scaled(x: torch.Tensor, n: Any, half: Any) -> torch.Tensor:
        return x * n + half

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scaled(x, x.shape[0], x.shape[0] / 2)

    dynamic = {"x": {0: Dim("rows", min=2)}}
    program = export(Scaled(), (torch.randn(6, 2),), dynamic_shapes=dynamic, strict=True)
    assert not assert_round_trips(program, (torch.randn(7, 2),), {})


def test_a_derivative_that_is_taken_forward_computes_the_same(
    assert_round_trips: Callable[..., bool], torch_may_warn: Callable[[], warnings.catch_warnings[None]]
) -> None:
    x = torch.ones(3)
    with torch_may_warn():
        program = export(module_of(lambda x: torch.func.jvp(torch.sin, (x,), (x,))), (x,))
    assert_round_trips(program, (x,), {})


def test_a_graph_of_constants_reads_tensors_of_its_own(assert_round_trips: Callable[..., bool]) -> None:
    program = export(module_of(lambda x: x + 1), (torch.zeros(4),))
    (placeholder,) = program.graph.find_nodes(op="placeholder")
    (add,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    owner = torch.nn.Module()
    owner.register_buffer("buffer", torch.arange(4.0))
    owner.layer = torch.nn.Linear(2, 4)
    inner = torch.fx.Graph()
    operands = [inner.get_attr("buffer"), inner.get_attr("layer.bias")]
    total = inner.call_function(torch.ops.aten.add.Tensor, tuple(operands))
    mode = placeholder.meta["val"].fake_mode
    for node, value in zip((*operands, total), (owner.buffer, owner.layer.bias, owner.buffer), strict=True):
        node.meta["val"] = mode.from_tensor(value, static_shapes=True)
    inner.output((total,))
    program.graph_module.register_module("constants_0", torch.fx.GraphModule(owner, inner))
    with program.graph.inserting_before(add):
        read = program.graph.get_attr("constants_0")
        run = program.graph.call_function(torch.ops.higher_order.run_const_graph, (read, ()))
        run.meta = {**add.meta, "val": (total.meta["val"],)}
    program.graph_module.recompile()
    program.validate()
    # Only a compiler runs it, so what is compared is the program, and how it fails to run.
    assert not assert_round_trips(program, (torch.zeros(4),), {})
