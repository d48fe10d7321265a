"""Operator handler for overloads of `torch.library` operators: `torch.ops.NAMESPACE.OPERATOR.OVERLOAD`."""

from __future__ import annotations

import re
from typing import Any

from graphwire.lazy import pattern
from graphwire_plugins.ops.late import register_late

_NAME = pattern(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)
_START = "torch.ops."


TORCH_LIBRARIES = (
    "_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _quantized _test ao aten c10d c10d_functional "
    "debug_mode_ops debugprims device_mesh export flex_lib fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn onnx "
    "onnx_symbolic prim prims profiler quantization quantized quantized_decomposed rngprims sparse static_runtime streams "
    "symm_mem torch_attn torch_nn"
).split()
"""The operator libraries that torch itself registers. Plugins cannot claim their names, but any other library may have
its own handler."""


def _is_registered(operator: str, overload: str) -> bool:
    """Whether torch's dispatcher has `aten::add` with that overload."""
    import torch

    try:
        torch._C._get_schema(operator, "" if overload == "default" else overload)
    except RuntimeError:
        return False
    return True


class LibraryOverloads:
    """Handles every operator that is registered with torch's dispatcher, including ATen.

    The opset version is ATen's (`torch._C._get_max_operator_version()`), 10 in every release since 2.1.
    """

    namespace = "aten"
    prefixes = (_START,)
    keeps = tuple(f"{_START}{library}." for library in TORCH_LIBRARIES)
    opset_version = 10
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """Return `torch.ops.aten.add.Tensor` for that overload; None for anything else."""
        from torch._ops import OpOverload

        if not isinstance(target, OpOverload):
            return None
        namespace, _, operator = target._schema.name.partition("::")
        return f"{_START}{namespace}.{operator}.{target._overloadname}"

    def resolve(self, name: str) -> Any | None:
        """Return the overload of that name, or None if torch's dispatcher does not have it. Nothing is created, and nothing
        imported but the module of torch that registers one of its own libraries."""
        import torch
        from torch._ops import OpOverload, OpOverloadPacket

        match = _NAME.fullmatch(name)
        if match is None:
            return None
        namespace, operator, overload = match.groups()
        wanted = f"{namespace}::{operator}", overload
        if not _is_registered(*wanted) and not (register_late(namespace) and _is_registered(*wanted)):
            return None
        # An operator may have the same name as an attribute of torch's namespace and operator objects.
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload) if isinstance(packet, OpOverloadPacket) else None
        return found if isinstance(found, OpOverload) else None
