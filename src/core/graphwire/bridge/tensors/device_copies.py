"""Copies records to devices through two host buffers: one is filled from the file while the other is copied to the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from graphwire.errors import DecodeError
from graphwire.process import InterruptSafe
from graphwire.wire import ALIGNMENT, RangedRecord, Record, RecordCheck, memory_at

BUFFER_BYTES = 1 << 24
"""The size of each of the two buffers. Pinned memory takes milliseconds to allocate, and torch keeps it for later use, so this
is no larger than reads and transfers need to reach their full speed."""
_SHARED_BYTES = 1 << 22
"""Reads of at least this many bytes are shared by threads: one processor reads cached files slower than a bus transfers."""
_READERS = 4

_Fill: TypeAlias = Callable[[int, memoryview], object]
"""Fills memory with a record's bytes that begin at an offset."""


class Device(Protocol):
    """What copying to a device needs of it. Tensors here are rows of bytes."""

    def allocate(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the device.

        Raises:
            torch.OutOfMemoryError: the device has no such memory left.
        """
        ...

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the host that `copy` accepts, pinned if the device can read such memory by itself."""
        ...

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Begin to copy a part of a host buffer to as many bytes of the device. The part stays unchanged until a fence made
        later has passed."""
        ...

    def fence(self) -> Callable[[], object]:
        """Return a function that waits until all copies that have begun are done."""
        ...


class TorchDevice:
    """A device of torch.

    On CUDA devices copies are queued on the current stream, so that work queued there later sees the copied bytes. On other
    devices a copy is done when `copy` returns.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._queues = device.type == "cuda"

    def allocate(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the device."""
        return torch.empty(nbytes, dtype=torch.uint8, device=self._device)

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        """Return new memory of the host, pinned for a CUDA device."""
        return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=self._queues)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy; on a CUDA device, only begin to."""
        target.copy_(source, non_blocking=self._queues)

    def fence(self) -> Callable[[], object]:
        """Return a function that waits for the copies that have begun."""
        if not self._queues:
            return _pass
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(self._device))
        return event.synchronize


def _pass() -> None:
    """Do nothing: the copies are done."""


def device_for(device: torch.device) -> Device | None:
    """Return the device that storages are copied to; None if they need no copy, on the CPU and the meta device."""
    return None if device.type in ("cpu", "meta") else TorchDevice(device)


@dataclass(slots=True)
class _Buffer:
    """A host buffer, of which the first `used` bytes are filled."""

    tensor: torch.Tensor
    memory: memoryview
    used: int = 0
    wait: Callable[[], object] = _pass
    """Waits until no copy reads the buffer."""


class DeviceCopies(InterruptSafe):
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
        self._readers: ThreadPoolExecutor | None = None

    def begin(self) -> None:
        """Do nothing: what a copy needs is acquired by the first one."""

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
            readers.shutdown(cancel_futures=True)
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
        except RuntimeError as error:
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
            self._readers = ThreadPoolExecutor(_READERS, "graphwire-read")
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
