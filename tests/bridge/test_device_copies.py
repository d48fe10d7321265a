"""Copies to a device through two buffers: every byte arrives, once, while the next ones are read."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from inside.bridge import Device, DeviceCopies, storages as device_copies
from inside.wire import ArchiveReader, ArchiveWriter, RangedRecord, Record, payload_record
from late_devices import BusyDevice, LateDevice
from safetensors.torch import save_file

import graphwire
from graphwire.errors import ArchiveError

CPU = torch.device("cpu")


class HeldBytes:
    """A record in memory that can only be viewed."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.nbytes = len(content)

    def view(self) -> memoryview:
        return memoryview(self.content)


class BytesInRanges(HeldBytes):
    """A record that can only be read in ranges."""

    def view(self) -> memoryview:
        raise AssertionError("all of it is held")

    def read_into(self, offset: int, memory: memoryview) -> None:
        assert 0 <= offset <= offset + memory.nbytes <= self.nbytes
        memory[:] = self.content[offset : offset + memory.nbytes]

    def check(self) -> None:
        return None


def content_of(nbytes: int, seed: int = 0) -> bytes:
    generator = torch.Generator().manual_seed(seed)
    return bytes_of(torch.randint(0, 256, (nbytes,), dtype=torch.uint8, generator=generator))


def bytes_of(tensor: torch.Tensor) -> bytes:
    found: bytes = tensor.numpy().tobytes()
    return found


# ------------------------------------------------------------------------------------------------- the pipeline


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=12),
    st.sampled_from([1, 64, 65, 100, 256, 1000, 5000]),
)
def test_each_byte_arrives_once_whatever_the_sizes(
    records: list[tuple[int, bool]], buffer_bytes: int
) -> None:
    device = LateDevice()
    contents = [content_of(nbytes, seed) for seed, (nbytes, _) in enumerate(records)]
    kinds = [BytesInRanges if ranged else HeldBytes for _, ranged in records]
    copies = DeviceCopies(sum(map(len, contents)), buffer_bytes)
    with copies:
        made = [
            copies.copy(kind(content), CPU, device) for kind, content in zip(kinds, contents, strict=True)
        ]
    assert [bytes_of(each) for each in made] == contents
    assert device.copied_bytes == sum(map(len, contents))
    assert len(device.host) <= 2
    assert all(size <= buffer_bytes for _, size in device.host)


def test_a_device_that_is_busy_gets_the_same_bytes() -> None:
    device = BusyDevice()
    contents = [content_of(nbytes, nbytes) for nbytes in (5, 4096, 100_000, 64, 0, 33_333)]
    copies = DeviceCopies(1 << 20, 4096)
    with copies:
        made = [copies.copy(BytesInRanges(content), CPU, device) for content in contents]
    device.stop()
    assert [bytes_of(each) for each in made] == contents


class Unfenced(LateDevice):
    """A device whose fences let all through: what a forgotten fence does."""

    forgotten = True

    def fence(self) -> Callable[[], object]:
        return (lambda: None) if self.forgotten else super().fence()


def test_the_late_device_shows_a_forgotten_fence() -> None:
    device = Unfenced()
    content = content_of(10_000)
    copies = DeviceCopies(10_000, 1000)
    with copies:
        made = copies.copy(BytesInRanges(content), CPU, device)
        device.forgotten = False
    assert bytes_of(made) != content


def test_the_next_read_begins_while_a_transfer_is_under_way() -> None:
    """The transfer of the first buffer does not end before the second is read."""
    second = threading.Event()

    class Slow(BusyDevice):
        def do_one(self) -> None:
            assert second.wait(30), "nothing is read during the transfer"
            super().do_one()

    class Told(BytesInRanges):
        def read_into(self, offset: int, memory: memoryview) -> None:
            super().read_into(offset, memory)
            if offset:
                second.set()

    device = Slow()
    content = content_of(3000)
    copies = DeviceCopies(3000, 1000)
    with copies:
        made = copies.copy(Told(content), CPU, device)
    device.stop()
    assert bytes_of(made) == content


def test_large_reads_are_shared_by_threads_that_end() -> None:
    threads = set[int]()

    class Noted(BytesInRanges):
        def read_into(self, offset: int, memory: memoryview) -> None:
            threads.add(threading.get_ident())
            time.sleep(0.01)
            super().read_into(offset, memory)

    before = threading.active_count()
    content = content_of(9_000_001)
    copies = DeviceCopies(len(content), 1 << 22)
    with copies:
        made = copies.copy(Noted(content), CPU, LateDevice())
    assert bytes_of(made) == content
    assert len(threads) > 2
    assert threading.active_count() == before


def test_two_devices_share_two_buffers() -> None:
    devices = {torch.device("cuda", index): LateDevice() for index in range(2)}
    copies = DeviceCopies(1 << 20, 1000)
    made = []
    with copies:
        for number in range(8):
            named = torch.device("cuda", number // 2 % 2)
            made.append(copies.copy(BytesInRanges(content_of(700, number)), named, devices[named]))
            assert sum(each() is not None for device in devices.values() for each in device.alive) <= 2 + len(
                made
            )
    assert [bytes_of(each) for each in made] == [content_of(700, number) for number in range(8)]


def test_torchs_devices_without_queues_take_the_same_path() -> None:
    device = Device(CPU)
    contents = [content_of(nbytes, nbytes) for nbytes in (0, 1, 5000)]
    copies = DeviceCopies(5001, 1000)
    with copies:
        made = [copies.copy(BytesInRanges(each), CPU, device) for each in contents]
    assert [bytes_of(each) for each in made] == contents


def test_a_default_device_does_not_take_the_buffers() -> None:
    torch.set_default_device("meta")
    try:
        assert Device(CPU).host_buffer(8).is_cpu
    finally:
        torch.set_default_device(None)


_LOAD_TO_NOWHERE = """
import re, sys
import torch, graphwire
from graphwire.bridge.tensors import storages
from graphwire.bridge.tensors.storages import DeviceCopies, Device

def peak():
    return int(re.search(r"^VmHWM:\\s+(\\d+)", open("/proc/self/status").read(), re.M)[1]) << 10

nowhere = torch.device("meta")  # takes bytes and keeps none
with graphwire.open(sys.argv[1]) as archive:
    payloads = archive.payloads_of("model", copied=True)
    torch.empty(8, device="meta").copy_(torch.empty(8))
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    copies = DeviceCopies(payloads.nbytes)
    with copies:
        for record in payloads.records.values():
            copies.copy(record, nowhere, Device(nowhere))
    print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through Linux's /proc")
@pytest.mark.parametrize("stored", ["in the file", "in halves elsewhere"])
@pytest.mark.slow
def test_a_large_file_passes_through_two_buffers_of_memory(stored: str, tmp_path: Path) -> None:
    class Large(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.zeros(1 << 12, 1 << 13))

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.table[i]

    path = tmp_path / "large.pt2"
    weights: Any = graphwire.IN_FILE
    if stored == "in halves elsewhere":
        halves = {name: torch.zeros(1 << 12, 1 << 12) for name in ("left", "right")}
        save_file(halves, tmp_path / "w.safetensors")
        pieces = [
            graphwire.Piece(name, into=(slice(None), slice(at, at + (1 << 12))))
            for name, at in (("left", 0), ("right", 1 << 12))
        ]
        weights = graphwire.Checkpoint(tmp_path / "w.safetensors", names={"table": pieces})
    graphwire.save(torch.export.export(Large(), (torch.tensor([1]),)), path, weights=weights)
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) > 1 << 27
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD_TO_NOWHERE, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * device_copies.BUFFER_BYTES + (6 << 20)


# ------------------------------------------------------------------------------------------- records of archives


@settings(deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(["file", "bytes", "nested"]))
def test_ranges_of_a_record_are_its_bytes(start: int, count: int, source: str) -> None:
    with records(source) as (record, content):
        assert isinstance(record, RangedRecord)
        memory = memoryview(bytearray(count))
        if start + count > len(content):
            with pytest.raises(ArchiveError, match=r"no .* stored bytes"):
                record.read_into(start, memory)
        else:
            record.read_into(start, memory)
            assert memory == content[start : start + count]


class records:
    """A record of 3,000 bytes in an archive, of a file, of bytes or inside another archive."""

    def __init__(self, source: str) -> None:
        self.content = content_of(3000)
        stream = io.BytesIO()
        with ArchiveWriter(stream, digests=None) as writer:
            writer.write_stream("data/weights/weight_0", 3000, [self.content])
        outer = io.BytesIO()
        with ArchiveWriter(outer) as writer:
            writer.write("inner.pt", stream.getvalue(), compress=False)
        self.data = {"nested": outer, "bytes": stream, "file": stream}[source].getvalue()
        self.source = source

    def __enter__(self) -> tuple[Record, bytes]:
        if self.source == "file":
            with tempfile.TemporaryFile() as file:
                file.write(self.data)
                self.archive = ArchiveReader(file)
        else:
            self.archive = ArchiveReader(self.data)
        reader = self.archive.nested("inner.pt") if self.source == "nested" else self.archive
        return payload_record(reader, "data/weights/weight_0", copied=False), self.content

    def __exit__(self, *_: object) -> None:
        self.archive.close()


def test_a_deflated_record_is_copied_whole_and_checked() -> None:
    stream = io.BytesIO()
    content = bytes(100_000)
    with ArchiveWriter(stream) as writer:
        writer.write("data/weights/weight_0", content, compress=True)
    record = payload_record(ArchiveReader(stream.getvalue()), "data/weights/weight_0", copied=False)
    assert not isinstance(record, RangedRecord)
    copies = DeviceCopies(record.nbytes, 1000)
    with copies:
        made = copies.copy(record, CPU, LateDevice())
    assert bytes_of(made) == content
