"""Operator handlers for plain functions in graphs: arithmetic on symbols, and the scaffolding of function transforms."""

from __future__ import annotations

import builtins
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any


def _by_name(functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {f"{function.__module__}.{function.__name__}": function for function in functions}


class _FunctionTable(ABC):
    """A handler that looks functions up by name, and names by function, in one table."""

    @property
    @abstractmethod
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        """The table by name, built on first use because it needs torch."""

    @cached_property
    def _names(self) -> Mapping[int, str]:
        """Names by function id: an arbitrary target may be large, or fail when it is hashed."""
        return {id(function): name for name, function in self._functions.items()}

    def name_of(self, target: Any) -> str | None:
        """Return the name of `target` in the table; None if it is not there."""
        return self._names.get(id(target))

    @property
    def functions(self) -> Iterable[Callable[..., Any]]:
        """All functions in the table."""
        return self._functions.values()

    def resolve(self, name: str) -> Any | None:
        """Return the function with that name; None if there is none."""
        return self._functions.get(name)


class SymbolFunctions(_FunctionTable):
    """Functions on symbolic integers, floats and booleans: `operator`, `math`, `round` and `torch.sym_*`."""

    namespace = "symbolic"
    prefixes = ("_operator.", "math.", "builtins.", "torch.")
    opset_version = 0
    convention = "symbolic"

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        import torch

        symbolic = [
            getattr(torch, name)
            for name in dir(torch)
            if name.startswith(("sym_", "_sym_")) and "constrain" not in name
        ]
        return _by_name(
            [
                *(getattr(module, name) for module, names in _FUNCTIONS.items() for name in names.split()),
                *(each for each in symbolic if not isinstance(each, torch._ops.OpOverloadPacket)),
            ]
        )


_FUNCTIONS = {
    operator: "abs add and_ eq floordiv ge getitem gt index inv invert le lshift lt matmul mod mul ne neg not_ or_ pos "
    "pow rshift sub truediv xor",
    math: "ceil floor trunc sqrt log2 pow",
    builtins: "round abs min max pow bool int float",
}
"""The functions of each module that occur in graphs as operators on symbols."""


class PredispatchFunctions(_FunctionTable):
    """Functions that `torch.export` leaves in graphs for vmap, jvp, autocast and gradient modes before dispatch."""

    namespace = "predispatch"
    prefixes = tuple(f"torch.{name}." for name in "_functorch.predispatch _C amp export fx autograd".split())
    opset_version = 0
    convention = "generic"

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        import torch
        from torch.amp import autocast_mode
        from torch.fx.experimental import symbolic_shapes

        from graphwire.bridge.torch_compat import predispatch_functions

        return {
            **_by_name(predispatch_functions()),
            **_by_name([autocast_mode._enter_autocast, autocast_mode._exit_autocast]),
            **_by_name([symbolic_shapes.cast_symbool_to_symint_guardless]),
            "torch._C._set_grad_enabled": torch._C._set_grad_enabled,
            "torch.autograd.grad_mode.set_grad_enabled": torch.autograd.grad_mode.set_grad_enabled,
        }
