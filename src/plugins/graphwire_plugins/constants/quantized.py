"""Constant codec for torch's own quantized tensors (`quint8`, `qint8`, `qint32`), per tensor and per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError
from graphwire.hooks import Tree
from graphwire_plugins.constants.weights import check_memory


class QuantizedTensors:
    """Encodes tensors with `is_quantized` and an affine scheme.

    The tree is `{"scheme", "scale", "zero_point", "axis", "strides"}`. The tensors are the integers and, for a
    per-channel scheme, the scales and the zero points.
    """

    name = "quantized"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a quantized tensor of a supported scheme."""
        import torch

        return isinstance(value, torch.Tensor) and value.is_quantized and value.qscheme() in _schemes()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors."""
        scheme = _schemes()[value.qscheme()]
        single = scheme == "per_tensor"
        tree: Tree = {
            "scheme": scheme,
            "scale": value.q_scale() if single else None,
            "zero_point": value.q_zero_point() if single else None,
            "axis": None if single else value.q_per_channel_axis(),
            "strides": list(value.stride()),
        }
        integers = value.int_repr().as_strided(value.shape, value.stride())
        channels = [] if single else [value.q_per_channel_scales(), value.q_per_channel_zero_points()]
        return tree, [integers, *channels]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the quantized tensor of a tree and its plain tensors.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        import torch

        check_memory(*tensors)
        if any(tensor.is_meta for tensor in tensors):
            raise DecodeError(
                "torch has no quantized tensors without elements",
                remedy="Load it with its weights: a load maps them and reads none of them before they are touched",
            )
        try:
            match tree, list(tensors):
                case {"scheme": "per_tensor", "scale": float(scale), "zero_point": int(zero)}, [integers] if (
                    -(2**31) <= zero < 2**31
                ):
                    return torch._make_per_tensor_quantized_tensor(integers, scale, zero)
                case {"scheme": "per_channel", "axis": int(axis)}, [integers, scales, zeros] if (
                    0 <= axis < integers.dim()
                    and scales.shape == zeros.shape == integers.shape[axis : axis + 1]
                    and scales.dtype.is_floating_point
                    and not (
                        zeros.dtype.is_floating_point or zeros.dtype.is_complex or zeros.dtype is torch.bool
                    )
                ):
                    return torch._make_per_channel_quantized_tensor(integers, scales, zeros, axis)
        except (RuntimeError, TypeError, IndexError) as error:
            raise DecodeError(f"the parts of a quantized tensor are wrong: {error}") from error
        raise DecodeError(f"no quantized tensor is described by {tree!r:.200} and {len(tensors)} tensors")


def _schemes() -> dict[Any, str]:
    import torch

    return {torch.per_tensor_affine: "per_tensor", torch.per_channel_affine: "per_channel"}
