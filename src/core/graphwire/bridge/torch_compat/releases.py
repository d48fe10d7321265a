"""Differences between the supported releases of torch: one function for each, with one interface for all releases.

Each checks what torch has, not its version number, so that nightly builds work too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.export import custom_ops
from torch.export.graph_signature import OutputKind

try:
    from torch._library import opaque_object
except ImportError:  # before 2.10
    opaque_object = None
try:
    from torch._functorch import predispatch
except ImportError:  # before 2.9
    predispatch = None

from graphwire.errors import DecodeError
from graphwire.lazy import later

if TYPE_CHECKING:
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._sympy import functions as shape_functions
else:
    sympy, shape_functions = later("sympy"), later("torch.utils._sympy.functions")


def opaque_types() -> Iterable[type]:
    """Return the classes that are registered with torch as opaque, in this process; empty before torch 2.10."""
    return () if opaque_object is None else tuple(opaque_object._OPAQUE_TYPES)


def opaque_type_name(kind: type) -> str | None:
    """Return the name that a class is registered under as opaque; None if it is not registered."""
    if opaque_object is None or not opaque_object.is_opaque_type(kind):
        return None
    return str(opaque_object.get_opaque_type_name(kind))


def backed_values(shape_env: ShapeEnv) -> dict[sympy.Symbol, sympy.Integer]:
    """Return the sizes on the example inputs, by symbol: the environment's own table, not a copy."""
    # `backed_var_to_val` since 2.11; before that `var_to_val`, which warns in newer releases.
    found: dict[sympy.Symbol, sympy.Integer] = (
        shape_env.backed_var_to_val if hasattr(shape_env, "backed_var_to_val") else shape_env.var_to_val
    )
    return found


def reserve_numbers(shape_env: ShapeEnv, counter: str, first: int) -> None:
    """Make the environment number new symbols from `first` on, unless it is past that already."""
    numbers = getattr(shape_env, counter)
    if isinstance(numbers, itertools.count):  # before 2.10; a count shows its position only by advancing
        setattr(shape_env, counter, itertools.count(max(next(numbers), first)))
    else:
        setattr(shape_env, counter, max(numbers, first))


def shape_function(name: str) -> Any:
    """Return the class that represents an operation of torch or sympy in size expressions; None if neither has it.

    `BitwiseFn_bitwise_xor` exists since 2.10.
    """
    return getattr(shape_functions, name, None) or getattr(sympy, name, None)


def output_kind(name: str) -> OutputKind:
    """Return torch's output kind of this name. `PARAMETER_MUTATION` exists since 2.9.

    Raises:
        DecodeError: the installed torch does not have it.
    """
    kind = OutputKind.__members__.get(name)
    if kind is None:
        raise DecodeError(f"this torch has no output of kind {name}", remedy="Install a newer torch")
    return kind


def parameters_of(target: str) -> tuple[str, ...]:
    """Return the parameter names of an ATen operator in the installed torch, by its serialized name; empty if the operator is
    absent. Release 2.14 removed `aten.cholesky` and renamed a parameter of `aten._cdist_backward`."""
    _, _, _, name, overload = target.split(".")
    found = getattr(getattr(torch.ops.aten, name, None), overload, None)
    return () if found is None else tuple(argument.name for argument in found._schema.arguments)


def predispatch_functions() -> list[Callable[..., Any]]:
    """Return the functions that `torch.export` leaves before dispatch for vmap and custom autograd; empty before 2.9."""
    own = vars(predispatch).values() if predispatch is not None else ()
    functions = [f for f in own if getattr(f, "__module__", "") == predispatch.__name__]
    call = getattr(custom_ops, "_call_custom_autograd_function_in_pre_dispatch", None)
    return functions if call is None else [*functions, call]
