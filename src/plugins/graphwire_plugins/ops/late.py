"""Operators of torch that `import torch` does not register. A process that did not export a program may lack them."""

from __future__ import annotations

import contextlib
import importlib

_HIGHER_ORDER = "torch._higher_order_ops"
LATE_MODULES = {
    "_c10d_functional": "torch.distributed._functional_collectives",
    "_dtensor": "torch.distributed.tensor",
    "_inductor_test": "torch._inductor.test_operators",
    "ao": "torch._functorch._activation_offloading.offload_ops",
    "c10d_functional": "torch.distributed._functional_collectives",
    "device_mesh": "torch.distributed._ops.device_mesh",
    "flex_lib": "torch._dynamo._trace_wrapped_higher_order_op",
    "fsdp": "torch.distributed.fsdp",
    "onnx": "torch.onnx.ops",
    "onnx_symbolic": "torch.onnx.ops",
    "prims": "torch._inductor.inductor_prims",
    "quantization": "torch.distributed.algorithms._quantization.quantization",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "streams": "torch._dynamo.variables.streams",
    "symm_mem": "torch.distributed._symmetric_memory",
    "torch_attn": "torch.nn.attention.varlen",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
    "higher_order.control_deps": "torch._inductor.fx_passes.control_dependencies",
    "higher_order.register_hook": f"{_HIGHER_ORDER}.register_hook",
    "higher_order.trace_wrapped": "torch._dynamo._trace_wrapped_higher_order_op",
    "higher_order.triton_kernel_wrapper_functional": f"{_HIGHER_ORDER}.triton_kernel_wrap",
    "higher_order.triton_kernel_wrapper_mutation": f"{_HIGHER_ORDER}.triton_kernel_wrap",
}
"""A library, or a higher-order operator, and the module of torch that registers it, or what `import torch` leaves out of it."""


def register_late(name: str) -> bool:
    """Have torch register a library or a higher-order operator of `LATE_MODULES`.

    Returns False for any other name, and where this release of torch has no such module.
    """
    if name not in LATE_MODULES:
        return False
    with contextlib.suppress(ImportError):
        importlib.import_module(LATE_MODULES[name])  # noqa: TID251 the table names it, and no file
        return True
    return False
