"""Converts storages of tensors to and from records of bytes. Each storage is written once, for all tensors that share it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from graphwire.bridge import torch_compat
from graphwire.bridge.tensors.device_copies import DeviceCopies, device_for
from graphwire.errors import MissingRecordError
from graphwire.process import InterruptSafe
from graphwire.wire import WEIGHTS, Record, memory_at

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TRIM_FACTOR = 2
_TRIM_BYTES = 1 << 16
"""A storage is written whole unless its tensors use less than 1/TRIM_FACTOR of it and leave this many bytes unused. Trimming
changes the storage offsets of tensors."""
_ALIGNMENT = 64
"""The alignment, in bytes, of a trimmed storage's start, so that offsets of every element type are whole numbers."""


_StorageKey: TypeAlias = "tuple[torch.device | None, int]"
"""The device and address of a storage; for an empty one, which has no address, torch's pointer to it."""


class StorageRecord:
    """The bytes of a storage, or of a part of it. On a device other than the CPU they are copied when requested."""

    __slots__ = ("_start", "_storage", "lends", "nbytes")

    def __init__(self, storage: torch.UntypedStorage, start: int, nbytes: int, *, lends: bool) -> None:
        self._storage = storage
        self._start = start
        self.nbytes = nbytes
        self.lends = lends
        """Whether `view` returns the storage's own memory: it is on the CPU."""

    def view(self) -> memoryview:
        """Return the bytes; the view keeps the storage alive."""
        storage = self._storage if self.lends else self._storage.cpu()
        if self.nbytes == 0:
            return memoryview(b"")
        return memory_at(storage.data_ptr() + self._start, self.nbytes, storage)


@dataclass(slots=True)
class RecordTable:
    """The records of one archive folder, for all programs of a file, with each storage once."""

    folder: str
    stem: str
    records: dict[str, Record] = field(default_factory=dict)
    _names: dict[_StorageKey, tuple[str, int, int]] = field(default_factory=dict)
    weights: RecordTable | None = None
    """For constants: the records of the weights, whose storages constants may share. Both tables share their measurements."""
    exact: bool = False
    """Whether a storage of weights is trimmed to what is used of it, so that nothing else needs a place elsewhere."""
    _spans: dict[_StorageKey, tuple[int, int, int]] = field(default_factory=dict)
    """For each storage the bytes that are used, and the size of the largest element."""
    _measured: dict[int, tuple[torch.Tensor, torch.UntypedStorage, _StorageKey]] = field(default_factory=dict)
    """The measured tensors, by id, and their storages. They are kept alive here, since parts of other values may be temporary
    objects."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            self._spans, self._measured = self.weights._spans, self.weights._measured

    def measure(self, values: Iterable[Any]) -> None:
        """Record the range of each storage that the tensors use. Runs first for all programs of a file, so that one record
        holds what all of them use of a storage."""
        for tensor in values:
            if id(tensor) not in self._measured and is_plain(tensor) and placement_of(tensor) is None:
                storage = tensor.untyped_storage()
                key = storage_key(tensor, storage)
                self._measured[id(tensor)] = tensor, storage, key
                low, high = byte_span(tensor)
                known = self._spans.get(key)
                item = tensor.element_size()
                self._spans[key] = (
                    (low, high, item)
                    if known is None
                    else (min(low, known[0]), max(high, known[1]), max(item, known[2]))
                )

    def knows(self, value: Any) -> bool:
        """Return whether a value was measured: it is a plain tensor with elements."""
        return id(value) in self._measured

    def add_all(self, tensors: Sequence[torch.Tensor]) -> None:
        """Make records for the storages of all tensors, each as long as its tensors need."""
        self.measure(tensors)
        for tensor in tensors:
            _, storage, key = self._measured[id(tensor)]
            low, high, item = self._spans[key]
            known = self._names.get(key)
            if known is not None and known[1] <= low and high <= known[2]:
                continue
            total = storage.nbytes()
            exact = self.exact and (self.weights is None or key in self.weights._names)
            low -= low % (item if exact else _ALIGNMENT)
            if exact:
                pass
            elif (high - low) * _TRIM_FACTOR >= total or total - (high - low) < _TRIM_BYTES:
                low, high = 0, total
            name = f"{self.stem}{len(self.records)}"
            self.records[self.folder + name] = StorageRecord(storage, low, high - low, lends=tensor.is_cpu)
            self._names[key] = (name, low, high)

    def place(self, tensor: torch.Tensor) -> tuple[str, int, str | None]:
        """Return the record that holds a tensor, the byte of its storage at which the record begins, and the full name of the
        equal record of the weights, if any."""
        _, _, key = self._measured[id(tensor)]
        name, low, high = self._names[key]
        weight = None if self.weights is None else self.weights._names.get(key)
        shared = f"{WEIGHTS}{weight[0]}" if weight is not None and weight[1:] == (low, high) else None
        return name, low, shared


def storage_key(tensor: torch.Tensor, storage: torch.UntypedStorage | None = None) -> _StorageKey:
    """Return what tensors with the same storage have in common.

    Args:
        storage: the tensor's storage, if it is known.
    """
    storage = tensor.untyped_storage() if storage is None else storage
    pointer = storage.data_ptr()
    return (tensor.device, pointer) if pointer else (None, storage._cdata)


def byte_span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the byte range of its storage that a tensor uses: the first byte, and one past the last."""
    item, count = tensor.element_size(), tensor.numel()
    start = tensor.storage_offset()
    if count == 0:
        return start * item, start * item
    if tensor.is_contiguous():
        return start * item, (start + count) * item
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start * item, (start + reach + 1) * item


def is_plain(value: Any) -> bool:
    """Return whether a value is a tensor that its storage, sizes and strides describe completely."""
    return (
        type(value) in _PLAIN
        and value.layout is torch.strided
        and not value.is_quantized
        and not torch_compat.is_transformed(value)
    )


def placement_of(value: Any) -> str | None:
    """Return the kind of a tensor without elements, `fake` or `meta`; None for any other value."""
    if type(value) in _PLAIN:  # the common case; each check costs as much as the one attribute
        return "meta" if value.is_meta and is_plain(value) else None
    return "fake" if isinstance(value, torch_compat.FakeTensor) and value.layout is torch.strided else None


# ----------------------------------------------------------------------------------------------------- decode


@dataclass(slots=True)
class StorageTable(InterruptSafe):
    """The storages of a load; makes each record into a storage once.

    On the CPU a storage is the view of its record. To other devices its bytes are copied, which may be unfinished until the
    end of the block that the table is the context manager of.
    """

    records: Mapping[str, Record]
    place_device: Callable[[torch.device], torch.device]
    graph_only: bool
    """Whether tensors are made without elements and no record is read."""
    _bytes: dict[tuple[str, torch.device], torch.Tensor] = field(default_factory=dict)
    _copies: DeviceCopies | None = None
    """The copies to devices, once there is one."""

    def begin(self) -> None:
        """Do nothing: the first copy acquires what it needs."""

    def end(self, error: BaseException | None) -> None:
        """Wait for the copies to devices. After an error, release the memory that they went to, even if the error is kept."""
        if self._copies is None:
            return
        self._copies.end(error)
        if error is not None:
            self._bytes.clear()
            traceback.clear_frames(error.__traceback__)

    def empty_storage(self, name: str, nbytes: int) -> torch.UntypedStorage:
        """Return a storage without elements for a record, on the meta device.

        Args:
            nbytes: its size if the record is not there.
        """
        key = (name, torch.device("meta"))
        whole = self._bytes.get(key)
        if whole is None:
            record = self.records.get(name)
            size = nbytes if record is None else record.nbytes
            whole = self._bytes[key] = torch.empty(size, dtype=torch.uint8, device="meta")
        return whole.untyped_storage()

    def storage(self, name: str, device: torch.device) -> torch.UntypedStorage:
        """Return the storage of a record, on `device`."""
        key = (name, device)
        whole = self._bytes.get(key)
        if whole is None:
            record = self.records.get(name)
            if record is None:
                raise MissingRecordError(f"the archive has no record {name!r}")
            whole = self._bytes[key] = self._made(record, device)
        return whole.untyped_storage()

    def _made(self, record: Record, device: torch.device) -> torch.Tensor:
        target = device_for(device)
        if target is not None:
            if self._copies is None:
                self._copies = DeviceCopies(sum(each.nbytes for each in self.records.values()))
            return self._copies.copy(record, device, target)
        view = record.view()
        whole = (
            torch.frombuffer(view, dtype=torch.uint8) if record.nbytes else torch.empty(0, dtype=torch.uint8)
        )
        return whole if device.type == "cpu" else whole.to(device)
