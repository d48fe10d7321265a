"""Converts storages of tensors to and from records of bytes. Each storage is written once, for all tensors that share it."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec
import torch

from graphwire.bridge.torch_compat.private import FakeTensor, ReadTensor, read_if_plain
from graphwire.errors import ArchiveError, DecodeError, MissingRecordError, unless_interrupted
from graphwire.process import Resource, Threads
from graphwire.schema import TensorMeta
from graphwire.wire.archive.source import ALIGNMENT, memory_at
from graphwire.wire.payloads import WEIGHTS, RangedRecord, Record, RecordCheck

# ------------------------------------------------------------------- copies records to devices through two host buffers
# one is filled from the file while the other is copied to the device.


BUFFER_BYTES = 1 << 24
"""The size of each of the two buffers. Pinned memory takes milliseconds to allocate, and torch keeps it for later use, so this
is no larger than reads and transfers need to reach their full speed."""
_SHARED_BYTES = 1 << 22
"""Reads of at least this many bytes are shared by threads: one processor reads cached files slower than a bus transfers."""
_READERS = 4

_Fill: TypeAlias = Callable[[int, memoryview], object]
"""Fills memory with a record's bytes that begin at an offset."""


class Device:
    """A device of torch.

    On CUDA devices copies are queued on the current stream, so that work queued there later sees the copied bytes. On other
    devices a copy is done when `copy` returns.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._queues = device.type == "cuda"

    def allocate(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the device, as a row of bytes.

        Raises:
            torch.OutOfMemoryError: the device has no such memory left.
        """
        return torch.empty(nbytes, dtype=torch.uint8, device=self._device)

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the host, pinned for a CUDA device."""
        return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=self._queues)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy a part of a host buffer; on a CUDA device, only begin to. The part stays unchanged until a fence made later has
        passed."""
        target.copy_(source, non_blocking=self._queues)

    def fence(self) -> Callable[[], object]:
        """Return a function that waits for the copies that have begun."""
        if not self._queues:
            return _pass
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(self._device))
        return event.synchronize


_CPU = torch.device("cpu")
"""Comparing with it takes a tenth of the time of reading a device's type."""


def _pass() -> None:
    """Do nothing: the copies are done."""


def device_for(device: torch.device) -> Device | None:
    """Return the device that storages are copied to; None if they need no copy, on the CPU and the meta device."""
    return None if device == _CPU or device.type in ("cpu", "meta") else Device(device)


@dataclass(slots=True, eq=False, repr=False)
class _Buffer:
    """A host buffer, of which the first `used` bytes are filled."""

    tensor: torch.Tensor
    memory: memoryview
    used: int = 0
    wait: Callable[[], object] = _pass
    """Waits until no copy reads the buffer."""


class DeviceCopies(Resource):
    """Copies records to devices. The copies may be unfinished until the block ends, even if an error ends it.

    Args:
        nbytes: the size of everything that may be copied, in bytes; no buffer is larger.
        buffer_bytes: the largest size of each of the two buffers, in bytes.
    """

    def __init__(self, nbytes: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        # Whole elements in each, so that what copies boxes of tensors together need not cut any.
        nbytes = max(nbytes + -nbytes % ALIGNMENT, 1)
        self._buffer_bytes = min(buffer_bytes, nbytes)
        self._device: Device | None = None
        """The device that the copies in flight go to."""
        self._named: torch.device | None = None
        """Its name."""
        self._buffers: list[_Buffer] = []
        """At most two; the first is filled next."""
        self._readers: Threads | None = None

    def copy(self, record: Record, named: torch.device, device: Device) -> torch.Tensor:
        """Return new memory of a device that the bytes of a record are copied to.

        Args:
            named: the device's name.
            device: the device. Copies to another one wait until those to this one are done, so that two buffers suffice.

        Raises:
            DecodeError: the device has no memory left, or copying failed.
            ChecksumError: the record is checked, and its bytes differ from the written ones.
            ArchiveError: the record is damaged, or its file became shorter.
        """
        if named != self._named:
            self._settle()
            self._device, self._named = device, named
        target = _allocate(device, named, record.nbytes)
        fill, check = self._reading(record)
        at = 0
        while at < record.nbytes:
            buffer = self._buffer_with_room(device)
            start, stop = buffer.used, min(buffer.used + record.nbytes - at, self._buffer_bytes)
            memory = buffer.memory[start:stop]
            fill(at, memory)
            if check is not None:
                check.update(memory)
            device.copy(target[at : at + memory.nbytes], buffer.tensor[start:stop])
            buffer.used = stop + -stop % ALIGNMENT
            at += memory.nbytes
        if check is not None:
            check.finish()
        return target

    def end(self, error: BaseException | None) -> None:
        """Wait for all reads and copies, and release the buffers.

        Raises:
            DecodeError: copying failed, and no other error ended the block.
        """
        readers = self._readers
        if readers is not None:
            readers.close()
            self._readers = None
        try:
            self._settle()
        except DecodeError:
            if error is None:
                raise

    def _settle(self) -> None:
        """Wait for the copies in flight, and release the buffers. If an interrupt ends the wait, the buffers stay for another."""
        if not self._buffers or self._device is None:
            return
        try:
            self._device.fence()()
        except unless_interrupted(RuntimeError) as error:
            self._buffers = []
            raise DecodeError(
                f"copying to the device {str(self._named)!r} failed: {error}",
                remedy="Load the program to another device, or to the CPU",
            ) from error
        self._buffers = []

    def _buffer_with_room(self, device: Device) -> _Buffer:
        """Return the buffer to fill next. If the last one is full, that is the other one, after the copies from it."""
        buffers = self._buffers
        if buffers and buffers[0].used < self._buffer_bytes:
            return buffers[0]
        if buffers:
            buffers[0].wait = device.fence()
        if len(buffers) < 2:
            tensor = device.host_buffer(self._buffer_bytes)
            storage = tensor.untyped_storage()
            memory = memory_at(storage.data_ptr(), self._buffer_bytes, storage)
            buffers.insert(0, _Buffer(tensor, memory))
        else:
            buffers.reverse()
            buffers[0].wait()
            buffers[0].used = 0
        return buffers[0]

    def _reading(self, record: Record) -> tuple[_Fill, RecordCheck | None]:
        """Return how to read a record, and the check of what is read."""
        if isinstance(record, RangedRecord):
            return functools.partial(self._read, record), record.check()
        view = record.view()

        def fill(offset: int, memory: memoryview) -> None:
            memory[:] = view[offset : offset + memory.nbytes]

        return fill, None

    def _read(self, record: RangedRecord, offset: int, memory: memoryview) -> None:
        if memory.nbytes < _SHARED_BYTES:
            record.read_into(offset, memory)
            return
        if self._readers is None:
            self._readers = Threads(_READERS, "graphwire-read")
        step = -(-memory.nbytes // _READERS)
        step += -step % ALIGNMENT
        reads = [
            self._readers.submit(record.read_into, offset + start, memory[start : start + step])
            for start in range(0, memory.nbytes, step)
        ]
        for read in reads:
            read.result()


def _allocate(device: Device, named: torch.device, nbytes: int) -> torch.Tensor:
    try:
        return device.allocate(nbytes)
    except torch.OutOfMemoryError as error:
        raise DecodeError(
            f"the device {str(named)!r} has not enough memory left for {nbytes:,} bytes",
            remedy="Free memory there, or name another device with device=",
        ) from error


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TRIM_FACTOR = 2
_TRIM_BYTES = 1 << 16
"""A storage is written whole unless its tensors use less than 1/TRIM_FACTOR of it and leave this many bytes unused. Trimming
changes the storage offsets of tensors."""
_ALIGNMENT = 64
"""The alignment, in bytes, of a trimmed storage's start, so that offsets of every element type are whole numbers."""


_StorageKey: TypeAlias = "tuple[torch.device | None, int]"
"""The device and address of a storage; for an empty one, which has no address, torch's pointer to it."""


class StorageRecord(msgspec.Struct, eq=False):
    """The bytes of a storage, or of a part of it. On a device other than the CPU they are copied when requested."""

    _storage: torch.UntypedStorage
    _start: int
    nbytes: int
    lends: bool
    """Whether `view` returns the storage's own memory: it is on the CPU."""

    __repr__ = object.__repr__  # that of a storage has all bytes

    def view(self) -> memoryview:
        """Return the bytes; the view keeps the storage alive."""
        storage = self._storage if self.lends else self._storage.cpu()
        if self.nbytes == 0:
            return memoryview(b"")
        return memory_at(storage.data_ptr() + self._start, self.nbytes, storage)


@dataclass(slots=True, eq=False, repr=False)
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
    measured: dict[int, tuple[torch.Tensor, torch.UntypedStorage, _StorageKey, ReadTensor]] = field(
        default_factory=dict
    )
    """The plain tensors with elements so far, by id, their storages, and what describes them. They are kept alive here, since
    parts of other values may be temporary objects."""
    _reaches: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """The size of an element, and the bytes from the first element to past the last, by element type, sizes and strides."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            self._spans, self.measured = self.weights._spans, self.weights.measured
            self._reaches = self.weights._reaches

    def measure(self, values: Iterable[Any]) -> None:
        """Record the range of each storage that the tensors use. Runs first for all programs of a file, so that one record
        holds what all of them use of a storage."""
        measured, spans, reaches = self.measured, self._spans, self._reaches
        for tensor in values:
            identity = id(tensor)
            if identity in measured or (read := read_if_plain(tensor)) is None or tensor.is_meta:
                continue
            (_, sizes, dtype, _, _, device), strides, offset = read
            storage = tensor.untyped_storage()
            pointer = storage.data_ptr()
            key = (device, pointer) if pointer else (None, storage._cdata)
            measured[identity] = tensor, storage, key, read
            extent = reaches.get((dtype, sizes, strides))
            if extent is None:
                item = dtype.itemsize
                reach = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
                extent = reaches[dtype, sizes, strides] = item, 0 if 0 in sizes else item * (sum(reach) + 1)
            item, nbytes = extent
            low = offset * item
            known = spans.get(key)
            spans[key] = (
                (low, low + nbytes, item)
                if known is None
                else (min(low, known[0]), max(low + nbytes, known[1]), max(item, known[2]))
            )

    def add_all(self, tensors: Sequence[torch.Tensor]) -> None:
        """Make records for the storages of all tensors, each as long as its tensors need."""
        self.measure(tensors)
        measured, spans, names, records = self.measured, self._spans, self._names, self.records
        for tensor in tensors:
            _, storage, key, _ = measured[id(tensor)]
            low, high, item = spans[key]
            known = names.get(key)
            if known is not None and known[1] <= low and high <= known[2]:
                continue
            total = storage.nbytes()
            exact = self.exact and (self.weights is None or key in self.weights._names)
            low -= low % (item if exact else _ALIGNMENT)
            if exact:
                pass
            elif (high - low) * _TRIM_FACTOR >= total or total - (high - low) < _TRIM_BYTES:
                low, high = 0, total
            name = f"{self.stem}{len(records)}"
            records[self.folder + name] = StorageRecord(storage, low, high - low, tensor.is_cpu)
            names[key] = (name, low, high)

    def place(self, key: _StorageKey) -> tuple[str, int, str | None]:
        """Return the record that holds a storage, the byte of the storage at which the record begins, and the full name of the
        equal record of the weights, if any."""
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
    return read_if_plain(value) is not None


def view_of(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    device: torch.device,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
) -> torch.Tensor:
    """Return a tensor of a storage, from an offset in elements."""
    return _without_elements(dtype, device).set_(storage, offset, sizes, strides)


def set_on(tensor: torch.Tensor, storage: torch.UntypedStorage, form: StridedTensor) -> torch.Tensor:
    """Set a tensor on a storage, and return it.

    Raises:
        ArchiveError: the storage is too short for it.
    """
    _check_reach(form, storage.nbytes())
    return tensor.set_(storage, form.offset, form.sizes, form.strides)


def _check_reach(form: StridedTensor, nbytes: int) -> None:
    if form.nbytes > nbytes:
        raise ArchiveError(f"the tensor needs {form.nbytes:,} bytes, its record has {nbytes:,}")


def _without_elements(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    try:
        return torch.empty(0, dtype=dtype, device=device)
    except unless_interrupted(RuntimeError):
        # With deterministic algorithms torch fills what it makes, and cannot with elements of few bits. A view is not filled.
        return torch.empty(0, dtype=torch.uint8, device=device).view(dtype)


def placement_of(value: Any) -> str | None:
    """Return the kind of a tensor without elements, `fake` or `meta`; None for any other value."""
    if type(value) in _PLAIN:  # the common case; each check costs as much as the one attribute
        return "meta" if value.is_meta and is_plain(value) else None
    return "fake" if isinstance(value, FakeTensor) and value.layout is torch.strided else None


# ----------------------------------------------------------------------------------------------------- decode


_OF_BUFFERS = frozenset(
    (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    )
)
"""The element types that every torch reads from a buffer; the others begin as bytes."""


class StridedTensor(NamedTuple):
    """The contents of the record of a tensor with elements, as torch's types."""

    record: TensorMeta
    """Kept alive here because lookups use its id."""
    dtype: torch.dtype
    sizes: list[int]
    strides: list[int]
    offset: int
    nbytes: int
    """How many bytes, from its storage's start, it needs."""
    is_dense: bool
    """Whether its elements, at least one in at least one dimension, are in their order and without gaps from the start of its
    storage."""


@dataclass(slots=True, eq=False, repr=False)
class StorageTable(Resource):
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
    _of_buffers: frozenset[torch.dtype] = field(
        default_factory=lambda: _OF_BUFFERS if device_for(_CPU) is None else frozenset()
    )

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

    def tensor(self, name: str, device: torch.device, form: StridedTensor) -> torch.Tensor:
        """Return a tensor of a record.

        Raises:
            ArchiveError: the record is too short for it.
        """
        key = (name, device)
        _, dtype, sizes, strides, offset, needed, is_dense = form
        # The first of a record on the CPU has the whole storage: setting it again takes half the time of making another one.
        if dtype in self._of_buffers and key not in self._bytes and device == _CPU:
            record = self.records.get(name)
            if record is not None and (nbytes := record.nbytes) and not nbytes % dtype.itemsize:
                whole = self._bytes[key] = torch.frombuffer(record.view(), dtype=dtype)
                if is_dense and nbytes == needed:  # to set sizes alone takes half the time
                    return whole if len(sizes) == 1 else whole.resize_(*sizes)
                _check_reach(form, nbytes)
                return whole.as_strided_(sizes, strides, offset)
        return set_on(_without_elements(dtype, device), self.storage(name, device), form)

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
        return whole if device == _CPU else whole.to(device)
