"""Higher-order operators: `torch.ops.higher_order.NAME`, operators whose arguments are graphs."""

from __future__ import annotations

from typing import Any

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
