"""Programs whose weights are in checkpoints that one process wrote, and checkpoints that the store writes."""

from __future__ import annotations

import struct
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from graphwire_dcp import DcpStore

import graphwire
from graphwire.errors import WeightsError
from graphwire.wire.weights.folder import Folder


def save_state(state: dict[str, Any], folder: Path, **options: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        dcp.save(state, no_dist=True, storage_writer=dcp.FileSystemWriter(folder, **options))


def exported(model: torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model.eval(), inputs)


def assert_same_weights(program: Any, model: torch.nn.Module) -> None:
    expected = model.state_dict()
    assert program.state_dict.keys() == expected.keys()
    for name, value in expected.items():
        loaded = program.state_dict[name]
        assert loaded.stride() == value.stride()
        assert torch.equal(loaded, value), name


class Odd(torch.nn.Module):
    """Weights of many types, orders and sizes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        conv = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
        self.conv = conv
        self.transposed = torch.nn.Parameter(torch.randn(3, 5).t())
        self.permuted = torch.nn.Parameter(torch.randn(2, 3, 4).permute(2, 0, 1))
        self.slice = torch.nn.Parameter(torch.randn(6, 6)[1:3, 2:5])
        self.expanded = torch.nn.Parameter(torch.randn(1, 3).expand(4, 3))
        self.empty = torch.nn.Parameter(torch.randn(0, 3))
        self.tied = self.transposed
        for dtype in ("bfloat16", "float8_e4m3fn", "complex64", "complex128", "bool", "uint16", "int8"):
            value = torch.tensor([0.0, 1.0, 1.0]).to(getattr(torch, dtype))
            self.register_buffer(f"of_{dtype}", value)
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * self.tied.sum() + self.permuted.sum() * self.count


@pytest.mark.parametrize(
    "options", [{}, {"thread_count": 2}, {"single_file_per_rank": False}], ids=["one", "two", "many"]
)
def test_weights_of_every_kind_come_back(options: dict[str, Any], tmp_path: Path) -> None:
    model, x = Odd(), torch.randn(1, 3, 4, 4)
    state = {"epoch": 3, "names": ["a"], **model.state_dict(), "other": {"deep": [torch.ones(2)]}}
    save_state(state, tmp_path / "checkpoint", **options)
    file = tmp_path / "m.pt2"
    graphwire.save(
        exported(model, x), file, weights=graphwire.Checkpoint(tmp_path / "checkpoint", rest="file")
    )
    program = graphwire.load(file, verify=True)
    for name, value in model.state_dict().items():
        assert torch.equal(program.state_dict[name], value), name
    assert torch.equal(program.module()(x), model(x))


def test_weights_that_differ_or_are_missing_are_all_listed(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    save_state({"weight": model.weight.detach() + 1}, tmp_path / "checkpoint")
    with pytest.raises(WeightsError) as caught:
        graphwire.save(
            exported(model, torch.ones(1, 4)),
            tmp_path / "m.pt2",
            weights=graphwire.Checkpoint(tmp_path / "checkpoint"),
        )
    assert {problem.place for problem in caught.value.problems} == {"weight", "bias"}


def test_torch_reads_what_the_store_writes(tmp_path: Path) -> None:
    model, x = Odd(), torch.randn(1, 3, 4, 4)
    graphwire.save(exported(model, x), tmp_path / "m.pt2", weights=tmp_path / "checkpoint/.metadata")
    assert (tmp_path / "m.pt2").stat().st_size < 60_000
    assert_same_weights(graphwire.load(tmp_path / "m.pt2"), model)
    state = {
        name: torch.zeros_like(value, memory_format=torch.contiguous_format)
        for name, value in model.state_dict().items()
        if name not in ("expanded", "slice")
    }
    with warnings.catch_warnings(action="ignore"):
        reader = dcp.FileSystemReader(tmp_path / "checkpoint")
        stored = reader.read_metadata().state_dict_metadata
        state = {name: value for name, value in state.items() if name in stored}
        dcp.load(state, storage_reader=reader, no_dist=True)
    assert len(state) >= 13
    for name, value in state.items():
        assert torch.equal(value, model.state_dict()[name]), name

    other = torch.nn.Linear(2, 2)
    graphwire.save(
        exported(other, torch.ones(1, 2)), tmp_path / "o.pt2", weights=tmp_path / "checkpoint/.metadata"
    )
    assert_same_weights(graphwire.load(tmp_path / "o.pt2"), other)
    assert_same_weights(graphwire.load(tmp_path / "m.pt2"), model)


def test_checkpoints_of_the_hugging_face_writer_are_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    model = torch.nn.Linear(5, 3)
    writer = dcp.HuggingFaceStorageWriter(str(tmp_path / "hub"))
    with warnings.catch_warnings(action="ignore"):
        dcp.save(model.state_dict(), storage_writer=writer, no_dist=True)
    graphwire.save(
        exported(model, torch.ones(1, 5)), tmp_path / "m.pt2", weights=graphwire.Checkpoint(tmp_path / "hub")
    )
    assert_same_weights(graphwire.load(tmp_path / "m.pt2"), model)


def test_a_checkpoint_of_torch_2_1_is_read() -> None:
    folder = Folder(Path(__file__).parent / "checkpoint_2.1")
    index = DcpStore().open(folder, ".metadata")
    assert {name: index.tensors[name][:2] for name in index.tensors} == {
        "model.weight": ("float32", (2, 3)),
        "model.bias": ("float64", (2,)),
    }
    (chunk,) = index.tensors["model.weight"].chunks
    with closing(folder.open(chunk.file)) as file:
        assert struct.unpack("<6f", file.read_at(chunk.offset, 24)) == (0, 1, 2, 3, 4, 5)
