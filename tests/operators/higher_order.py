"""Programs of higher-order operators: those in torch's database of them, and others by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from nightly import by_day
from programs import Inputs
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

MODES = ("strict", "nonstrict", "decomposed")
TRIED_MODES = by_day(("strict", "decomposed"), by_night=MODES)
"""A decomposed program was exported in nonstrict mode, so by day that mode is tried with its decompositions alone."""
FORMATS = ("json", "msgpack", "cbor")


def formats_of(index: int) -> Sequence[str]:
    """The wire formats that a program goes through: by day JSON, which torch reads too, or one of the others."""
    return by_day((FORMATS[index % len(FORMATS)],), by_night=FORMATS)


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


def exported(module: torch.nn.Module, args: tuple[Any, ...], mode: str) -> ExportedProgram:
    torch._dynamo.reset()
    program = export(module, args, strict=mode == "strict")
    return program.run_decompositions() if mode == "decomposed" else program


def database_programs(mode: str) -> Iterator[tuple[str, Callable[[], tuple[ExportedProgram, Inputs]]]]:
    """Each operator in the database, with what exports a program of its sample and gives a call of it."""
    from torch.testing._internal.hop_db import hop_db

    for info in hop_db:
        yield f"{info.name}.{info.variant_test_name}", lambda info=info: _database_program(info, mode)


def _database_program(info: Any, mode: str) -> tuple[ExportedProgram, Inputs]:
    (sample,) = info.sample_inputs("cpu", torch.float32)
    every = (*(sample.input if isinstance(sample.input, tuple) else (sample.input,)), *sample.args)
    args = tuple(value for value in every if _is_input(value))
    module = _Call(info.op, [_GIVEN if _is_input(value) else value for value in every], sample.kwargs)
    return exported(module, args, mode), Inputs(args, {})


def _is_input(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)


# ------------------------------------------------------------------------------------------ those not in the database

X = torch.arange(12.0).reshape(3, 4) / 7


class Function(torch.nn.Module):
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


def program_by_hand(name: str) -> tuple[ExportedProgram, Inputs]:
    """A program of an operator outside of the database, and a call of it."""
    function, mode = BY_HAND[name]
    return exported(Function(function), (X.clone(),), mode), Inputs((X,), {})
