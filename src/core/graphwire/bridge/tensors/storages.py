"""Storages of tensors ⇄ records of bytes: each storage once, however many tensors lie in it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from graphwire.bridge import torch_compat
from graphwire.errors import MissingRecordError
from graphwire.wire import WEIGHTS, Record

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TRIM_FACTOR = 2
_TRIM_BYTES = 1 << 16
"""A storage is written whole unless its tensors reach less than one part in TRIM_FACTOR of it, and leave so many bytes
out: a tensor that is cut out of its storage gets another storage offset."""
_ALIGNMENT = 64
"""Bytes: where a part of a storage may begin, so that every element type can count in elements from there."""


_StorageKey: TypeAlias = "tuple[torch.device | None, int]"
"""The device and address of a storage; of an empty one, which has none, what torch knows it by."""


class StorageRecord:
    """The bytes of a storage in memory, or of a part of it; on another device they are copied when asked for."""

    __slots__ = ("_start", "_storage", "lends", "nbytes")

    def __init__(self, storage: torch.UntypedStorage, start: int, nbytes: int, *, lends: bool) -> None:
        self._storage = storage
        self._start = start
        self.nbytes = nbytes
        self.lends = lends
        """Whether the bytes are the storage's own: it lies in memory, not on another device."""

    def view(self) -> memoryview:
        """The bytes; the view keeps the storage alive."""
        storage = self._storage if self.lends else self._storage.cpu()
        if self.nbytes == 0:
            return memoryview(b"")
        array = (ctypes.c_char * self.nbytes).from_address(storage.data_ptr() + self._start)
        array.owner = storage  # type: ignore[attr-defined]
        return memoryview(array).cast("B")


@dataclass(slots=True)
class RecordTable:
    """The records of one folder, each storage once, over all programs of a file."""

    folder: str
    stem: str
    records: dict[str, Record] = field(default_factory=dict)
    _names: dict[_StorageKey, tuple[str, int, int]] = field(default_factory=dict)
    weights: RecordTable | None = None
    """Of the constants: the records of the weights, in whose storages constants may lie too. Both are measured as one."""
    _spans: dict[_StorageKey, tuple[int, int]] = field(default_factory=dict)
    _measured: dict[int, tuple[torch.Tensor, torch.UntypedStorage, _StorageKey]] = field(default_factory=dict)
    """The tensors that are measured, by id, and their storages. They are kept here, since the parts of others may be made
    for the asking."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            self._spans, self._measured = self.weights._spans, self.weights._measured

    def measure(self, values: Iterable[Any]) -> None:
        """Note how much of their storages tensors reach. Done ahead for every program of a file, so that one record holds
        what all of them read of a storage."""
        for tensor in values:
            if id(tensor) not in self._measured and is_plain(tensor) and placement_of(tensor) is None:
                storage = tensor.untyped_storage()
                key = _storage_key(tensor, storage)
                self._measured[id(tensor)] = tensor, storage, key
                low, high = _span(tensor)
                known = self._spans.get(key)
                self._spans[key] = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))

    def knows(self, value: Any) -> bool:
        """Whether a value was measured: it is a plain tensor with elements."""
        return id(value) in self._measured

    def add_all(self, tensors: Sequence[torch.Tensor]) -> None:
        """Make records for the storages of all tensors, each as long as its tensors need."""
        self.measure(tensors)
        for tensor in tensors:
            _, storage, key = self._measured[id(tensor)]
            low, high = self._spans[key]
            known = self._names.get(key)
            if known is not None and known[1] <= low and high <= known[2]:
                continue
            total = storage.nbytes()
            low -= low % _ALIGNMENT
            if (high - low) * _TRIM_FACTOR >= total or total - (high - low) < _TRIM_BYTES:
                low, high = 0, total
            name = f"{self.stem}{len(self.records)}"
            self.records[self.folder + name] = StorageRecord(storage, low, high - low, lends=tensor.is_cpu)
            self._names[key] = (name, low, high)

    def place(self, tensor: torch.Tensor) -> tuple[str, int, str | None]:
        """The record that holds a tensor, the byte of its storage that the record begins with, and the full name of the
        weights' record that is the same."""
        _, _, key = self._measured[id(tensor)]
        name, low, high = self._names[key]
        weight = None if self.weights is None else self.weights._names.get(key)
        shared = f"{WEIGHTS}{weight[0]}" if weight is not None and weight[1:] == (low, high) else None
        return name, low, shared


def _storage_key(tensor: torch.Tensor, storage: torch.UntypedStorage) -> _StorageKey:
    pointer = storage.data_ptr()
    return (tensor.device, pointer) if pointer else (None, storage._cdata)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of its storage that a tensor reaches: first, and one past the last."""
    item, count = tensor.element_size(), tensor.numel()
    start = tensor.storage_offset()
    if count == 0:
        return start * item, start * item
    if tensor.is_contiguous():
        return start * item, (start + count) * item
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start * item, (start + reach + 1) * item


def is_plain(value: Any) -> bool:
    """Whether a value is a tensor that its storage, sizes and strides describe."""
    return (
        type(value) in _PLAIN
        and value.layout is torch.strided
        and not value.is_quantized
        and not torch_compat.is_transformed(value)
    )


def placement_of(value: Any) -> str | None:
    """Where a tensor is that has no elements: `fake` or `meta`; None for any other value."""
    if type(value) in _PLAIN:  # as most are, and each question takes as long as asking it of the tensor
        return "meta" if value.is_meta and is_plain(value) else None
    return "fake" if isinstance(value, torch_compat.FakeTensor) and value.layout is torch.strided else None


# ----------------------------------------------------------------------------------------------------- decode


@dataclass(slots=True)
class StorageTable:
    """The storages of a load, each record made into one once."""

    records: Mapping[str, Record]
    place_device: Callable[[torch.device], torch.device]
    graph_only: bool
    """Whether tensors are made without elements, and no record is read."""
    _bytes: dict[tuple[str, torch.device], torch.Tensor] = field(default_factory=dict)

    def storage(self, name: str, device: torch.device) -> torch.UntypedStorage:
        """The storage of a record, on `device`."""
        key = (name, device)
        whole = self._bytes.get(key)
        if whole is None:
            record = self.records.get(name)
            if record is None:
                raise MissingRecordError(f"the archive has no record {name!r}")
            view = record.view()
            whole = (
                torch.frombuffer(view, dtype=torch.uint8)
                if record.nbytes
                else torch.empty(0, dtype=torch.uint8)
            )
            if device.type != "cpu":
                whole = whole.to(device)
            self._bytes[key] = whole
        return whole.untyped_storage()
