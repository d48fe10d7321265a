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
from graphwire_plugins.constants.script_states import check_memory

_INDICES = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
"""For each layout, the methods that return its plain tensors, in order."""

_FIELDS: dict[str, tuple[type, ...]] = {
    "layout": (str,),
    "sizes": (list,),
    "coalesced": (bool, type(None)),
    "parameter": (bool,),
    "requires_grad": (bool,),
}


class SparseTensors:
    """Encodes sparse tensors and parameters of torch's own classes."""

    name = "sparse"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a `torch.Tensor` or `torch.nn.Parameter` with a sparse layout."""
        import torch

        return type(value) in (torch.Tensor, torch.nn.Parameter) and _layout_name(value.layout) in _INDICES

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors of a sparse tensor, which share its memory."""
        import torch

        layout = _layout_name(value.layout)
        tree: Tree = {
            "layout": layout,
            "sizes": list(value.shape),
            "coalesced": value.is_coalesced() if layout == "sparse_coo" else None,
            "parameter": isinstance(value, torch.nn.Parameter),
            "requires_grad": value.requires_grad,
        }
        return tree, [getattr(value.detach(), part)() for part in _INDICES[layout]]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the sparse tensor of a tree and its plain tensors. Indices are checked, because kernels trust them.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        import torch

        if not isinstance(tree, dict) or not all(
            key in tree and isinstance(tree[key], types) for key, types in _FIELDS.items()
        ):
            raise DecodeError(f"no sparse tensor is described by {tree!r:.200}")
        layout = tree["layout"]
        if layout not in _INDICES or len(tensors) != len(_INDICES[layout]):
            raise DecodeError(f"a tensor of layout {layout!r:.80} does not consist of {len(tensors)} tensors")
        check_memory(*tensors)
        try:
            sparse = _made(torch, layout, tree["sizes"], tree["coalesced"], tensors)
        except (RuntimeError, ValueError, TypeError) as error:
            raise DecodeError(f"the indices or elements of a sparse tensor are wrong: {error}") from error
        if tree["parameter"]:
            return torch.nn.Parameter(sparse, requires_grad=tree["requires_grad"])
        return sparse.requires_grad_() if tree["requires_grad"] else sparse


def _made(torch: Any, layout: str, sizes: Any, coalesced: Any, tensors: Sequence[Any]) -> Any:
    # Tensors without elements cannot be checked.
    checked = all(tensor.device.type != "meta" for tensor in tensors)
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(*tensors, sizes, is_coalesced=coalesced, check_invariants=checked)
    return torch.sparse_compressed_tensor(
        *tensors, sizes, layout=getattr(torch, layout), check_invariants=checked
    )


def _layout_name(layout: Any) -> str:
    return str(layout).removeprefix("torch.")
