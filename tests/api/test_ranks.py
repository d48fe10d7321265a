"""One program for several ranks: each rank has slices of the same stored tensors, and reads nothing else."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import graphwire
from graphwire import errors
from graphwire.cli import main

WIDTH = 4096


class Block(torch.nn.Module):
    """What one of two ranks has of a layer: rows of one weight and of its bias, columns of another, and all of the rest."""

    def __init__(self, rank: int | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        whole = {
            "up.weight": torch.randint(-2, 3, (64, WIDTH)).float(),
            "up.bias": torch.randint(-2, 3, (64,)).float(),
            "down.weight": torch.randint(-2, 3, (32, 2 * WIDTH)).float(),
            "down.bias": torch.randint(-2, 3, (32,)).float(),
            "norm": torch.randint(-2, 3, (64, WIDTH)).float(),
        }
        for name, value in whole.items():
            if rank is not None and name in DIVIDED:
                value = value.chunk(2, DIVIDED[name])[rank].clone()  # noqa: PLW2901
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.norm.sum(0)
        y = (x @ self.up_weight.T + self.up_bias).sum(-1, keepdim=True)
        return (self.down_weight * y[:1]).sum(-1) + self.down_bias


DIVIDED = {"up.weight": 0, "up.bias": 0, "down.weight": 1}
NAMES = {each.replace(".", "_"): each for each in (*DIVIDED, "down.bias")}
X = torch.ones(1, WIDTH)


def program_of(rank: int) -> torch.export.ExportedProgram:
    return torch.export.export(Block(rank), (X,))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of the whole layer in two shards, with the index of a hub."""
    folder = tmp_path_factory.mktemp("hub") / "hub"
    folder.mkdir()
    whole = {NAMES.get(name, name): value.detach() for name, value in Block(None).named_parameters()}
    whole["unused.weight"] = torch.zeros(4, 4)
    shards = [
        {name: whole[name].contiguous() for name in names}
        for names in (("up.weight", "norm", "down.bias"), ("down.weight", "up.bias", "unused.weight"))
    ]
    files = {f"model-0000{number}-of-00002.safetensors": each for number, each in enumerate(shards, 1)}
    for file, tensors in files.items():
        save_file(tensors, folder / file)
    index = {"weight_map": {name: file for file, tensors in files.items() for name in tensors}}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, **index}))
    return folder


def chosen(hub: Path, **changes: Any) -> graphwire.Checkpoint:
    return graphwire.Checkpoint(hub, **{"names": NAMES, "ranks": 2, "shard": DIVIDED, **changes})


@pytest.fixture(scope="module")
def file(hub: Path) -> Path:
    graphwire.save(program_of(1), hub.parent / "m.pt2", weights=chosen(hub, rank=1))
    return hub.parent / "m.pt2"


def resident_bytes(path: Path) -> int:
    """How many bytes of a file the system holds in memory."""
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        try:
            call = ctypes.CDLL(None, use_errno=True).mincore
            assert call(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), pages) == 0
        finally:
            del start
    return sum(each & 1 for each in pages) * mmap.PAGESIZE


def forget(path: Path) -> None:
    """Make the system drop what it holds of a file."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="measured through Linux's /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_reads_and_maps_its_own_elements_only(rank: int, file: Path, hub: Path) -> None:
    """Read-ahead counts: a page of another rank that the system holds afterwards was read from the disk."""
    shards = sorted(hub.glob("*.safetensors"))
    for shard in shards:
        forget(shard)
    if any(map(resident_bytes, shards)):
        pytest.skip("this file system keeps its files in memory")
    program = graphwire.load(file, rank=rank)
    mapped = Path("/proc/self/smaps").read_text()
    assert not any(str(shard) in mapped for shard in shards)
    own = sum(value.nbytes for value in program.state_dict.values())
    assert own == sum(value.nbytes for value in Block(rank).parameters())
    held = sum(map(resident_bytes, shards))
    edges = (32 + 8) * mmap.PAGESIZE  # of each row of `down.weight`, of the other tensors, and of the headers
    assert own <= held <= own + edges
    assert torch.equal(program.module()(X), Block(rank)(X))
    assert held < 0.8 * sum(shard.stat().st_size for shard in shards)


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_has_its_weights_however_they_are_asked_for(
    rank: int, file: Path, hub: Path, tmp_path: Path
) -> None:
    expected = graphwire.content_hash(program_of(rank), weights=True)
    graphwire.save(program_of(0), tmp_path / "bare.pt2", weights=None)
    graphwire.convert(file, file.with_name(f"of_{rank}.pt2"), rank=rank, format="cbor")
    graphwire.convert(file, tmp_path / "whole.pt2", weights=graphwire.IN_FILE, rank=rank)
    graphwire.convert(file, tmp_path / "out.pt2", weights=tmp_path / "w.safetensors", rank=rank)
    graph = graphwire.load(file, weights=None)
    graphwire.bind(graph, chosen(hub, rank=rank))
    for found in (
        graphwire.load(file, rank=rank, verify=True),
        graphwire.load(file, rank=rank, copy=True),
        graphwire.load(file, rank=rank, weights=hub),
        graphwire.load(tmp_path / "bare.pt2", weights=chosen(hub, rank=rank)),
        graphwire.load(tmp_path / "bare.pt2", weights=chosen(hub), rank=rank),
        graphwire.load(file.with_name(f"of_{rank}.pt2")),
        graphwire.load(tmp_path / "whole.pt2"),
        graphwire.load(tmp_path / "out.pt2"),
        graph,
    ):
        assert graphwire.content_hash(found, weights=True) == expected
    assert graphwire.content_hash(file, weights=True, rank=rank) == expected
    assert graphwire.verify(file.with_name(f"of_{rank}.pt2")) == []


def test_a_file_for_all_ranks_is_looked_at_without_naming_one(file: Path) -> None:
    assert graphwire.content_hash(file) == graphwire.content_hash(program_of(0))
    assert graphwire.inspect(file).methods[0].summary.parameters.count == 5
    assert graphwire.load(file, weights=None).state_dict["norm"].is_meta
    assert graphwire.verify(file) == graphwire.verify(file, rank=0) == graphwire.verify(file, rank=1) == []
    assert graphwire.inspect(file, rank=1) == graphwire.inspect(file)
    index = "hub/model.safetensors.index.json"
    for options, divided in (({}, "(another part on each of 2 ranks)"), ({"rank": 1}, "(part)")):
        places = {each.name: each.place for each in graphwire.weights(file, **options)}
        assert places["up_weight"] == f"{index}: up.weight {divided}"
        assert places["norm"] == f"{index}: norm"


@pytest.mark.parametrize("read", ["load", "weights", "content_hash", "convert", "other", "copied"])
def test_elements_need_a_rank(read: str, file: Path, hub: Path, tmp_path: Path) -> None:
    calls = {
        "load": lambda: graphwire.load(file),
        "copied": lambda: graphwire.load(file, copy=True, verify=True),
        "other": lambda: graphwire.load(file, weights=hub),
        "weights": lambda: graphwire.weights(file, export=tmp_path / "w.safetensors"),
        "content_hash": lambda: graphwire.content_hash(file, weights=True),
        "convert": lambda: graphwire.convert(file, tmp_path / "in.pt2", weights=graphwire.IN_FILE),
    }
    with pytest.raises(errors.GraphwireError, match=r"divided between 2 ranks") as caught:
        calls[read]()
    assert "Pass rank=" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_damage_is_found_on_the_rank_that_has_it(file: Path, hub: Path, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    for each in hub.iterdir():
        (tmp_path / "hub" / each.name).write_bytes(each.read_bytes())
    (tmp_path / "m.pt2").write_bytes(file.read_bytes())
    shard = next(iter((tmp_path / "hub").glob("*2-of*")))
    data = bytearray(shard.read_bytes())
    data[-4 * WIDTH] ^= 1  # the second half of the last row of down.weight
    shard.write_bytes(data)
    assert graphwire.verify(tmp_path / "m.pt2", rank=0) == []
    (problem,) = graphwire.verify(tmp_path / "m.pt2")
    assert (problem.kind, "of rank 1" in problem.place) == ("weights", True)
    assert "down.weight" in problem.message
    assert len(graphwire.verify(tmp_path / "m.pt2", rank=1)) == 1
    with pytest.raises(errors.ChecksumError, match=r"down\.weight"):
        graphwire.load(tmp_path / "m.pt2", rank=1, verify=True)


@pytest.mark.parametrize(("rank", "problem"), [(2, "no rank 2"), (-1, "no rank -1"), ("1", "not an integer")])
def test_a_rank_that_is_not_there_is_refused_with_those_that_are(rank: Any, problem: str, file: Path) -> None:
    with pytest.raises(errors.ArchiveError, match=problem) as caught:
        graphwire.load(file, rank=rank)
    assert "from 0 to 1" in caught.value.remedy or "get_rank" in caught.value.remedy


@pytest.mark.parametrize("weights", [graphwire.IN_FILE, "w.safetensors", None])
def test_a_file_that_is_not_divided_has_no_ranks(
    weights: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even rank 0: it would load, where the other ranks of the job fail."""
    monkeypatch.chdir(tmp_path)
    graphwire.save(program_of(0), "m.pt2", weights=weights)
    for read in (graphwire.load, graphwire.inspect, graphwire.weights):
        with pytest.raises(errors.ArchiveError, match=r"not divided between ranks.*Leave rank= out"):
            read("m.pt2", rank=0)
    assert main(["weights", "m.pt2", "--rank", "0"]) == 2
    assert "Leave --rank out" in capsys.readouterr().err


def test_a_world_of_one_rank_is_like_any_other(hub: Path, tmp_path: Path) -> None:
    program = torch.export.export(Block(None), (X,))
    graphwire.save(program, tmp_path / "m.pt2", weights=chosen(hub, ranks=1))
    for options in ({}, {"rank": 0}):
        loaded = graphwire.load(tmp_path / "m.pt2", weights=hub, **options)
        assert torch.equal(loaded.module()(X), Block(None)(X))
    with pytest.raises(errors.ArchiveError, match="no rank 1"):
        graphwire.load(tmp_path / "m.pt2", rank=1)


class TestPatterns:
    """`shard=` divides what it names, or is refused."""

    @pytest.mark.parametrize(
        ("shard", "problem"),
        [
            ({"sideways": 0}, "sideways: no stored tensor has a name that fits"),
            ({"unused.*": 0}, r"unused\.\*: this pattern of shard= fits only .* no weight .*unused\.weight"),
            ({"*norm": 2}, r"norm: shard= divides dimension 2 of norm, which has 2 dimensions"),
            ({"up.*": 1}, r"up_bias: shard= divides dimension 1 of up\.bias, which has 1 dimension[^s]"),
            ({"up.w*": 1}, r"up_weight: several patterns of shard= fit up\.weight"),
        ],
        ids=str,
    )
    def test_what_divides_nothing_is_refused(
        self, shard: dict[str, int], problem: str, hub: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(errors.WeightsError, match=problem):
            graphwire.save(program_of(0), tmp_path / "m.pt2", weights=chosen(hub, shard={**DIVIDED, **shard}))
        assert list(tmp_path.iterdir()) == []

    def test_dimensions_may_be_counted_from_the_end(self, hub: Path, tmp_path: Path) -> None:
        shard = {"up.*": 0, "down.weight": -1, "down.w*": 1}
        graphwire.save(program_of(0), tmp_path / "m.pt2", weights=chosen(hub, shard=shard))
        loaded = graphwire.load(tmp_path / "m.pt2", rank=1, weights=hub)
        assert torch.equal(loaded.state_dict["down_weight"], Block(1).down_weight)

    def test_an_uneven_division_is_refused_with_the_dimension(self, hub: Path, tmp_path: Path) -> None:
        with pytest.raises(errors.WeightsError) as caught:
            graphwire.save(program_of(0), tmp_path / "m.pt2", weights=chosen(hub, ranks=3))
        told = {each.place: each.message for each in caught.value.problems}
        assert told["down_weight"] == (
            "3 ranks cannot divide dimension 1 of down.weight equally: its size there is 8192"
        )
        assert "dimension 0 of up.bias" in told["up_bias"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"ranks": 0},
            {"ranks": "2"},
            {"ranks": 2, "shard": {}},
            {"ranks": 2, "rank": None},
            {"ranks": 2, "shard": {"*": "0"}},
            {"ranks": 2, "shard": {"*": True}},
            {"ranks": None, "rank": 1, "shard": {}},
            {"ranks": None, "shard": {"*": 0}},
        ],
        ids=str,
    )
    def test_choices_are_checked(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(errors.ArchiveError) as caught:
            graphwire.Checkpoint("w", **{"ranks": 2, "shard": {"*": 0}, **wrong})
        assert caught.value.remedy


class Sliced(torch.nn.Module):
    """Slices as torch takes them: views of the whole weight."""

    def __init__(self, rank: int, whole: torch.Tensor, dim: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(whole.chunk(2, dim)[rank])
        self.register_buffer("first", self.weight.detach()[:1], persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.first


@pytest.mark.parametrize("rank", [0, 1])
def test_a_slice_may_be_a_view_of_the_whole_weight(rank: int, tmp_path: Path) -> None:
    whole = torch.randn(6, 5)
    save_file({"weight": whole}, tmp_path / "w.safetensors")
    program = torch.export.export(Sliced(rank, whole, 0), (torch.ones(1),))
    place = graphwire.Checkpoint(tmp_path / "w.safetensors", ranks=2, rank=rank, shard={"weight": 0})
    graphwire.save(program, tmp_path / "m.pt2", weights=place)
    for each in (0, 1):
        loaded = graphwire.load(tmp_path / "m.pt2", rank=each)
        assert torch.equal(loaded.state_dict["weight"], whole.chunk(2)[each])
    turned = torch.export.export(Sliced(rank, torch.randn(4, 6), 1), (torch.ones(1),))
    save_file({"weight": torch.randn(4, 6)}, tmp_path / "w2.safetensors")
    place = graphwire.Checkpoint(tmp_path / "w2.safetensors", ranks=2, rank=rank, shard={"weight": 1})
    with pytest.raises(errors.WeightsError, match=r"weight: it is a view, of 48 of .*\.contiguous\(\)"):
        graphwire.save(turned, tmp_path / "m2.pt2", weights=place)
