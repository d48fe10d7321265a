"""The graphwire plugin of linops: the names of the operators, their version, and their history.

The operators are imported when a program uses one. A program therefore loads without any import by hand, wherever this
distribution is installed and enabled. torch is imported inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import OpHandler, OpsetUpgrader, hookimpl
from graphwire.schema import Argument, ArgumentKind, NamedArgument
from graphwire_linops.history import STEPS

OPSET = 4
"""The current version of the operators, as in `history`."""

_START = "torch.ops.linops."
_APPLY = "torch.ops.higher_order.linops_apply"


class LinopsOverloads:
    """The operator handler of the overloads with a schema."""

    namespace = "linops"
    prefixes = (_START,)
    opset_version = OPSET
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """Return None: graphwire's handler of all library overloads names them and assigns them to this one."""

    def resolve(self, name: str) -> Any | None:
        """Return the overload with a name."""
        from graphwire_linops import operators

        owned = (operators.project, operators.unit, operators.smooth)
        return {f"torch.ops.{op._opoverload}": op._opoverload for op in owned}.get(name)


class LinopsApply:
    """The operator handler of `apply`, which encodes the function as its name."""

    namespace = "linops"
    prefixes = (_APPLY,)
    opset_version = OPSET
    convention = "generic"

    def name_of(self, target: Any) -> str | None:
        """Return None: graphwire's handler of higher-order operators names it and assigns it to this one."""

    def resolve(self, name: str) -> Any | None:
        """Return the operator."""
        from graphwire_linops.operators import apply

        return apply if name == _APPLY else None

    def encode_node(
        self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
    ) -> list[NamedArgument]:
        """Encode the tensor, and the function as its name.

        Raises:
            EncodeError: the function is not a `Pointwise`.
        """
        from graphwire_linops.operators import Pointwise

        x, function = args
        if not isinstance(function, Pointwise):
            raise EncodeError(f"linops_apply does not support the function {function!r:.80}")
        name = Argument(as_string=function.value)
        return [
            NamedArgument("x", encode(x), ArgumentKind.POSITIONAL),
            NamedArgument("function", name, ArgumentKind.POSITIONAL),
        ]

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the tensor and the function.

        Raises:
            DecodeError: an argument is missing, or the function is unknown.
        """
        from graphwire_linops.operators import Pointwise

        given = {named.name: named.arg for named in inputs}
        if set(given) != {"x", "function"}:
            raise DecodeError(f"linops_apply takes x and function, not {', '.join(map(repr, given))}")
        known = {function.value: function for function in Pointwise}
        function = known.get(given["function"].as_string or "")
        if function is None:
            raise DecodeError(f"linops_apply has no such function; it supports {', '.join(known)}")
        return (decode(given["x"]), function), {}


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """Return the two handlers of the namespace."""
    return [LinopsOverloads(), LinopsApply()]


@hookimpl
def graphwire_opset_upgraders() -> list[OpsetUpgrader]:
    """Return the steps between versions: every upgrade, and the downgrades that exist."""
    return list(STEPS)
