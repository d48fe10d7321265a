"""Constant codec for jagged nested tensors: the elements of all rows, and the offsets of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError
from graphwire.hooks import Tree
from graphwire_plugins.constants.weights import as_weight, check_memory, weight_fields


class JaggedTensors:
    """Encodes `torch.nested` tensors of layout `torch.jagged`.

    The tree is `{"dimension", "shortest", "longest", "lengths", "parameter", "requires_grad"}`, where `lengths` tells
    whether the rows have gaps. The tensors are the elements, the offsets of the rows and, with gaps, their lengths.
    """

    name = "jagged"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a jagged nested tensor."""
        import torch

        return isinstance(value, torch.Tensor) and value.layout is torch.jagged and value.is_nested

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors, which share the value's memory."""
        lengths = value.lengths()
        tree: Tree = {
            "dimension": value._ragged_idx,
            "shortest": value._maybe_min_seqlen,
            "longest": value._maybe_max_seqlen,
            "lengths": lengths is not None,
            **weight_fields(value),
        }
        return tree, [value.values().detach(), value.offsets(), *([] if lengths is None else [lengths])]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the nested tensor of a tree and its plain tensors.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        import torch

        match tree:
            case {
                "dimension": int(dimension),
                "shortest": int() | None as shortest,
                "longest": int() | None as longest,
                "lengths": bool(gaps),
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            } if len(tensors) == 2 + gaps:
                values, offsets, *lengths = tensors
            case _:
                raise DecodeError(
                    f"no jagged tensor is described by {tree!r:.200} and {len(tensors)} tensors"
                )
        _check(values, offsets, lengths)
        try:
            sizes = {"jagged_dim": dimension, "min_seqlen": shortest, "max_seqlen": longest}
            made = torch.nested.nested_tensor_from_jagged(values, offsets, *(lengths or [None]), **sizes)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DecodeError(f"the parts of a jagged tensor are wrong: {error}") from error
        return as_weight(made, parameter, requires_grad)


def _check(values: Any, offsets: Any, lengths: Sequence[Any]) -> None:
    """Check that the offsets increase and stay within the elements, because kernels trust them."""
    for each in (offsets, *lengths):
        if each.dim() != 1 or str(each.dtype) not in ("torch.int64", "torch.int32"):
            raise DecodeError(
                "the offsets and lengths of a jagged tensor are not one-dimensional tensors of integers"
            )
    if values.dim() == 0:
        raise DecodeError("the elements of a jagged tensor have no rows")
    check_memory(offsets, *lengths)
    if offsets.device.type == "meta" or offsets.numel() == 0:
        return
    steps = offsets.diff()
    if int(offsets[0]) < 0 or bool((steps < 0).any()) or int(offsets[-1]) > values.shape[0]:
        raise DecodeError("the offsets of a jagged tensor do not lie within its elements")
    if lengths and (lengths[0].shape != steps.shape or bool(((lengths[0] < 0) | (lengths[0] > steps)).any())):
        raise DecodeError("the lengths of a jagged tensor do not fit its offsets")
