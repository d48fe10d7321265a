"""Digests of weights and constants that do not depend on their layout in the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from graphwire.analysis.canonical.argument_forms import dtype_content, layout_content
from graphwire.analysis.canonical.encoding import content_bytes
from graphwire.errors import MissingRecordError
from graphwire.schema import ITEM_SIZES, PayloadMeta, TensorMeta


class _Record(Protocol):
    @property
    def nbytes(self) -> int: ...

    def view(self) -> memoryview: ...


class PayloadSet(Protocol):
    """The interface of `graphwire.wire.payloads.Payloads` that this package uses."""

    @property
    def weights(self) -> Mapping[str, PayloadMeta]:
        """By qualified name."""
        ...

    @property
    def constants(self) -> Mapping[str, PayloadMeta]:
        """By qualified name."""
        ...

    @property
    def records(self) -> Mapping[str, _Record]:
        """By full record name."""
        ...


_FOLDERS = {"weight": "data/weights/", "constant": "data/constants/"}


def payload_contents(payloads: PayloadSet) -> list[Any]:
    """Return the content of all payloads: a list of kind (`weight` or `constant`), qualified name and digest for each.

    Raises:
        MissingRecordError: a payload has no record, or its record is too short.
    """
    return [[*key, digest] for key, digest in sorted(payload_digests(payloads).items())]


def payload_digests(payloads: PayloadSet) -> dict[tuple[str, str], str]:
    """Return a digest of each payload's metadata and elements, by kind (`weight` or `constant`) and qualified name.

    Two tensors have the same digest if they have the same element type, shape, order of strides and elements, and share
    memory with tensors of the same names.

    Raises:
        MissingRecordError: a payload has no record, or its record is too short.
    """
    found = {}
    held = {"weight": payloads.weights, "constant": payloads.constants}
    sharing: dict[str, list[str]] = {}
    elements: set[str] = set()
    for kind, folder in _FOLDERS.items():
        for name, meta in held[kind].items():
            sharing.setdefault(meta.shared or folder + meta.path_name, []).append(name)
            if not _is_empty(meta):
                elements.add(meta.shared or folder + meta.path_name)
    for kind, folder in _FOLDERS.items():
        for name, meta in held[kind].items():
            storage = meta.shared or folder + meta.path_name
            # torch writes one record for all weights without elements, even if they are different tensors.
            shared = sorted(sharing[storage]) if meta.placement is None and storage in elements else []
            digest = hashlib.sha256(content_bytes(_content(meta, shared)))
            if meta.placement is None:
                for part in _parts(payloads, folder + meta.path_name, meta):
                    digest.update(part)
            found[kind, name] = digest.hexdigest()
    return found


def _content(meta: PayloadMeta, shared: list[str]) -> dict[str, Any]:
    """Return the content of a payload's metadata, independent of its position in the file. Keys that do not apply are omitted."""
    content: dict[str, Any] = {}
    tensor = meta.tensor_meta
    if meta.conj:
        content["conjugated"] = True
    if tensor is not None:
        content["dtype"] = dtype_content(tensor.dtype, tensor.dtype_name)
        if any(stride == 0 for _, stride in _dimensions(tensor)):
            content["expanded"] = [stride.as_int for stride in tensor.strides]
        content["layout"] = layout_content(tensor.layout, tensor.layout_name)
    if meta.neg:
        content["negated"] = True
    if tensor is not None and (order := _stride_order(tensor)) != sorted(order):
        content["order"] = order
    if meta.is_param:
        content["parameter"] = True
    if meta.use_pickle:
        content["pickled"] = True
    if meta.placement is not None:
        content["placement"] = meta.placement
    if tensor is not None:
        content["requires_grad"] = tensor.requires_grad
    if len(shared) > 1:
        content["shared"] = shared
    if tensor is not None:
        content["sizes"] = [size.as_int for size in tensor.sizes]
    return content


def _is_empty(meta: PayloadMeta) -> bool:
    return meta.tensor_meta is not None and any(size.as_int == 0 for size in meta.tensor_meta.sizes)


def payload_facts(meta: PayloadMeta) -> dict[str, str]:
    """Return the facts about a payload's metadata as text, independent of its position in the file."""
    facts = {"parameter": "yes" if meta.is_param else "no"}
    tensor = meta.tensor_meta
    if tensor is not None:
        sizes = [size.as_int for size in tensor.sizes]
        facts["dtype"] = tensor.dtype_text
        facts["shape"] = f"[{', '.join(map(str, sizes))}]"
        facts["layout"] = tensor.layout_name or tensor.layout.name
        if (order := _stride_order(tensor)) != sorted(order):
            facts["stride order"] = f"[{', '.join(map(str, order))}]"
        if any(stride == 0 for _, stride in _dimensions(tensor)):
            facts["expanded"] = f"[{', '.join(str(stride.as_int) for stride in tensor.strides)}]"
        facts["requires grad"] = "yes" if tensor.requires_grad else "no"
    marks = (("conjugated", meta.conj), ("negated", meta.neg), ("pickled", meta.use_pickle))
    facts |= {name: "yes" for name, is_so in marks if is_so}
    return facts if meta.placement is None else {**facts, "placement": meta.placement}


def _dimensions(tensor: TensorMeta) -> list[tuple[int, int]]:
    """Return the size and stride of each dimension whose size is not 1."""
    return [
        (size.as_int or 0, stride.as_int or 0)
        for size, stride in zip(tensor.sizes, tensor.strides, strict=True)
        if size.as_int != 1
    ]


def _stride_order(tensor: TensorMeta) -> list[int]:
    """Return the dimensions whose size is not 1, numbered among these, the greatest stride first."""
    dimensions = _dimensions(tensor)
    return sorted(range(len(dimensions)), key=lambda index: -dimensions[index][1])


def _parts(payloads: PayloadSet, record_name: str, meta: PayloadMeta) -> Iterator[memoryview]:
    """Yield the bytes of a tensor's elements, the dimension with the greatest stride outermost. Yields the whole record if
    the payload is not a plain tensor, or if its element size is unknown."""
    tensor = meta.tensor_meta
    if _is_empty(meta):
        return
    record = payloads.records.get(record_name)
    if record is None:
        raise MissingRecordError(f"there is no record {record_name!r}", place=record_name)
    view = record.view().cast("B")
    item = 0 if tensor is None or meta.use_pickle else ITEM_SIZES.get(tensor.dtype_text, 0)
    if tensor is None or not item:
        yield view
        return
    dimensions = sorted((d for d in _dimensions(tensor) if d[1] > 0), key=lambda d: d[1])
    run = 1  # number of contiguous elements
    while dimensions and dimensions[0][1] == run:
        run *= dimensions.pop(0)[0]
    start = tensor.storage_offset.as_int or 0
    last = start + run + sum((size - 1) * stride for size, stride in dimensions)
    if last * item > view.nbytes:
        raise MissingRecordError(
            f"the tensor needs {last * item:,} bytes, its record has {view.nbytes:,}", place=record_name
        )
    for offset in _offsets(list(reversed(dimensions)), start):
        yield view[offset * item : (offset + run) * item]


def _offsets(dimensions: list[tuple[int, int]], start: int) -> Iterator[int]:
    """Yield the offset of each run of contiguous elements, the first dimension outermost."""
    if not dimensions:
        yield start
        return
    size, stride = dimensions[0]
    for index in range(size):
        yield from _offsets(dimensions[1:], start + index * stride)
