"""Operator handler for higher-order operators (`torch.ops.higher_order.NAME`), whose arguments include graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwire.schema import Argument, NamedArgument
from graphwire_plugins.ops.late import register_late
from graphwire_plugins.ops.triton import decode_launch, encode_launch, is_launch

_START = "torch.ops.higher_order."
TORCH_OPERATORS = (
    "_export_tracepoint aoti_call_delegate associative_scan auto_functionalized auto_functionalized_v2 "
    "autograd_function_apply call_torchbind cond control_deps custom_function_call dynamo_bypassing_wrapper "
    "executorch_call_delegate flat_apply flex_attention flex_attention_backward flex_gemm foreach_map "
    "graphsafe_run_with_rng_state hints_wrapper inductor_compiled_code inline_asm_elementwise "
    "invoke_leaf_function invoke_quant invoke_quant_packed invoke_subgraph local_map_hop map map_impl out_dtype print "
    "register_hook run_and_save_rng_state run_const_graph run_dtensor_rng_op run_with_rng_state scan "
    "strict_mode switch tag_activation_checkpoint trace_wrapped "
    "triton_kernel_wrapper_functional triton_kernel_wrapper_mutation while_loop while_loop_stack_output with_effects wrap "
    "wrap_activation_checkpoint wrap_with_autocast wrap_with_set_grad_enabled"
).split()
"""torch's own higher-order operators. Plugins cannot claim their names."""


class HigherOrderOperators:
    """Handles every operator in torch's own table of higher-order operators."""

    namespace = "higher_order"
    prefixes = (_START,)
    keeps = tuple(_START + name for name in TORCH_OPERATORS)
    opset_version = 0
    convention = "generic"

    def name_of(self, target: Any) -> str | None:
        """Return `torch.ops.higher_order.cond` for that operator; None for anything else."""
        from torch._ops import HigherOrderOperator

        return f"{_START}{target.name()}" if isinstance(target, HigherOrderOperator) else None

    def resolve(self, name: str) -> Any | None:
        """Return the operator with that name in torch's table; None if there is none."""
        from torch._ops import _higher_order_ops  # `import torch` fills most of it

        own = name.removeprefix(_START)
        if own not in _higher_order_ops:
            register_late(f"higher_order.{own}")
        return _higher_order_ops.get(own)

    def encode_node(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        encode: Callable[[Any], Argument],
    ) -> list[NamedArgument] | None:
        """Return the inputs of a Triton kernel call; None for any other node."""
        return encode_launch(args, kwargs, encode) if is_launch(target) else None

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of a Triton kernel call; None for any other node."""
        return decode_launch(inputs, decode) if is_launch(target) else None
