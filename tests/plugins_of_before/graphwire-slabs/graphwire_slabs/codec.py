"""The tensor subclass `Slabs`, and its constant codec, which stores it as plain tensors and data.

torch is imported when a weight is met, and no earlier: `graphwire plugins` stays fast.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from graphwire import hookimpl
from graphwire.errors import DecodeError
from graphwire.hooks import ConstantCodec, Tree

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""


@functools.cache
def tensor_class() -> Any:
    """Return the class: a tensor that repeats one row, and stores it once."""
    import torch

    class Slabs(torch.Tensor):
        @staticmethod
        def __new__(cls: Any, row: Any, rows: int) -> Any:
            sizes = (rows, *row.shape)
            return torch.Tensor._make_wrapper_subclass(cls, sizes, dtype=row.dtype, device=row.device)

        def __init__(self, row: Any, rows: int) -> None:
            self.row = row

        def __tensor_flatten__(self) -> tuple[list[str], int]:
            return ["row"], self.shape[0]

        @staticmethod
        def __tensor_unflatten__(inner: dict[str, Any], rows: int, size: Any, stride: Any) -> Any:
            return Slabs(inner["row"], rows)

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten.detach.default:
                return Slabs(args[0].row.detach(), args[0].shape[0])
            full = [each.row.expand(each.shape) if isinstance(each, Slabs) else each for each in args]
            return function(*full, **(kwargs or {}))

    return Slabs


class SlabsCodec:
    """The constant codec of `Slabs`: a tensor with the row, and the number of rows."""

    name = "slabs"

    def owns(self, value: Any) -> bool:
        """Return whether `value` is a `Slabs`. Before torch is imported, none exists."""
        return "torch" in sys.modules and type(value) is tensor_class()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the number of rows, and the row."""
        return {"rows": value.shape[0]}, [value.row]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the decoded tensor.

        Raises:
            DecodeError: `encode` cannot have made the tree or the tensors.
        """
        match tree, list(tensors):
            case {"rows": int(rows)}, [row] if type(rows) is int and rows >= 0:
                return tensor_class()(row, rows)
        raise DecodeError(f"this does not describe a Slabs: {tree!r:.80} and {len(tensors)} tensors")


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """Return the constant codecs of this plugin."""
    return [SlabsCodec()]
