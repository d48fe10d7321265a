"""Converts the metadata of a tensor (type, shape, strides, device) to and from records."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from graphwire import schema
from graphwire.analysis.validation.value_rules import TensorFacts
from graphwire.bridge.context import DecodeContext, DescribedTensor, EncodeContext
from graphwire.bridge.tensors.symbols import decode_number, encode_size, is_cheap_to_compute, symbolic_integer
from graphwire.bridge.torch_compat.private import (
    device_of,
    may_have_symbolic_sizes,
    mkldnn_layout,
    symbolic_identities,
)
from graphwire.errors import DecodeError
from graphwire.schema import ScalarType, SparseMeta

# ----------------------- converts what torch knows of sparse tensors, beyond any tensor's metadata, to and from records


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


def name_in_torch(kind: torch.dtype | torch.layout) -> str:
    """Return torch's name of an element type or layout, without the prefix `torch.`."""
    return str(kind).removeprefix("torch.")


SCALAR_TYPES: dict[torch.dtype, schema.ScalarType] = {
    getattr(torch, name): kind for kind, name in schema.DTYPE_NAMES.items()
}
DTYPES: dict[schema.ScalarType, torch.dtype] = {kind: dtype for dtype, kind in SCALAR_TYPES.items()}
NAMED_DTYPES: dict[str, torch.dtype] = {
    name_in_torch(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)
}

LAYOUTS: dict[schema.Layout, torch.layout] = {
    schema.Layout.SparseCoo: torch.sparse_coo,
    schema.Layout.SparseCsr: torch.sparse_csr,
    schema.Layout.SparseCsc: torch.sparse_csc,
    schema.Layout.SparseBsr: torch.sparse_bsr,
    schema.Layout.SparseBsc: torch.sparse_bsc,
    schema.Layout._mkldnn: mkldnn_layout,
    schema.Layout.Strided: torch.strided,
}
LAYOUT_KINDS: dict[torch.layout, schema.Layout] = {layout: kind for kind, layout in LAYOUTS.items()}
NAMED_LAYOUTS: dict[str, torch.layout] = {
    name_in_torch(each): each for each in vars(torch).values() if isinstance(each, torch.layout)
}

MEMORY_FORMATS: dict[schema.MemoryFormat, torch.memory_format] = {
    schema.MemoryFormat.ContiguousFormat: torch.contiguous_format,
    schema.MemoryFormat.ChannelsLast: torch.channels_last,
    schema.MemoryFormat.ChannelsLast3d: torch.channels_last_3d,
    schema.MemoryFormat.PreserveFormat: torch.preserve_format,
}
MEMORY_FORMAT_KINDS: dict[torch.memory_format, schema.MemoryFormat] = {
    f: kind for kind, f in MEMORY_FORMATS.items()
}


_META = torch.device("meta")
"""torch parses the name of a device at each call."""

_MOST_DEVICE = 127
"""The largest device index: torch stores it in eight bits, and wraps around."""


def encode_device(device: torch.device) -> schema.Device:
    """Encode a device."""
    return schema.Device(device.type, device.index)


def decode_device(context: DecodeContext, record: schema.Device) -> torch.device:
    """Return the device to use for a record, as the `device=` of the load maps it."""
    key = (record.type, record.index)
    device = context.devices.get(key)
    if device is None:
        if record.index is not None and not 0 <= record.index <= _MOST_DEVICE:
            raise DecodeError(f"the device {record.type!r}:{record.index} does not exist")
        try:
            named = torch.device(*key[: 1 if record.index is None else 2])
        except RuntimeError:
            raise DecodeError(
                f"this torch does not support the device {record.type!r}:{record.index}"
            ) from None
        device = context.devices[key] = context.place_device(named)
    return device


def encode_tensor_meta(context: EncodeContext, tensor: torch.Tensor) -> schema.TensorMeta:
    """Encode the metadata of a tensor. Equal tensors share one record."""
    layout, sizes = tensor.layout, tensor.shape
    if layout is not torch.strided:
        # torch writes strides of 0 here, and needs them to read the document.
        return _tensor_meta(context, tensor, sizes, (0,) * len(sizes), 0, encode_sparse(tensor))
    strides, offset = tensor.stride(), tensor.storage_offset()
    numbers: tuple[Any, ...] = (sizes, strides, offset)
    is_symbolic = may_have_symbolic_sizes(tensor)
    if is_symbolic:
        numbers = symbolic_identities((*sizes, *strides, offset))
    key = (tensor.dtype, numbers, tensor.requires_grad, device_of(tensor))
    record = context.tensor_metas.get(key)
    if record is None:
        same: Any = key
        if is_symbolic:  # symbolic numbers with other identities may be equal
            extents = [
                n if type(n) is int else symbolic_integer(context, n).key for n in (*sizes, *strides, offset)
            ]
            same = (key[0], tuple(extents), *key[2:])
            record = context.tensor_metas.get(same)
        if record is None:
            record = context.tensor_metas[same] = _tensor_meta(context, tensor, sizes, strides, offset)
        context.tensor_metas[key] = record
    return record


def _tensor_meta(
    context: EncodeContext,
    tensor: torch.Tensor,
    sizes: Sequence[Any],
    strides: Sequence[Any],
    offset: Any,
    sparse: schema.SparseMeta | None = None,
) -> schema.TensorMeta:
    dtype = SCALAR_TYPES.get(tensor.dtype, schema.ScalarType.UNKNOWN)
    layout = LAYOUT_KINDS.get(tensor.layout, schema.Layout.Unknown)
    names: dict[str, str] = {}
    if dtype is schema.ScalarType.UNKNOWN:
        names["dtype_name"] = name_in_torch(tensor.dtype)
        context.features.add("dtypes")
    if layout is schema.Layout.Unknown:
        names["layout_name"] = name_in_torch(tensor.layout)
        context.features.add("layouts")
    return schema.TensorMeta(
        dtype=dtype,
        sizes=[encode_size(context, size) for size in sizes],
        requires_grad=tensor.requires_grad,
        device=encode_device(tensor.device),
        strides=[encode_size(context, stride) for stride in strides],
        storage_offset=encode_size(context, offset),
        layout=layout,
        sparse=sparse,
        **names,
    )


_QUANTIZED = frozenset("qint8 quint8 qint32 quint4x2 quint2x4".split())
"""Quantized element types: constant codecs make tensors of them, and graphs have no values of them."""


def decode_dtype(record: schema.TensorMeta) -> torch.dtype:
    """Return the element type of a record.

    Raises:
        DecodeError: the installed torch does not have the type.
    """
    if record.dtype is not schema.ScalarType.UNKNOWN:
        return DTYPES[record.dtype]
    dtype = NAMED_DTYPES.get(record.dtype_name or "")
    if dtype is None:
        raise DecodeError(
            f"this torch has no element type {record.dtype_text!r}", remedy="Install a newer torch"
        )
    if record.dtype_name in _QUANTIZED:
        raise DecodeError(f"torch cannot make a tensor of {record.dtype_name} without its scale")
    return dtype


def decode_layout(record: schema.TensorMeta) -> torch.layout:
    """Return the layout of a record.

    Raises:
        DecodeError: the installed torch does not have the layout.
    """
    layout = LAYOUTS.get(record.layout) or NAMED_LAYOUTS.get(record.layout_name or "")
    if layout is None:
        raise DecodeError(f"this torch has no layout {record.layout_name or record.layout!r}")
    return layout


def _decode_extents(context: DecodeContext, records: list[schema.SymInt]) -> list[Any]:
    return [record.as_int if record.as_expr is None else decode_number(context, record) for record in records]


def decode_tensor_meta(
    context: DecodeContext, record: schema.TensorMeta, *, input_value: bool
) -> torch.Tensor:
    """Return a new fake tensor with the type, shape, strides and device of a record.

    Args:
        input_value: whether it represents a graph input. Tracing the program again starts from inputs, so their storage has
            its full size, unless torch must not compute with the sizes. A value inside the graph gets its own empty storage;
            with symbolic sizes that is 20 times faster to make.
    """
    found = context.described.get(id(record))
    if found is None:
        found = context.described[id(record)] = _described(context, record)
    _, dtype, layout, device, sizes, strides, offset, known, empty = found
    if empty is not None:
        meta = empty()
    elif layout is not torch.strided:
        meta = decode_sparse(record.sparse or schema.SparseMeta(), sizes, dtype, layout)
    elif known or not input_value or not is_cheap_to_compute(context, (*sizes, *strides, offset)):
        meta = torch.empty(0, dtype=dtype, device=_META).as_strided(sizes, strides, offset)
    else:
        meta = torch.empty_strided(sizes, strides, dtype=dtype, device=_META)
        if type(offset) is not int or offset != 0:
            meta = meta.as_strided(sizes, strides, offset)
    return context.fakes.make(meta, device, record.requires_grad)


def _described(context: DecodeContext, record: schema.TensorMeta) -> DescribedTensor:
    dtype, layout = decode_dtype(record), decode_layout(record)
    device = decode_device(context, record.device)
    sizes = _decode_extents(context, record.sizes)
    strides = _decode_extents(context, record.strides) if layout is torch.strided else []
    offset = decode_number(context, record.storage_offset)
    known = not context.values or all(type(number) is int for number in (*sizes, *strides, offset))
    empty = None
    if known and offset == 0 and layout is torch.strided:
        empty = functools.partial(
            torch.empty_strided, tuple(sizes), tuple(strides), dtype=dtype, device=_META
        )
    return DescribedTensor(record, dtype, layout, device, sizes, strides, offset, known, empty)


def target_device(device: str | int | torch.device | None) -> torch.device | None:
    """Return the device that a caller requests.

    Raises:
        DecodeError: torch does not support the device.
    """
    if device is None or isinstance(device, torch.device):
        return device
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DecodeError(
            f"torch does not support the device {device!r:.80}",
            remedy="Use torch's device names: cpu, cuda, cuda:0",
        ) from error


def visible_facts(tensor: torch.Tensor) -> TensorFacts:
    """Return the facts to compare about a tensor that a codec makes: its outer properties, without the strides of its
    parts."""
    kind = LAYOUT_KINDS.get(tensor.layout)
    layout = name_in_torch(tensor.layout) if kind is None else kind.name
    sizes = [size if type(size) is int else None for size in tensor.shape]
    return TensorFacts(name_in_torch(tensor.dtype), layout, sizes, [])
