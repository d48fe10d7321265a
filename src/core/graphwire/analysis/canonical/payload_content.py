"""Digests of weights and constants that do not depend on their layout in the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from graphwire.analysis.canonical.argument_forms import layout_content
from graphwire.analysis.canonical.encoding import content_bytes
from graphwire.errors import MissingRecordError
from graphwire.schema import ITEM_SIZES, PayloadMeta, TensorMeta


class PayloadRecord(Protocol):
    """The interface of records that this package uses."""

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
    def unread(self) -> Mapping[str, str]:
        """Why weights and constants are not read, by qualified name."""
        ...

    @property
    def records(self) -> Mapping[str, PayloadRecord]:
        """By full record name."""
        ...


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
    for key, each in named_payloads(payloads).items():
        digest = hashlib.sha256(content_bytes(_content(each.meta, each.sharing)))
        if each.meta.placement is None:
            for part in _parts(payloads, each.record, each.meta):
                digest.update(part)
        found[key] = digest.hexdigest()
    return found


class NamedPayload(NamedTuple):
    """A weight or constant with the place of its elements."""

    meta: PayloadMeta
    record: str
    """The full name of its record."""
    sharing: list[str]
    """The names of all that share its memory, sorted; empty if it has no memory."""


def named_payloads(payloads: PayloadSet) -> dict[tuple[str, str], NamedPayload]:
    """Return weights and constants by kind (`weight` or `constant`) and qualified name. Reads no elements."""
    named = [
        (kind, name, folder + meta.path_name, meta)
        for kind, folder, metas in (
            ("weight", "data/weights/", payloads.weights),
            ("constant", "data/constants/", payloads.constants),
        )
        for name, meta in metas.items()
    ]
    sharing: dict[str, list[str]] = {}
    for _, name, record, meta in named:
        sharing.setdefault(meta.shared or record, []).append(name)
    # torch writes one record for all weights without elements, even if they are different tensors.
    elements = {meta.shared or record for *_, record, meta in named if not is_empty(meta)}
    found = {}
    for kind, name, record, meta in named:
        storage = meta.shared or record
        is_shared = meta.placement is None and storage in elements
        found[kind, name] = NamedPayload(meta, record, sorted(sharing[storage]) if is_shared else [])
    return found


def _content(meta: PayloadMeta, shared: list[str]) -> dict[str, Any]:
    """Return the content of a payload's metadata, independent of its position in the file. Facts that do not apply are
    omitted."""
    content: dict[str, Any] = {
        "conjugated": meta.conj,
        "negated": meta.neg,
        "parameter": meta.is_param,
        "pickled": meta.use_pickle,
        "placement": meta.placement,
        "shared": shared if len(shared) > 1 else None,
    }
    content = {name: fact for name, fact in content.items() if fact is not None and fact is not False}
    if (tensor := meta.tensor_meta) is not None:
        content["dtype"] = tensor.dtype_text
        content["layout"] = layout_content(tensor.layout, tensor.layout_name)
        content["requires_grad"] = tensor.requires_grad
        content["sizes"] = [size.as_int for size in tensor.sizes]
        content |= _unusual_strides(tensor)
    return dict(sorted(content.items()))


def is_empty(meta: PayloadMeta) -> bool:
    """Return whether a tensor has no elements."""
    return meta.tensor_meta is not None and any(size.as_int == 0 for size in meta.tensor_meta.sizes)


def payload_facts(meta: PayloadMeta) -> dict[str, str]:
    """Return the facts about a payload's metadata as text, independent of its position in the file."""
    facts = {"parameter": "yes" if meta.is_param else "no"}
    if (tensor := meta.tensor_meta) is not None:
        facts["dtype"] = tensor.dtype_text
        facts["shape"] = str([size.as_int for size in tensor.sizes])
        facts["layout"] = tensor.layout_name or tensor.layout.name
        unusual = _unusual_strides(tensor)
        facts |= {what.replace("order", "stride order"): str(numbers) for what, numbers in unusual.items()}
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


def _unusual_strides(tensor: TensorMeta) -> dict[str, list[Any]]:
    """Return two facts, each only if it applies: `order`, the dimensions whose size is not 1, numbered among these, the
    greatest stride first; and `expanded`, all strides, if one of these dimensions has the stride 0."""
    dimensions = _dimensions(tensor)
    order = sorted(range(len(dimensions)), key=lambda index: -dimensions[index][1])
    found: dict[str, list[Any]] = {} if order == sorted(order) else {"order": order}
    if any(stride == 0 for _, stride in dimensions):
        found["expanded"] = [stride.as_int for stride in tensor.strides]
    return found


def _parts(payloads: PayloadSet, record_name: str, meta: PayloadMeta) -> Iterator[memoryview]:
    """Yield the bytes of a tensor's elements, the dimension with the greatest stride outermost. Yields the whole record if
    the payload is not a plain tensor, or if its element size is unknown."""
    tensor = meta.tensor_meta
    if is_empty(meta):
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
