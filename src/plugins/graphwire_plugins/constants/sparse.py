"""Constant codec for sparse tensors (COO, CSR, CSC, BSR and BSC), stored as plain tensors of indices and elements.

The tree is `{"layout", "sizes", "coalesced", "parameter", "requires_grad"}`. The tensors of a COO tensor are the
indices (one row for each sparse dimension) and the elements; those of a compressed one are the compressed indices, the
plain indices and the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError
from graphwire.hooks import Tree
from graphwire_plugins.constants.weights import as_weight, check_memory, weight_fields

_INDICES = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
"""For each layout, the methods that return its plain tensors, in order."""


class SparseTensors:
    """Encodes sparse tensors and parameters of torch's own classes."""

    name = "sparse"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a `torch.Tensor` or `torch.nn.Parameter` with a sparse layout."""
        import torch

        return type(value) in (torch.Tensor, torch.nn.Parameter) and _layout_name(value.layout) in _INDICES

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors of a sparse tensor, which share its memory."""
        layout = _layout_name(value.layout)
        tree: Tree = {
            "layout": layout,
            "sizes": list(value.shape),
            "coalesced": value.is_coalesced() if layout == "sparse_coo" else None,
            **weight_fields(value),
        }
        return tree, [getattr(value.detach(), part)() for part in _INDICES[layout]]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the sparse tensor of a tree and its plain tensors. Indices are checked, because kernels trust them.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        match tree:
            case {
                "layout": str(layout),
                "sizes": list(sizes),
                "coalesced": bool() | None as coalesced,
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            }:
                pass
            case _:
                raise DecodeError(f"no sparse tensor is described by {tree!r:.200}")
        if layout not in _INDICES or len(tensors) != len(_INDICES[layout]):
            raise DecodeError(f"a tensor of layout {layout!r:.80} does not consist of {len(tensors)} tensors")
        check_memory(*tensors)
        try:
            sparse = _made(layout, sizes, coalesced, tensors)
        except (RuntimeError, ValueError, TypeError) as error:
            raise DecodeError(f"the indices or elements of a sparse tensor are wrong: {error}") from error
        return as_weight(sparse, parameter, requires_grad)


def _made(layout: str, sizes: Any, coalesced: Any, tensors: Sequence[Any]) -> Any:
    import torch

    # Tensors without elements cannot be checked.
    checked = {"check_invariants": all(tensor.device.type != "meta" for tensor in tensors)}
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(*tensors, sizes, is_coalesced=coalesced, **checked)
    return torch.sparse_compressed_tensor(*tensors, sizes, layout=getattr(torch, layout), **checked)


def _layout_name(layout: Any) -> str:
    return str(layout).removeprefix("torch.")
