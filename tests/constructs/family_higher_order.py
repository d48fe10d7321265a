"""Higher-order operators: operators whose arguments are graphs, and those that wrap others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from construct import Family, holding, of_function
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.run_const_graph import run_const_graph
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_functional,
    triton_kernel_wrapper_mutation,
)
from torch._higher_order_ops.while_loop import while_loop
from torch._ops import HigherOrderOperator
from torch.compiler import nested_compile_region
from torch.export import Dim, ExportedProgram, export
from torch.nn.attention.flex_attention import flex_attention

operators = Family("higher-order operators")


def _cond(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def _cond_on_size(self: Any, x: Tensor) -> Any:
    return torch.cond(x.shape[0] > 4, lambda x: x.cos() + self.buffer.sum(), lambda x: x.sin(), (x,))


def _cond_of_numbers(x: Tensor) -> Any:
    return x[torch.cond(x.sum() > 3, lambda: 0, lambda: 1, ())]


def _cond_in_cond(x: Tensor) -> Any:
    def inner(y: Tensor) -> Any:
        return torch.cond(y.mean() > 0, lambda z: (z - 1, z + 1), lambda z: (z * 2, z / 2), (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: (y + 3, -y), (x,))


operators.exported("cond", _cond, torch.ones(3), calls=((-torch.ones(3),),))
operators.exported(
    "cond on a size, with a captured buffer",
    holding(_cond_on_size, buffer=nn.Buffer(torch.ones(2))),
    torch.ones(6, 4),
    calls=((torch.ones(4, 4),),),
    dynamic_shapes={"x": {0: Dim("n", min=3)}},
)
operators.exported(
    "cond that returns numbers", _cond_of_numbers, torch.ones(3, 3), calls=((torch.zeros(3, 3),),)
)
operators.exported("cond in cond, several results", _cond_in_cond, torch.ones(3), calls=((-torch.ones(3),),))


def _while_loop(i: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x + x.cos()), (i, x))


def _while_loop_of_items(x: Tensor) -> Any:
    def condition(index: Tensor, total: Tensor) -> Any:
        return index.item() < x.size(0)

    def body(index: Tensor, total: Tensor) -> Any:
        row = index.item()
        torch._check_is_size(row, max=x.size(0) - 1)
        return index + 1, total + x[row]

    return while_loop(condition, body, (torch.full((), 0, dtype=torch.int64), torch.zeros(x.size(1))))[1]


operators.exported("while_loop", _while_loop, torch.tensor(3), torch.ones(2))
operators.exported(
    "while_loop with unbacked values inside", _while_loop_of_items, torch.ones(5, 2), strict=False
)
operators.exported(
    "while_loop over an integer",
    lambda x: while_loop(lambda i, y: i < y.shape[0], lambda i, y: (i + 1, y + i), (0, x)),
    torch.ones(3, 4),
)
operators.exported("map", lambda xs, y: map_over(lambda x, y: x + y, xs, y), torch.ones(3, 2), torch.ones(2))


def _scan(initial: Tensor, xs: dict[str, Tensor]) -> Any:
    return scan(lambda carry, x: (carry + x["a"], {"sum": carry + x["b"]}), initial, xs)


operators.exported("scan over a dict", _scan, torch.zeros(2), {"a": torch.ones(4, 2), "b": torch.ones(4, 2)})
operators.exported(
    "associative_scan",
    lambda x: associative_scan(lambda a, b: a + b, x, 1, combine_mode="generic"),
    torch.ones(2, 5),
)


def _flex_attention(self: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + self.bias[h])


_QUERY = torch.ones(1, 2, 8, 4)
operators.exported(
    "flex_attention with score_mod and a captured buffer",
    holding(_flex_attention, bias=nn.Buffer(torch.ones(2))),
    _QUERY,
    _QUERY,
    _QUERY,
    strict=False,
)


def _gradient_modes(x: Tensor) -> Any:
    with torch.no_grad():
        y = x + 1
    with torch.enable_grad():
        z = y * 2
    return y, z, None


def _autocast(x: Tensor, y: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ y
    return z.float()


def _gradient_mode_around_nothing(x: Tensor) -> Any:
    with torch.no_grad():
        x.sin()
    return x + 1


def _autocast_around_nothing(x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x @ x.T
    return x + 1


operators.exported("wrap_with_set_grad_enabled", _gradient_modes, torch.ones(3))
operators.exported("wrap_with_set_grad_enabled without results", _gradient_mode_around_nothing, torch.ones(3))
operators.exported("wrap_with_autocast", _autocast, torch.ones(3, 3), torch.ones(3, 3))
operators.exported("wrap_with_autocast without results", _autocast_around_nothing, torch.ones(3, 3))
operators.exported(
    "tag_activation_checkpoint",
    lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False),
    torch.ones(3),
    strict=False,
)


@nested_compile_region
def _region(x: Tensor) -> Tensor:
    return x.sin() * 2


operators.exported("invoke_subgraph, called twice", lambda x: _region(x) + _region(x + 1), torch.ones(3))
operators.exported("strict_mode", lambda x: strict_mode(lambda y: y.sin(), (x,)), torch.ones(3))
_BYTES = torch.ones(2, 2, dtype=torch.int8)
operators.exported(
    "out_dtype", lambda x, y: out_dtype(torch.ops.aten.mm.default, torch.int32, x, y), _BYTES, _BYTES
)


def _hints(x: Tensor) -> Any:
    def inner(x: Tensor) -> Tensor:
        return torch.relu(x)

    def outer(x: Tensor) -> Tensor:
        return torch.abs(hints_wrapper(inner, (x,), {}, hints={"inner": True}))

    return hints_wrapper(outer, (x,), {}, hints={"outer": 2})


operators.exported("hints_wrapper in hints_wrapper", _hints, torch.ones(3), strict=True)
operators.exported(
    "print", lambda x: (torch.ops.higher_order.print("value {x}", x=3), x + 1)[1], torch.ones(3), strict=False
)


@torch.library.custom_op("graphwire_constructs::shift", mutates_args={"x", "others"})
def _shift(x: Tensor, others: list[Tensor], step: int) -> Tensor:
    x.add_(step)
    for other in others:
        other.add_(step)
    return x.clone()


@_shift.register_fake
def _(x: Tensor, others: list[Tensor], step: int) -> Tensor:
    return torch.empty_like(x)


def _mutating(x: Tensor, y: Tensor, z: Tensor) -> Any:
    return torch.ops.graphwire_constructs.shift(x, [y, z], 2) + y


operators.exported("a mutating operator", _mutating, torch.ones(3), torch.ones(3), torch.ones(3))
operators.exported(
    "auto_functionalized", _mutating, torch.ones(3), torch.ones(3), torch.ones(3), decomposed=True
)


def _vmapped(x: Tensor, y: Tensor) -> Any:
    return torch.vmap(lambda a, b: (a * b + 1).sum(dim=0))(x, y)


operators.exported("vmap before dispatch", _vmapped, torch.ones(3, 2), torch.ones(3, 2))
operators.exported(
    "foreach_map", lambda x: foreach_map(torch.add, [x, x], [x, x]), torch.ones(3), strict=True
)


class _Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * 2


operators.exported("a custom autograd function", lambda x: _Doubling.apply(x) + 1, torch.ones(3))


class _Applied(HigherOrderOperator):
    """A higher-order operator of somebody's own: a function, applied."""

    def __init__(self) -> None:
        super().__init__("graphwire_applied")

    def __call__(self, function: Any, *args: Any) -> Any:
        return super().__call__(function, *args)


_applied = _Applied()
for _key in (torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.AutogradCPU):
    _applied.py_impl(_key)(lambda function, *args: function(*args))


def _calling(target: Any, args: Callable[[Any, Any], tuple[Any, ...]]) -> ExportedProgram:
    """A program that calls an operator with a graph and a tensor, where export itself makes no such call."""
    program = export(_Conditional(), (torch.ones(3),))
    (cond,) = program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    with program.graph.inserting_before(cond):
        call = program.graph.call_function(target, args(cond.args[1], cond.args[3][0]))
    call.meta = dict(cond.meta)
    for user in list(cond.users):
        user.replace_input_with(cond, call)
    program.graph.eliminate_dead_code()
    program.graph_module.delete_all_unused_submodules()
    program.graph_module.recompile()
    return program


class _Conditional(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: (y + 1, y * 2), lambda y: (y - 1, y * 3), (x,))


operators.add(
    "an operator of somebody's own", lambda: _calling(_applied, lambda graph, x: (graph, x)), (torch.ones(3),)
)
operators.add(
    "run_const_graph", lambda: _calling(run_const_graph, lambda graph, x: (graph, (x,))), (torch.ones(3),)
)


# ------------------------------------------------------------------------------------------------ Triton kernels


class _Kernel:
    """What torch's table holds of a kernel, where Triton is not installed: a function and its source."""

    def __init__(self, function: Callable[..., None], source: str) -> None:
        self.fn, self.src = function, source


def _double(pointer: Any, count: Any) -> None:
    """Stands for the Python function of a kernel."""


_KERNEL = _Kernel(_double, "def _double(pointer, count): ...")


def _place_of(constants: dict[str, Any]) -> int:
    """Where torch's table has constants, which a loaded program takes from there too."""
    places = (place for place, each in kernel_side_table.constant_args.items() if each == constants)
    place = next(places, None)
    return kernel_side_table.add_constant_args(constants) if place is None else place


def _launching(mutating: bool) -> ExportedProgram:
    """A program that calls a kernel, where export itself needs Triton to make such a call."""
    program = export(of_function(lambda x: x.sin()), (torch.ones(4),))
    (sine,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    launch = {
        "kernel_idx": kernel_side_table.add_kernel(_KERNEL),
        "constant_args_idx": _place_of({"BLOCK": 16, "kind": torch.float16}),
        "grid": [(1, 2, 3), (4, 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"pointer": sine.args[0], "count": 4},
    }
    if mutating:
        target, value = triton_kernel_wrapper_mutation, None
    else:
        target, value = triton_kernel_wrapper_functional, {"pointer": sine.meta["val"]}
        launch["tensors_to_clone"] = ["pointer"]
    with program.graph.inserting_before(sine):
        call = program.graph.call_function(target, (), launch)
    call.meta = {**sine.meta, "val": value}
    program.graph_module.recompile()
    return program


operators.add("a call of a Triton kernel, where Triton is not installed", lambda: _launching(False))
operators.add("a call of one that changes its arguments, likewise", lambda: _launching(True))
