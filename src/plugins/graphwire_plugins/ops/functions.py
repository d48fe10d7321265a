"""Plain functions that stand in graphs: arithmetic on symbols, and the scaffolding of function transforms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any


def _by_name(functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {f"{function.__module__}.{function.__name__}": function for function in functions}


class _FunctionTable(ABC):
    """Functions found by name in a table, and names found by function in its reverse."""

    @property
    @abstractmethod
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        """The table, made when it is first asked for (it needs torch)."""

    @cached_property
    def _names(self) -> Mapping[int, str]:
        """By the id of each: a target that is none of them may be of any size, or fail when it is hashed."""
        return {id(function): name for name, function in self._functions.items()}

    def name_of(self, target: Any) -> str | None:
        """The name that the table has for `target`; None when it has none."""
        return self._names.get(id(target))

    @property
    def functions(self) -> Iterable[Callable[..., Any]]:
        """The functions in the table."""
        return self._functions.values()

    def resolve(self, name: str) -> Any | None:
        """The function that the table has under `name`."""
        return self._functions.get(name)


class SymbolFunctions(_FunctionTable):
    """Functions on symbolic integers, floats and truth values: `operator`, `math`, `round` and `torch.sym_*`."""

    namespace = "symbolic"
    prefixes = ("_operator.", "math.", "builtins.", "torch.")
    opset_version = 0
    convention = "symbolic"

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        import math
        import operator

        import torch

        operators = (
            "abs add and_ eq floordiv ge getitem gt index inv invert le lshift lt matmul mod mul ne neg not_ or_ pos "
            "pow rshift sub truediv xor"
        ).split()
        symbolic = [
            name for name in dir(torch) if name.startswith(("sym_", "_sym_")) and "constrain" not in name
        ]
        return _by_name(
            [
                *(getattr(operator, name) for name in operators),
                *(getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt", "log2", "pow")),
                *(
                    f
                    for name in symbolic
                    if not isinstance(f := getattr(torch, name), torch._ops.OpOverloadPacket)
                ),
                round,
                abs,
                min,
                max,
                pow,
                bool,
                int,
                float,
            ]
        )


class PredispatchFunctions(_FunctionTable):
    """What `torch.export` leaves of vmap, jvp, autocast and gradient modes before dispatch."""

    namespace = "predispatch"
    prefixes = (
        "torch._functorch.predispatch.",
        "torch._C.",
        "torch.amp.",
        "torch.export.",
        "torch.fx.",
        "torch.autograd.",
    )
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
