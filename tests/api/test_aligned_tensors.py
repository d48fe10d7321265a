"""The memory of loaded tensors begins where torch's own does, at a multiple of 64 bytes: TVM and others take no other."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire

SIZES = (1, 3, 17, 63, 64, 65, 1000, (1 << 18) - 1, 1 << 18, 300_001)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for size in SIZES:
            self.register_buffer(f"kept_{size}", torch.arange(float(size)))
            self.register_buffer(f"constant_{size}", torch.arange(float(size)) + 1, persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        return [x + buffer[0] for buffer in self.buffers()]


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(_Model(), (torch.ones(3),))


def _of_torch(program: ExportedProgram) -> bytes:
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return stream.getvalue()


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    assert program.example_inputs is not None
    return {**program.state_dict, **program.constants, "input": program.example_inputs[0][0]}


@pytest.mark.parametrize("make", [graphwire.dumps, _of_torch])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("source", [bytes, bytearray, lambda data: b"?" + data, io.BytesIO, "path", "stream"])
def test_every_loaded_tensor_begins_at_a_multiple_of_64_bytes(
    tmp_path: Path, program: ExportedProgram, make: Callable[..., bytes], copy: bool, source: Any
) -> None:
    data = make(program)
    path = tmp_path / "program.pt2"
    path.write_bytes(data)
    if source == "path":
        loaded = graphwire.load(path, copy=copy)
    elif source == "stream":
        with path.open("rb") as stream:
            loaded = graphwire.load(stream, copy=copy)
    else:
        given = source(data)
        # a part of other bytes begins anywhere
        given = memoryview(given)[1:] if isinstance(given, bytes) and given[:1] == b"?" else given
        loaded = graphwire.load(given, copy=copy)
    assert {name: tensor.untyped_storage().data_ptr() % 64 for name, tensor in _tensors(loaded).items()} == (
        dict.fromkeys(_tensors(program), 0)
    )
    for name, tensor in _tensors(program).items():
        assert torch.equal(_tensors(loaded)[name], tensor), name


def test_the_other_byte_order_begins_there_too(program: ExportedProgram) -> None:
    from inside.wire import ALIGNMENT, ArchiveReader, SwappedRecord, address, payload_record

    with ArchiveReader(graphwire.dumps(program)) as archive:
        for name in archive.names:
            record = SwappedRecord(payload_record(archive, name, copied=False), 1)
            if record.nbytes:
                assert address(record.view()) % ALIGNMENT == 0
