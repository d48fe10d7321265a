"""Devices that are as late as a GPU may be, for tests where there is none: a byte that is not waited for is a wrong byte.

Their memory is the host's, and their copies are done late. Everything else is what GPUs get.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import pytest
import torch
from inside.bridge import DeviceCopies, storages


class Memory(bytearray):
    """Memory that can be seen to be released."""


class LateDevice:
    """A device that copies at the last moment: when a fence made later is waited for.

    Args:
        memory_bytes: how much memory it has.
    """

    def __init__(self, memory_bytes: int = 1 << 40) -> None:
        self.left_bytes = memory_bytes
        self.pending: deque[tuple[torch.Tensor, torch.Tensor]] = deque()
        self.copied_bytes = 0
        self.host: list[tuple[int, int]] = []
        """The start and size of each host buffer."""
        self.alive: list[weakref.ref[Memory]] = []
        """All memory that was allocated, on the device and on the host."""

    def _memory(self, nbytes: int) -> torch.Tensor:
        memory = Memory(b"\xa5" * nbytes)
        self.alive.append(weakref.ref(memory))
        return torch.frombuffer(memory, dtype=torch.uint8) if nbytes else torch.empty(0, dtype=torch.uint8)

    def allocate(self, nbytes: int) -> torch.Tensor:
        if nbytes > self.left_bytes:
            raise torch.OutOfMemoryError("out of memory, as a GPU says it")
        self.left_bytes -= nbytes
        return self._memory(nbytes)

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        buffer = self._memory(nbytes)
        self.host.append((buffer.data_ptr(), nbytes))
        return buffer

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        assert target.nbytes == source.nbytes > 0
        self.pending.append((target, source))

    def fence(self) -> Callable[[], object]:
        last = self.pending[-1] if self.pending else None

        def wait() -> None:
            while self.pending and any(each is last for each in self.pending):
                self.do_one()

        return wait

    def do_one(self) -> None:
        target, source = self.pending.popleft()
        target.copy_(source)
        self.copied_bytes += target.nbytes

    def living(self) -> int:
        """How much of its memory something still holds: how many pieces."""
        gc.collect()
        return sum(each() is not None for each in self.alive)


class BusyDevice(LateDevice):
    """A device that copies in a thread of its own, a while after it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told: deque[Callable[[], object]] = deque()
        self.more = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while True:
            self.more.acquire()
            todo = self.told.popleft()
            time.sleep(0.001)
            if todo() is self:
                return

    def tell(self, todo: Callable[[], object]) -> None:
        self.told.append(todo)
        self.more.release()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        super().copy(target, source)
        self.tell(self.do_one)

    def fence(self) -> Callable[[], object]:
        reached = threading.Event()
        self.tell(reached.set)
        return lambda: reached.wait(30) or pytest.fail("the device stands still")

    def stop(self) -> None:
        self.tell(lambda: self)
        self.thread.join()


def to_device(
    monkeypatch: pytest.MonkeyPatch, device: storages.Device, buffer_bytes: int | None = None
) -> None:
    """Make the CPU's storages those of a device."""
    monkeypatch.setattr(storages, "device_for", lambda named: None if named.type == "meta" else device)
    if buffer_bytes is not None:
        copies = lambda nbytes: DeviceCopies(nbytes, buffer_bytes)  # noqa: E731
        monkeypatch.setattr(storages, "DeviceCopies", copies)
