"""Converts what torch knows of sparse tensors, beyond any tensor's metadata, to and from records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphwire.errors import DecodeError
from graphwire.schema import ScalarType, SparseMeta

ROW_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr)
COLUMN_COMPRESSED = (torch.sparse_csc, torch.sparse_bsc)
_BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)

_INDEX_TYPES = {ScalarType.INT: torch.int32, ScalarType.LONG: torch.int64}
_INDEX_KINDS = {dtype: kind for kind, dtype in _INDEX_TYPES.items()}


def encode_sparse(tensor: torch.Tensor) -> SparseMeta | None:
    """Return the layout record of a sparse tensor; None for a layout without further properties."""
    layout = tensor.layout
    if layout is torch.sparse_coo:
        return SparseMeta(dense_dim=tensor.dense_dim(), coalesced=tensor.is_coalesced())
    if layout not in ROW_COMPRESSED + COLUMN_COMPRESSED:
        return None
    indices = tensor.crow_indices() if layout in ROW_COMPRESSED else tensor.ccol_indices()
    block = None
    if layout in _BLOCKED:
        rows, columns = tensor.values().shape[indices.dim() : indices.dim() + 2]
        block = [int(rows), int(columns)]
    return SparseMeta(dense_dim=tensor.dense_dim(), index_dtype=_INDEX_KINDS[indices.dtype], block=block)


def decode_sparse(
    record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype, layout: torch.layout
) -> torch.Tensor:
    """Return a sparse tensor without elements on the meta device, as export makes them.

    Raises:
        DecodeError: the record does not describe a tensor of these sizes.
    """
    try:
        if layout is torch.sparse_coo:
            return _coordinates(record, sizes, dtype)
        if layout in ROW_COMPRESSED + COLUMN_COMPRESSED:
            return _compressed(record, sizes, dtype, layout)
    except (RuntimeError, ValueError, KeyError) as error:
        raise DecodeError(f"a tensor of layout {layout} is described wrongly: {error}") from error
    raise DecodeError(f"a graph cannot contain a value of layout {layout}")


def _coordinates(record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    sparse = len(sizes) - record.dense_dim
    if sparse < 0:
        raise ValueError(f"{record.dense_dim} of {len(sizes)} dimensions are dense")
    indices = torch.empty((sparse, 0), dtype=torch.int64, device="meta")
    values = torch.empty((0, *sizes[sparse:]), dtype=dtype, device="meta")
    return torch.sparse_coo_tensor(
        indices, values, sizes, is_coalesced=record.coalesced, check_invariants=False, device="meta"
    )


def _compressed(
    record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype, layout: torch.layout
) -> torch.Tensor:
    batch = len(sizes) - record.dense_dim - 2
    if batch < 0:
        raise ValueError(f"{record.dense_dim} of {len(sizes)} dimensions are dense")
    block = record.block or []
    side = 0 if layout in ROW_COMPRESSED else 1
    lines = sizes[batch + side] // (block[side] if block else 1)
    index_dtype = _INDEX_TYPES[record.index_dtype]
    outer = list(sizes[:batch])
    return torch.sparse_compressed_tensor(
        torch.empty([*outer, lines + 1], dtype=index_dtype, device="meta"),
        torch.empty([*outer, 0], dtype=index_dtype, device="meta"),
        torch.empty([*outer, 0, *block, *sizes[batch + 2 :]], dtype=dtype, device="meta"),
        sizes,
        layout=layout,
        check_invariants=False,
        device="meta",
    )
