"""Operator handler for overloads of `torch.library` operators: `torch.ops.NAMESPACE.OPERATOR.OVERLOAD`."""

from __future__ import annotations

import re
from typing import Any

from graphwire.lazy import pattern

_NAME = pattern(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)
_START = "torch.ops."


TORCH_LIBRARIES = (
    "_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _quantized _test aten c10d c10d_functional "
    "debug_mode_ops debugprims export flex_lib fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn onnx "
    "onnx_symbolic prim prims profiler quantization quantized quantized_decomposed rngprims sparse static_runtime streams "
    "symm_mem"
).split()
"""The operator libraries that torch itself registers. Plugins cannot claim their names, but any other library may have
its own handler."""


def _register_quantized_decomposed() -> None:
    """Make torch register its library of decomposed quantization, which `import torch` alone does not."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401


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
        """Return the overload of that name, or None if torch's dispatcher does not have it. Nothing is created or
        imported."""
        import torch
        from torch._ops import OpOverload, OpOverloadPacket

        match = _NAME.fullmatch(name)
        if match is None:
            return None
        namespace, operator, overload = match.groups()
        if namespace == "quantized_decomposed":
            _register_quantized_decomposed()
        try:
            torch._C._get_schema(f"{namespace}::{operator}", "" if overload == "default" else overload)
        except RuntimeError:
            return None
        # An operator may have the same name as an attribute of torch's namespace and operator objects.
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload) if isinstance(packet, OpOverloadPacket) else None
        return found if isinstance(found, OpOverload) else None
