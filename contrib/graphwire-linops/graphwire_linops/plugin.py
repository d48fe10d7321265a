"""What graphwire asks for: the names of the operators, their version, and its history. torch is imported when it is needed.

The operators themselves are imported when a program uses one: whoever has this distribution installed, and allowed, loads
such a program without a line of code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import OpHandler, OpsetUpgrader, hookimpl
from graphwire.schema import Argument, ArgumentKind, NamedArgument
from graphwire_linops.history import STEPS

__all__ = ["OPSET", "LinopsApply", "LinopsOverloads"]

OPSET = 4
"""The version of the operators, as `history` counts it."""

_START = "torch.ops.linops."
_APPLY = "torch.ops.higher_order.linops_apply"


class LinopsOverloads:
    """The operators that a schema describes."""

    namespace = "linops"
    prefixes = (_START,)
    opset_version = OPSET
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """None: the handler of all library overloads names them, and finds that they are this one's."""

    def resolve(self, name: str) -> Any | None:
        """The overload of that name."""
        from graphwire_linops import operators

        owned = (operators.project, operators.unit, operators.smooth)
        return {f"torch.ops.{op._opoverload}": op._opoverload for op in owned}.get(name)


class LinopsApply:
    """`apply`, whose second argument is a function: written as its name."""

    namespace = "linops"
    prefixes = (_APPLY,)
    opset_version = OPSET
    convention = "generic"

    def name_of(self, target: Any) -> str | None:
        """None: the handler of all higher-order operators names it, and finds that it is this one's."""

    def resolve(self, name: str) -> Any | None:
        """The operator."""
        from graphwire_linops.operators import apply

        return apply if name == _APPLY else None

    def encode_node(
        self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
    ) -> list[NamedArgument]:
        """The tensor, and the function by its name.

        Raises:
            EncodeError: the function is none of `Pointwise`.
        """
        from graphwire_linops.operators import Pointwise

        x, function = args
        if not isinstance(function, Pointwise):
            raise EncodeError(f"linops_apply knows no function {function!r:.80}")
        name = Argument(as_string=function.value)
        return [
            NamedArgument("x", encode(x), ArgumentKind.POSITIONAL),
            NamedArgument("function", name, ArgumentKind.POSITIONAL),
        ]

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The tensor and the function.

        Raises:
            DecodeError: they are not there, or nobody knows the function.
        """
        from graphwire_linops.operators import Pointwise

        given = {named.name: named.arg for named in inputs}
        if set(given) != {"x", "function"}:
            raise DecodeError(f"linops_apply takes x and function, not {', '.join(map(repr, given))}")
        known = {function.value: function for function in Pointwise}
        function = known.get(given["function"].as_string or "")
        if function is None:
            raise DecodeError(f"linops_apply has no such function; it has {', '.join(known)}")
        return (decode(given["x"]), function), {}


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """The two handlers of the namespace."""
    return [LinopsOverloads(), LinopsApply()]


@hookimpl
def graphwire_opset_upgraders() -> list[OpsetUpgrader]:
    """The library's history, up and, where it can be said, down."""
    return list(STEPS)
