"""Every higher-order operator that exports round-trips: those in torch's database of them, and the others by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

MODES = ("strict", "nonstrict", "decomposed")

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


class _Call(torch.nn.Module):
    """A call of an operator, some of whose arguments are fixed."""

    def __init__(self, operator: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.operator = operator
        self.fixed_args = args
        self.fixed_kwargs = kwargs

    def forward(self, *args: Any) -> Any:
        given = iter(args)
        positional = [next(given) if each is _GIVEN else each for each in self.fixed_args]
        return self.operator(*positional, **self.fixed_kwargs)


_GIVEN = object()


def _exported(module: torch.nn.Module, args: tuple[Any, ...], mode: str) -> ExportedProgram:
    torch._dynamo.reset()
    program = export(module, args, strict=mode == "strict")
    return program.run_decompositions() if mode == "decomposed" else program


@pytest.mark.parametrize("mode", MODES)
def test_every_operator_in_the_database_that_exports_round_trips(
    mode: str,
    assert_round_trips: Callable[..., bool],
    torch_may_warn: Callable[[], warnings.catch_warnings[None]],
) -> None:
    from torch.testing._internal.hop_db import hop_db

    wrong = []
    for info in hop_db:
        name = f"{info.name}.{info.variant_test_name}"
        with torch_may_warn():
            (sample,) = info.sample_inputs("cpu", torch.float32)
        every = (*(sample.input if isinstance(sample.input, tuple) else (sample.input,)), *sample.args)
        args = tuple(value for value in every if _is_input(value))
        module = _Call(info.op, [_GIVEN if _is_input(value) else value for value in every], sample.kwargs)
        with torch_may_warn():
            try:
                program = _exported(module, args, mode)
            except Exception as error:
                if (name, mode) not in DOES_NOT_EXPORT:
                    wrong.append(f"{name} does not export: {error}")
                continue
        if (name, mode) in DOES_NOT_EXPORT:
            wrong.append(f"{name} exports")
        for format in ("json", "msgpack", "cbor"):
            try:
                assert_round_trips(program, args, {}, format)
            except Exception as error:
                wrong.append(f"{name} in {format}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def _is_input(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)


# ------------------------------------------------------------------------------------------ those not in the database

X = torch.arange(12.0).reshape(3, 4) / 7


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _associative_scan(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: {"sum": a["sum"] + b["sum"]}, {"sum": x}, 0, combine_mode="generic")


def _strict_mode(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.strict_mode import strict_mode

    return strict_mode(lambda a: (a.sin(), a + 1), (x,))


def _out_dtype(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.out_dtype import out_dtype

    return out_dtype(torch.ops.aten.mm.default, torch.int32, x.to(torch.int8), x.T.to(torch.int8))


def _hints_wrapper(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.hints_wrap import hints_wrapper

    return hints_wrapper(lambda a, b: a.relu() + b, (x, x), {}, hints={"one": True, "two": 2, "three": "c"})


def _autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    return y + 1


def _autocast_around_nothing(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x @ x.T
    return x + 1


def _no_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x.sin()
    return y + x


def _no_grad_around_nothing(x: torch.Tensor) -> Any:
    with torch.no_grad():
        x.sin()
    return x + 1


def _print(x: torch.Tensor) -> Any:
    torch._higher_order_ops.print("{n} in {x}", n=1, x=x)
    return x + 1


def _while_loop_over_an_integer(x: torch.Tensor) -> Any:
    return torch._higher_order_ops.while_loop(
        lambda i, y: i < y.shape[0], lambda i, y: (i + 1, y + i), (0, x)
    )


def _foreach_map(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.foreach_map import foreach_map

    return foreach_map(torch.add, [x, x], [x, x])


def _vmap(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row.sin() * row.sum())(x)


def _jvp(x: torch.Tensor) -> Any:
    return torch.func.jvp(torch.sin, (x,), (x,))


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _autograd_function(x: torch.Tensor) -> Any:
    return _Autograd.apply(x.requires_grad_())


BY_HAND: dict[str, tuple[Callable[..., Any], str]] = {
    "associative_scan": (_associative_scan, "nonstrict"),
    "strict_mode": (_strict_mode, "nonstrict"),
    "out_dtype": (_out_dtype, "nonstrict"),
    "hints_wrapper": (_hints_wrapper, "strict"),
    "wrap_with_autocast": (_autocast, "nonstrict"),
    "wrap_with_autocast, no result": (_autocast_around_nothing, "nonstrict"),
    "wrap_with_set_grad_enabled": (_no_grad, "nonstrict"),
    "wrap_with_set_grad_enabled, no result": (_no_grad_around_nothing, "nonstrict"),
    "print": (_print, "nonstrict"),
    "with_effects": (_print, "decomposed"),
    "while_loop": (_while_loop_over_an_integer, "nonstrict"),
    "foreach_map": (_foreach_map, "strict"),
    "vmap": (_vmap, "nonstrict"),
    "jvp": (_jvp, "nonstrict"),
    "custom autograd function": (_autograd_function, "nonstrict"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_an_operator_outside_of_the_database_round_trips(
    name: str,
    assert_round_trips: Callable[..., bool],
    torch_may_warn: Callable[[], warnings.catch_warnings[None]],
) -> None:
    function, mode = BY_HAND[name]
    with torch_may_warn():
        program = _exported(_Function(function), (X.clone(),), mode)
    for format in ("json", "msgpack", "cbor"):
        assert_round_trips(program, (X,), {}, format)


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


def test_a_graph_of_constants_reads_tensors_of_its_own(assert_round_trips: Callable[..., bool]) -> None:
    program = export(_Function(lambda x: x + 1), (torch.zeros(4),))
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
