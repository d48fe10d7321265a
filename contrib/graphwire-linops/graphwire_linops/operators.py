"""The operators of linops: three with a schema, and `apply`, a higher-order operator that takes a function."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch._higher_order_ops.utils import autograd_not_implemented, register_fake
from torch._ops import HigherOrderOperator
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree


@torch.library.custom_op("linops::project", mutates_args=())
def project(x: torch.Tensor, weight: torch.Tensor, transposed: bool) -> torch.Tensor:
    """Return the rows of `x` times `weight`, or times its transpose."""
    return x @ (weight.T if transposed else weight)


@project.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, transposed: bool) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0 if transposed else 1])


@torch.library.custom_op("linops::unit", mutates_args=())
def unit(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Return each row of `x` divided by the sum of its norm and `eps`."""
    return x / (x.norm(dim=-1, keepdim=True) + eps)


@unit.register_fake
def _(x: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("linops::smooth", mutates_args=())
def smooth(x: torch.Tensor, width: float = 0.5) -> torch.Tensor:
    """Return each element, smoothly limited to the range from `-width` to `width`."""
    return width * torch.tanh(x / width)


@smooth.register_fake
def _(x: torch.Tensor, width: float = 0.5) -> torch.Tensor:
    return torch.empty_like(x)


class Pointwise(enum.Enum):
    """A function of one number, for `apply`: a callable, for which operator schemas have no type."""

    SQUARE = "square"
    SOFTPLUS = "softplus"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the function of every element."""
        return {"square": torch.square, "softplus": torch.nn.functional.softplus}[self.value](x)


class _Apply(HigherOrderOperator):
    """`apply(x, function)`: a function of every element of `x`, as one call in the graph."""

    def __init__(self) -> None:
        super().__init__("linops_apply")

    def __call__(self, x: torch.Tensor, function: Pointwise) -> torch.Tensor:
        """Apply `function` to every element of `x`."""
        return super().__call__(x, function)


apply = _Apply()


@apply.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)
def _(x: torch.Tensor, function: Pointwise) -> torch.Tensor:
    return function(x)


@apply.py_impl(ProxyTorchDispatchMode)
def _(mode: ProxyTorchDispatchMode, x: torch.Tensor, function: Pointwise) -> torch.Tensor:
    with disable_proxy_modes_tracing():
        result = function(x)
    args = pytree.tree_map(mode.tracer.unwrap_proxy, (x, function))
    proxy = mode.tracer.create_proxy("call_function", apply, args, {}, name="apply")
    return track_tensor_tree(result, proxy, constant=None, tracer=mode.tracer)


@register_fake(apply)
def _(x: torch.Tensor, function: Pointwise) -> torch.Tensor:
    return function(x)


@apply.py_functionalize_impl
def _(context: Any, x: torch.Tensor, function: Any) -> Any:
    with context.redispatch_to_next():
        return context.wrap_tensors(apply(context.unwrap_tensors(x), function))


apply.py_autograd_impl(autograd_not_implemented(apply, deferred_error=True))
