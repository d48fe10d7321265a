"""Higher-order operators: `torch.ops.higher_order.NAME`, operators whose arguments are graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwire.schema.graph import Argument, NamedArgument
from graphwire_plugins.ops.triton import decode_launch, encode_launch, is_launch

_START = "torch.ops.higher_order."


class HigherOrderOperators:
    """Every operator in torch's own table of higher-order operators."""

    namespace = "higher_order"
    prefixes = (_START,)
    opset_version = 0
    convention = "generic"

    def name_of(self, target: Any) -> str | None:
        """`torch.ops.higher_order.cond` for that operator; None for anything else."""
        from torch._ops import HigherOrderOperator

        return f"{_START}{target.name()}" if isinstance(target, HigherOrderOperator) else None

    def resolve(self, name: str) -> Any | None:
        """The operator that torch's table has under that name."""
        from torch._ops import _higher_order_ops  # `import torch` has filled it

        return _higher_order_ops.get(name.removeprefix(_START))

    def encode_node(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        encode: Callable[[Any], Argument],
    ) -> list[NamedArgument] | None:
        """The inputs of a call of a Triton kernel; None for any other node."""
        return encode_launch(args, kwargs, encode) if is_launch(target) else None

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments of a call of a Triton kernel; None for any other node."""
        return decode_launch(inputs, decode) if is_launch(target) else None
