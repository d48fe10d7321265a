"""What differs between the releases of torch that graphwire runs on: one function for each thing, the same for its callers.

Told apart by what torch has, not by its number, so that a nightly build counts as what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
import torch.utils._sympy.functions as shape_functions
from torch.export import custom_ops
from torch.export.graph_signature import OutputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv

try:
    from torch._library import opaque_object
except ImportError:  # before 2.10
    opaque_object = None
try:
    from torch._functorch import predispatch
except ImportError:  # before 2.9
    predispatch = None

from graphwire.errors import DecodeError


def opaque_types() -> Iterable[type]:
    """The classes that this process registered with torch as opaque: none before torch 2.10."""
    return () if opaque_object is None else tuple(opaque_object._OPAQUE_TYPES)


def opaque_type_name(kind: type) -> str | None:
    """The name that a class is registered under as opaque; None where it is not."""
    if opaque_object is None or not opaque_object.is_opaque_type(kind):
        return None
    return str(opaque_object.get_opaque_type_name(kind))


def backed_values(shape_env: ShapeEnv) -> dict[sympy.Symbol, sympy.Integer]:
    """The values that sizes had on the example inputs, by symbol: the environment's own table."""
    # `backed_var_to_val` since 2.11; `var_to_val` before, which warns since.
    found: dict[sympy.Symbol, sympy.Integer] = (
        shape_env.backed_var_to_val if hasattr(shape_env, "backed_var_to_val") else shape_env.var_to_val
    )
    return found


def reserve_numbers(shape_env: ShapeEnv, counter: str, first: int) -> None:
    """Let the environment number new symbols from `first` on, where it has not come that far."""
    numbers = getattr(shape_env, counter)
    if isinstance(numbers, itertools.count):  # before 2.10; a count tells where it stands by going on
        setattr(shape_env, counter, itertools.count(max(next(numbers), first)))
    else:
        setattr(shape_env, counter, max(numbers, first))


def shape_function(name: str) -> Any:
    """The class that expressions of sizes have for an operation of torch's own or sympy's; None where neither has it.

    `BitwiseFn_bitwise_xor` came with 2.10.
    """
    return getattr(shape_functions, name, None) or getattr(sympy, name, None)


def output_kind(name: str) -> OutputKind:
    """The kind of output that torch has under a name. `PARAMETER_MUTATION` came with 2.9.

    Raises:
        DecodeError: this torch does not have it.
    """
    kind = OutputKind.__members__.get(name)
    if kind is None:
        raise DecodeError(f"this torch has no output of kind {name}", remedy="Install a newer torch")
    return kind


def parameters_of(target: str) -> tuple[str, ...]:
    """The names of the parameters that an operator of ATen has in this torch, by its serialized name; none where it has no
    such operator. 2.14 took `aten.cholesky` away, and renamed a parameter of `aten._cdist_backward`."""
    _, _, _, name, overload = target.split(".")
    found = getattr(getattr(torch.ops.aten, name, None), overload, None)
    return () if found is None else tuple(argument.name for argument in found._schema.arguments)


def predispatch_functions() -> list[Callable[..., Any]]:
    """What `torch.export` leaves of vmap and of custom autograd functions before dispatch; nothing before torch 2.9."""
    own = vars(predispatch).values() if predispatch is not None else ()
    functions = [f for f in own if getattr(f, "__module__", "") == predispatch.__name__]
    call = getattr(custom_ops, "_call_custom_autograd_function_in_pre_dispatch", None)
    return functions if call is None else [*functions, call]
