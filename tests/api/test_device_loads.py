"""Programs that are loaded to a device: they are what they are on the host, and nothing is left of loads that fail."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.bridge import storages, storages as device_copies
from inside.wire import ArchiveReader, ExternalRecord, address
from late_devices import LateDevice, to_device
from nightly import one_in
from programs import Example
from running import results
from safetensors.torch import save_file
from small_programs import ALL_PROGRAMS

import graphwire
from graphwire.errors import ArchiveError, ChecksumError, DecodeError
from graphwire.testing import assert_same_program, assert_same_values

SOURCES = str(Path(graphwire.__file__).parent)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> LateDevice:
    device = LateDevice()
    to_device(monkeypatch, device)
    return device


# ----------------------------------------------------------------------------------------------- whole programs


@pytest.mark.parametrize("example", one_in(3, ALL_PROGRAMS), indirect=True)
def test_programs_load_to_a_device_as_they_load_to_the_host(
    example: Example, saved: bytes, expected: list[Any], late: LateDevice, tmp_path: Path
) -> None:
    """Ties, views, strides and offsets included, and each byte once."""
    path = tmp_path / "model.pt2"
    path.write_bytes(saved)
    loaded = graphwire.load(path)
    assert not late.pending
    assert_same_program(loaded, example.program)
    with graphwire.open(path) as archive:
        assert late.copied_bytes <= archive.payloads_of("model").nbytes
    assert_same_values(results(loaded.module(), example.calls), expected)


@pytest.mark.parametrize("example", one_in(3, ALL_PROGRAMS), indirect=True)
def test_verified_copies_to_a_device_are_the_same(
    example: Example, saved: bytes, late: LateDevice, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(saved)
    assert_same_program(graphwire.load(path, copy=True), example.program)


@pytest.mark.parametrize("copied", [False, True])
def test_files_of_torch_and_bytes_load_to_a_device(copied: bool, late: LateDevice) -> None:
    program = torch.export.export(Layers(), (torch.ones(2, 128),))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    for data in (stream.getvalue(), graphwire.dumps(program), graphwire.dumps(program, target="torch-2.6")):
        before = late.copied_bytes
        loaded = graphwire.loads(data, copy=copied)
        assert late.copied_bytes > before
        assert_same_values(results(loaded.module(), []), results(program.module(), []))


class Layers(torch.nn.Module):
    """Ten storages of 64 KB."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ParameterList(torch.full((128, 128), float(n)) for n in range(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.layers:
            x = x @ each
        return x


class Tied(torch.nn.Module):
    """Two names of one parameter, a view of it, and a buffer that a view of lies in the middle of."""

    def __init__(self, rows: int = 4) -> None:
        super().__init__()
        self.one = torch.nn.Parameter(torch.arange(rows * 4.0).reshape(rows, 4))
        self.two = self.one
        self.register_buffer("row", self.one.detach()[1])
        self.register_buffer("columns", torch.arange(6.0 * rows).reshape(rows, 6)[:, 1:5])
        self.register_buffer("empty", torch.empty(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.one[:4] + x @ self.two[:4] + self.row + self.columns.sum(0) + self.empty.sum()


def test_a_storage_is_copied_once_and_its_tensors_share_it(late: LateDevice) -> None:
    program = torch.export.export(Tied(), (torch.ones(2, 4),))
    _, payloads = graphwire.to_schema(program)
    loaded = graphwire.loads(graphwire.dumps(program))
    state = loaded.state_dict
    assert state["one"] is state["two"]
    assert state["row"].untyped_storage().data_ptr() == state["one"].untyped_storage().data_ptr()
    assert (state["columns"].stride(), state["columns"].storage_offset()) == ((6, 1), 1)
    weights = sum(record.nbytes for name, record in payloads.records.items() if "weights" in name)
    inputs = sum(record.nbytes for name, record in payloads.records.items() if "sample" in name)
    assert late.copied_bytes == weights + inputs


def test_programs_in_memory_go_to_a_device_too(late: LateDevice) -> None:
    program = torch.export.export(Tied(), (torch.ones(2, 4),))
    assert_same_program(graphwire.from_schema(*graphwire.to_schema(program)), program)
    assert late.copied_bytes


def test_the_host_holds_two_buffers_and_maps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every read goes into one of two buffers."""
    device = LateDevice()
    to_device(monkeypatch, device, 4096)
    read_into = ArchiveReader.read_into

    def noted(archive: ArchiveReader, name: str, offset: int, memory: memoryview) -> None:
        start = address(memory)
        assert any(first <= start and start + memory.nbytes <= first + size for first, size in device.host)
        read_into(archive, name, offset, memory)

    monkeypatch.setattr(ArchiveReader, "read_into", noted)
    monkeypatch.delattr(ArchiveReader, "map")
    monkeypatch.delattr(ArchiveReader, "copy")
    program = torch.export.export(Tied(3000), (torch.ones(2, 4),))
    graphwire.save(program, tmp_path / "model.pt2")
    for copied in (False, True):
        device.host.clear()
        loaded = graphwire.load(tmp_path / "model.pt2", copy=copied)
        assert torch.equal(loaded.state_dict["columns"], program.state_dict["columns"])
        assert [size for _, size in device.host][:2] == [4096, 4096]
        # Constants and example inputs have buffers of their own, after those of the weights are released.
        assert device.living() < len(device.alive) - 1


class Pieced(torch.nn.Module):
    """A weight of two stored tensors, one that is stored transposed, a half of a stored one, and one in order."""

    def __init__(self) -> None:
        super().__init__()
        numbers = iter(torch.arange(4 * 60 * 50).reshape(4, 60, 50).double())
        self.both, self.turned, self.part, self.whole = (torch.nn.Parameter(next(numbers)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.both * self.turned * self.part * self.whole


def save_in_parts(folder: Path) -> torch.export.ExportedProgram:
    program = torch.export.export(Pieced(), (torch.ones(1, dtype=torch.float64),))
    state = {name: value.detach() for name, value in program.state_dict.items()}
    stored = {
        "left": state["both"][:, ::2].contiguous(),
        "right": state["both"][:, 1::2].contiguous(),
        "turned": state["turned"].T.contiguous(),
        "half": torch.cat([state["part"], state["part"]], 1),
        "whole": state["whole"],
    }
    save_file(stored, folder / "w.safetensors")
    names: dict[str, Any] = {
        "both": [
            graphwire.Piece("left", into=(slice(None), slice(0, None, 2))),
            graphwire.Piece("right", into=(slice(None), slice(1, None, 2))),
        ],
        "turned": [graphwire.Piece("turned", order=(1, 0))],
        "part": [graphwire.Piece("half", part=(slice(None), slice(50, None)))],
    }
    chosen = graphwire.Checkpoint(folder / "w.safetensors", names=names)
    graphwire.save(program, folder / "m.pt2", weights=chosen)
    return program


@pytest.mark.parametrize("buffer_bytes", [1000, 4096, 1 << 20])
@pytest.mark.parametrize("copied", [False, True])
def test_slices_and_parts_of_weights_elsewhere_pass_through_the_buffers_too(
    buffer_bytes: int, copied: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No record is held whole, or mapped, on the host."""
    program = save_in_parts(tmp_path)
    device = LateDevice()
    to_device(monkeypatch, device, buffer_bytes)
    monkeypatch.setattr(ExternalRecord, "view", lambda _: pytest.fail("the whole record is made"))
    monkeypatch.setattr(device_copies, "_SHARED_BYTES", 2000)
    loaded = graphwire.load(tmp_path / "m.pt2", copy=copied)
    for name, value in program.state_dict.items():
        assert torch.equal(loaded.state_dict[name], value)
    assert all(size <= buffer_bytes for _, size in device.host)
    assert device.copied_bytes >= 4 * 60 * 50 * 8


def test_changed_slices_are_an_error_on_the_way_to_a_device(late: LateDevice, tmp_path: Path) -> None:
    save_in_parts(tmp_path)
    stored = bytearray((tmp_path / "w.safetensors").read_bytes())
    at = stored.find(Pieced().both[59, 1::2].detach().contiguous().numpy().tobytes())
    stored[at] ^= 1
    (tmp_path / "w.safetensors").write_bytes(stored)
    with pytest.raises(ChecksumError, match="'right'"):
        graphwire.load(tmp_path / "m.pt2", copy=True)
    assert late.living() == 0


@pytest.mark.parametrize("method", ["save", "dumps"])
def test_loads_to_the_host_copy_nothing(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(storages, "DeviceCopies")
    program = torch.export.export(Tied(), (torch.ones(2, 4),))
    graphwire.save(program, tmp_path / "model.pt2")
    source = tmp_path / "model.pt2" if method == "save" else graphwire.dumps(program)
    for device in (None, "cpu", "meta"):
        graphwire.load(source, device=device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("copied", [False, True])
def test_a_gpu_computes_what_was_saved(copied: bool, tmp_path: Path) -> None:
    program = torch.export.export(Tied(3_000_000), (torch.ones(2, 4),))
    graphwire.save(program, tmp_path / "model.pt2")
    loaded = graphwire.load(tmp_path / "model.pt2", device="cuda", copy=copied)
    assert loaded.state_dict["one"] is loaded.state_dict["two"]
    for name, tensor in program.state_dict.items():
        assert loaded.state_dict[name].is_cuda
        assert torch.equal(loaded.state_dict[name].cpu(), tensor)
    x = torch.ones(2, 4)
    torch.testing.assert_close(loaded.module()(x.cuda()).cpu(), program.module()(x))


# ------------------------------------------------------------------------------------------------------- errors


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers") / "model.pt2"
    graphwire.save(torch.export.export(Layers(), (torch.ones(2, 128),)), path)
    return path


def assert_loads(path: Path) -> None:
    state = graphwire.load(path).state_dict
    assert all(torch.equal(each, torch.full((128, 128), float(n))) for n, each in enumerate(state.values()))


def test_a_device_out_of_memory_is_an_error_that_holds_none_of_it(
    layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = LateDevice(5 << 16)
    to_device(monkeypatch, device, 100_000)
    with pytest.raises(DecodeError, match=r"weight_5|layers\.5") as caught:
        graphwire.load(layers)
    assert "'cpu' has not enough memory left for 65,536 bytes" in str(caught.value)
    assert "device=" in caught.value.remedy
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    assert not device.pending
    assert device.living() == 0  # though the error is kept
    device.left_bytes = 1 << 30
    assert_loads(layers)


def test_a_file_that_became_shorter_is_an_error(
    layers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = LateDevice()
    to_device(monkeypatch, device)
    path = tmp_path / "model.pt2"
    path.write_bytes(layers.read_bytes())
    with graphwire.open(path) as archive:
        program, payloads = archive.program, archive.payloads_of("model")
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(ArchiveError, match="shorter"):
            graphwire.from_schema(program, payloads)
    assert not device.pending
    assert device.living() == 0
    assert_loads(layers)


def test_a_closed_archive_is_an_error(layers: Path, late: LateDevice) -> None:
    with graphwire.open(layers) as archive:
        program, payloads = archive.program, archive.payloads_of("model")
    with pytest.raises(ArchiveError, match="closed"):
        graphwire.from_schema(program, payloads)


def test_changed_bytes_are_an_error_where_copies_are_verified(
    layers: Path, late: LateDevice, tmp_path: Path
) -> None:
    data = bytearray(layers.read_bytes())
    at = data.find(torch.full((128,), 7.0).numpy().tobytes())
    data[at + 60_000] ^= 1
    (tmp_path / "changed.pt2").write_bytes(data)
    with pytest.raises(ChecksumError, match="weight_7"):
        graphwire.load(tmp_path / "changed.pt2", copy=True)
    assert late.living() == 0
    graphwire.load(tmp_path / "changed.pt2")  # mapped bytes are not verified either


class Broken(LateDevice):
    """A device that fails while it copies."""

    def fence(self) -> Callable[[], object]:
        def wait() -> None:
            self.pending.clear()
            raise RuntimeError("an illegal memory access was encountered")

        return wait


def test_a_copy_that_fails_later_fails_the_load(layers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Broken()
    to_device(monkeypatch, device)
    with pytest.raises(DecodeError, match="copying to the device 'cpu' failed: an illegal memory access"):
        graphwire.load(layers)
    assert device.living() == 0


def test_an_error_stays_the_error_where_the_device_then_fails(
    monkeypatch: pytest.MonkeyPatch, layers: Path
) -> None:
    device = Broken(5 << 16)
    to_device(monkeypatch, device)
    with pytest.raises(DecodeError, match="not enough memory"):
        graphwire.load(layers)
    assert device.living() == 0


def test_an_error_of_the_disk_is_the_callers(
    layers: Path, late: LateDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="Input/output error"):
        graphwire.load(layers)
    assert late.living() == 0
