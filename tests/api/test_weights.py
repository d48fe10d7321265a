"""Weights outside of a program's file: written, referred to, absent, given; found again wherever both are moved."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.export import ExportedProgram

import graphwire
from graphwire import errors


class Model(torch.nn.Module):
    """A tie, a transposed parameter, a buffer, a buffer that is not saved, and views of one storage."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.turned = torch.nn.Parameter(torch.randn(8, 16).t())
        self.register_buffer("scale", torch.randn(8))
        self.register_buffer("unsaved", torch.randn(8), persistent=False)
        both = torch.randn(2, 8)
        self.register_buffer("all_of_both", both)
        self.register_buffer("one_of_both", both[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x)) @ self.turned
        return y * self.scale + self.unsaved + self.all_of_both.sum(0) + self.one_of_both


MODEL = Model()
X = torch.randn(3, 16)
PROGRAM = torch.export.export(MODEL, (X,))
EXPECTED = PROGRAM.module()(X)


def check(program: ExportedProgram) -> None:
    state = program.state_dict
    assert torch.equal(program.module()(X), EXPECTED)
    assert state["first.weight"] is state["second.weight"]
    assert state["turned"].stride() == (1, 16)
    views = state["all_of_both"], state["one_of_both"]
    assert views[0].untyped_storage().data_ptr() == views[1].untyped_storage().data_ptr()
    assert isinstance(state["turned"], torch.nn.Parameter)
    assert state["turned"].requires_grad
    assert not state["scale"].requires_grad


PLACES: dict[str, Callable[[Path], Any]] = {
    "in the file": lambda _: graphwire.IN_FILE,
    "safetensors": lambda folder: folder / "m.safetensors",
    "safetensors below": lambda folder: folder / "below" / "m.safetensors",
    "blobs": lambda folder: graphwire.Blobs(folder / "blobs"),
}


@pytest.fixture(params=PLACES)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "below").mkdir()
    graphwire.save(PROGRAM, folder / "m.pt2", weights=PLACES[request.param](folder))
    return folder / "m.pt2"


@pytest.mark.parametrize("options", [{}, {"copy": True}, {"verify": True}], ids=str)
def test_weights_are_found_where_they_are(saved: Path, options: dict[str, Any]) -> None:
    check(graphwire.load(saved, **options))
    assert graphwire.verify(saved) == []


def test_both_can_be_moved(saved: Path, tmp_path: Path) -> None:
    shutil.move(saved.parent, tmp_path / "there")
    check(graphwire.load(tmp_path / "there" / "m.pt2"))


def test_a_relative_path_is_enough(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    check(graphwire.load("m.pt2"))


def test_the_hash_is_the_same_wherever_the_weights_are(saved: Path) -> None:
    assert graphwire.content_hash(saved) == graphwire.content_hash(PROGRAM)
    assert graphwire.content_hash(saved, weights=True) == graphwire.content_hash(PROGRAM, weights=True)
    assert graphwire.diff(saved, PROGRAM, weights=True).same


def test_a_change_of_a_loaded_weight_changes_neither_the_file_nor_another_weight(saved: Path) -> None:
    program = graphwire.load(saved)
    with torch.no_grad():
        program.state_dict["first.bias"].fill_(7)
    assert not torch.equal(program.state_dict["second.bias"], program.state_dict["first.bias"])
    check(graphwire.load(saved))


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_conversions_leave_weights_where_they_are(saved: Path, format: str) -> None:
    graphwire.convert(saved, saved.with_name("c.pt2"), format=format)
    check(graphwire.load(saved.with_name("c.pt2")))
    places = [[each.place for each in graphwire.weights(name)] for name in (saved, saved.with_name("c.pt2"))]
    assert places[0] == places[1]


@pytest.mark.parametrize("place", PLACES)
def test_conversions_move_weights_anywhere(saved: Path, place: str) -> None:
    there = saved.parent / "converted"
    there.mkdir()
    (there / "below").mkdir()
    graphwire.convert(saved, there / "c.pt2", weights=PLACES[place](there))
    shutil.move(there, saved.parents[1] / "converted")
    shutil.rmtree(saved.parent)
    check(graphwire.load(saved.parents[1] / "converted" / "c.pt2"))


def test_torch_reads_weights_inside_only(saved: Path) -> None:
    inside = {each.place for each in graphwire.weights(saved)} == {"file"}
    obstacles = [each.construct for each in graphwire.supports(saved, "torch")]
    assert any("not in the file" in each for each in obstacles) is not inside
    graphwire.convert(saved, saved.with_name("t.pt2"), target="torch")
    assert torch.equal(torch.export.load(saved.with_name("t.pt2")).module()(X), EXPECTED)


def test_a_constant_over_a_weight_elsewhere_is_hashed_and_written_for_torch(tmp_path: Path) -> None:
    class Lent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.nn.Parameter(torch.randn(4))
            self.register_buffer("lent", self.kept.detach(), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.kept + self.lent

    program = torch.export.export(Lent(), (torch.ones(4),))
    graphwire.save(program, tmp_path / "m.pt2", weights=tmp_path / "m.safetensors")
    expected = graphwire.content_hash(program, weights=True)
    assert graphwire.content_hash(tmp_path / "m.pt2", weights=True) == expected
    for options in ({"target": "torch"}, {"weights": graphwire.IN_FILE}):
        graphwire.convert(tmp_path / "m.pt2", tmp_path / "t.pt2", **options)
        found = torch.export.load(tmp_path / "t.pt2").module()(torch.ones(4))
        assert torch.equal(found, program.module()(torch.ones(4)))
    graphwire.save(program, tmp_path / "bare.pt2", weights=None)
    with pytest.raises(errors.WeightsError, match="saved without weights"):
        graphwire.load(tmp_path / "bare.pt2")
    given = graphwire.load(tmp_path / "bare.pt2", weights=tmp_path / "m.safetensors")
    assert given.state_dict["kept"].data_ptr() == given.constants["lent"].data_ptr()


def test_a_target_takes_no_weights_outside(tmp_path: Path) -> None:
    with pytest.raises(errors.EncodeError, match="inside the file only"):
        graphwire.save(PROGRAM, tmp_path / "m.pt2", target="torch-2.6", weights=tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_other_libraries_read_what_is_written(tmp_path: Path) -> None:
    graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=tmp_path / "m.safetensors")
    found = load_file(tmp_path / "m.safetensors")
    assert set(found) == {"first.weight", "first.bias", "second.bias", "turned", "scale"}
    for name, value in found.items():
        assert torch.equal(value, PROGRAM.state_dict[name])
    places = {each.name: each.place for each in graphwire.weights(tmp_path / "m.pt2")}
    assert places["all_of_both"] == places["one_of_both"] == "file", "views stay in the file"


class TestGiven:
    """Weights that whoever loads the file brings."""

    @pytest.fixture
    def bare(self, tmp_path: Path) -> Path:
        graphwire.save(PROGRAM, tmp_path / "bare.pt2", weights=None)
        return tmp_path / "bare.pt2"

    def test_without_weights_a_load_says_what_to_do(self, bare: Path) -> None:
        with pytest.raises(errors.WeightsError, match="saved without weights") as caught:
            graphwire.load(bare)
        assert "weights=" in caught.value.remedy
        assert bare.stat().st_size < 10_000

    def test_tensors_are_shared(self, bare: Path) -> None:
        model = Model()
        program = graphwire.load(bare, weights=model.state_dict())
        check(program)
        with torch.no_grad():
            model.scale.fill_(0)
        assert program.state_dict["scale"].sum() == 0

    def test_a_graph_is_bound_later(self, bare: Path) -> None:
        program = graphwire.load(bare, weights=None)
        assert program.state_dict["scale"].is_meta
        graphwire.bind(program, MODEL.state_dict())
        check(program)

    def test_a_tie_needs_one_of_its_names(self, bare: Path) -> None:
        state = dict(MODEL.state_dict())
        del state["first.weight"]
        check(graphwire.load(bare, weights=state))

    def test_a_file_is_bound(self, bare: Path) -> None:
        state = {name: value.clone() for name, value in MODEL.state_dict().items() if name != "second.weight"}
        save_file(
            {name: value.contiguous() for name, value in state.items()}, bare.with_name("w.safetensors")
        )
        program = graphwire.load(bare, weights=None)
        graphwire.bind(program, bare.with_name("w.safetensors"))
        check(program)
        check(graphwire.load(bare, weights=bare.with_name("w.safetensors")))

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"scale": torch.zeros(9)}, r"scale: its shape is \[8\], and \[9\] is given"),
            ({"scale": torch.zeros(8).double()}, "scale: its element type is torch.float32"),
            ({"scale": torch.zeros(8, device="meta")}, "scale: the given tensor is on the meta device"),
            ({"turned": MODEL.turned.detach().contiguous()}, "turned: its strides are"),
            ({"second.weight": torch.zeros(16, 16)}, "are one tensor, and two are given"),
            ({"one_of_both": torch.zeros(8)}, "shares elements with"),
        ],
    )
    def test_what_does_not_fit_is_an_error(self, bare: Path, change: dict[str, Any], problem: str) -> None:
        with pytest.raises(errors.WeightsError, match=problem):
            graphwire.load(bare, weights={**MODEL.state_dict(), **change})

    def test_all_problems_are_listed(self, bare: Path) -> None:
        program = graphwire.load(bare, weights=None)
        before = dict(program.state_dict)
        with pytest.raises(errors.WeightsError) as caught:
            graphwire.bind(program, {"scale": torch.zeros(9), "first.bias": torch.zeros(16)})
        wrong = {each.place for each in caught.value.problems}
        assert wrong == {"scale", "first.weight", "second.bias", "turned", "all_of_both", "one_of_both"}
        assert all(program.state_dict[name] is value for name, value in before.items()), "nothing is changed"

    @pytest.mark.parametrize("given", [{"scale": 3}, {3: torch.zeros(8)}])
    def test_a_mapping_has_tensors_by_name(self, bare: Path, given: Any) -> None:
        with pytest.raises(errors.DecodeError, match="tensors by qualified name"):
            graphwire.load(bare, weights=given)


class TestCheckpoint:
    """Weights that exist already."""

    @pytest.fixture
    def stored(self, tmp_path: Path) -> Path:
        state = {
            name: value.clone().contiguous()
            for name, value in MODEL.state_dict().items()
            if name != "second.weight"
        }
        save_file(state, tmp_path / "w.safetensors")
        return tmp_path / "w.safetensors"

    def test_it_is_referred_to_and_not_written(self, stored: Path, tmp_path: Path) -> None:
        before = stored.stat()
        graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=graphwire.Checkpoint(stored, rest="file"))
        assert stored.stat() == before
        check(graphwire.load(tmp_path / "m.pt2", verify=True))

    def test_overlapping_views_are_listed(self, stored: Path, tmp_path: Path) -> None:
        with pytest.raises(errors.WeightsError, match="all_of_both"):
            graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=graphwire.Checkpoint(stored))
        assert not (tmp_path / "m.pt2").exists()

    def test_weights_that_differ_are_all_listed(self, stored: Path, tmp_path: Path) -> None:
        state = load_file(stored)
        state["scale"] += 1
        state["first.bias"][3] += 1
        del state["turned"]
        save_file(state, tmp_path / "other.safetensors")
        with pytest.raises(errors.WeightsError) as caught:
            graphwire.save(
                PROGRAM, tmp_path / "m.pt2", weights=graphwire.Checkpoint(tmp_path / "other.safetensors")
            )
        assert {"scale", "first.bias", "turned"} <= {each.place for each in caught.value.problems}

    def test_names_alone_are_compared_on_request(self, stored: Path, tmp_path: Path) -> None:
        state = load_file(stored)
        state["scale"] += 1
        save_file(state, tmp_path / "other.safetensors")
        chosen = graphwire.Checkpoint(tmp_path / "other.safetensors", check="names", rest="file")
        graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=chosen)
        assert torch.equal(graphwire.load(tmp_path / "m.pt2").state_dict["scale"], state["scale"])

    def test_a_common_prefix_is_found_and_reported(self, stored: Path, tmp_path: Path) -> None:
        save_file(
            {f"model.{name}": value for name, value in load_file(stored).items()}, tmp_path / "p.safetensors"
        )
        with pytest.warns(errors.GraphwireWarning, match=r"with 'model\.' before them"):
            graphwire.save(
                PROGRAM,
                tmp_path / "m.pt2",
                weights=graphwire.Checkpoint(tmp_path / "p.safetensors", rest="file"),
            )
        check(graphwire.load(tmp_path / "m.pt2"))

    @pytest.mark.parametrize("as_function", [True, False])
    def test_names_are_given(self, stored: Path, tmp_path: Path, as_function: bool) -> None:
        save_file(
            {name.replace(".", "/"): value for name, value in load_file(stored).items()},
            tmp_path / "n.safetensors",
        )
        names: Any = {name: name.replace(".", "/") for name in PROGRAM.state_dict}
        names = names.get if as_function else names
        chosen = graphwire.Checkpoint(tmp_path / "n.safetensors", names=names, rest="file")
        graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=chosen)
        check(graphwire.load(tmp_path / "m.pt2"))

    def test_a_place_elsewhere_is_given_at_load(self, stored: Path, tmp_path: Path) -> None:
        (tmp_path / "programs").mkdir()
        file = tmp_path / "programs" / "m.pt2"
        graphwire.save(PROGRAM, file, weights=graphwire.Checkpoint(stored, rest="file"))
        with pytest.raises(errors.WeightsError, match="does not state where"):
            graphwire.load(file)
        check(graphwire.load(file, weights=stored))
        assert graphwire.verify(file, weights_from=stored) == []

    def test_a_folder_of_links_may_be_named(self, stored: Path, tmp_path: Path) -> None:
        (tmp_path / "hub").mkdir()
        (tmp_path / "hub" / "model.safetensors").symlink_to(stored)
        graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=graphwire.Checkpoint(stored, rest="file"))
        check(graphwire.load(tmp_path / "m.pt2", weights=tmp_path / "hub"))

    @pytest.mark.parametrize(
        "wrong", [{"check": "all"}, {"rest": "drop"}, {"rank": 2, "ranks": 2}, {"ranks": 2, "rest": "file"}]
    )
    def test_choices_are_checked(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(errors.ArchiveError):
            graphwire.Checkpoint("w.safetensors", **wrong)


class Body(torch.nn.Module):
    """Layers that two programs share."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(64, 256)
        self.layer = torch.nn.Linear(256, 256)
        self.head = torch.nn.Linear(256, 64, bias=False)
        self.head.weight = self.embedding.weight


class Step(torch.nn.Module):
    """One of two programs of a body; the other has other names for the weights, and not all of them."""

    def __init__(self, body: Body, *, first: bool) -> None:
        super().__init__()
        self.first = first
        if first:
            self.body = body
        else:
            self.layer, self.head = body.layer, body.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first:
            return self.body.layer(self.body.embedding(x))
        y: torch.Tensor = self.head(self.layer(x))
        return y


def test_two_programs_share_a_checkpoint(tmp_path: Path) -> None:
    """Prefill and decode: each storage is referred to once, under whichever of its names the checkpoint has."""
    body = Body()
    save_file(
        {name: each for name, each in body.state_dict().items() if name != "head.weight"},
        tmp_path / "w.safetensors",
    )
    inputs = {"prefill": torch.tensor([[1, 2, 3]]), "decode": torch.randn(1, 256)}
    programs = {
        name: torch.export.export(Step(body, first=name == "prefill"), (x,)) for name, x in inputs.items()
    }
    names = {f"body.{name}": name for name in body.state_dict()} | {"head.weight": "embedding.weight"}
    chosen = graphwire.Checkpoint(tmp_path / "w.safetensors", names=names)
    graphwire.save(programs, tmp_path / "m.pt2", weights=chosen)
    assert (tmp_path / "m.pt2").stat().st_size < 30_000
    with graphwire.open(tmp_path / "m.pt2") as archive:
        assert archive.weights.references is not None
        used = [
            region.tensor for each in archive.weights.references.records.values() for region in each.regions
        ]
    assert sorted(used) == ["embedding.weight", "layer.bias", "layer.weight"]
    assert graphwire.verify(tmp_path / "m.pt2") == []
    other = Body()
    with torch.no_grad():
        other.layer.bias.fill_(1)
    save_file(
        {**load_file(tmp_path / "w.safetensors"), "layer.bias": other.layer.bias}, tmp_path / "o.safetensors"
    )
    for name, x in inputs.items():
        loaded = graphwire.load(tmp_path / "m.pt2", method=name)
        assert torch.equal(loaded.module()(x), programs[name].module()(x))
        tuned = graphwire.load(tmp_path / "m.pt2", method=name, weights=tmp_path / "o.safetensors")
        assert torch.equal(tuned.module()(x), Step(other, first=name == "prefill")(x))


@pytest.mark.parametrize("saved", [name for name in PLACES if name != "in the file"], indirect=True)
def test_changed_weights_are_an_error(saved: Path) -> None:
    files = [
        path for path in saved.parent.rglob("*") if path.is_file() and path.suffix not in (".pt2", ".json")
    ]
    victim = max(files, key=lambda path: path.stat().st_size)
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    with pytest.raises(errors.WeightsError, match=f"{victim.name}|{victim.parent.name}"):
        graphwire.load(saved)
    victim.write_bytes(whole[:-4] + bytes(byte ^ 1 for byte in whole[-4:]))
    with pytest.raises(errors.GraphwireError, match="not those that were saved"):
        graphwire.load(saved, verify=True)
    assert [each.kind for each in graphwire.verify(saved)] == ["weights"]
    victim.unlink()
    with pytest.raises(errors.WeightsError, match="missing"):
        graphwire.load(saved)
    assert graphwire.load(saved, weights=None).state_dict["scale"].is_meta
    assert graphwire.inspect(saved).methods[0].name == "model"


def test_a_save_never_changes_weights_of_the_old_program(tmp_path: Path) -> None:
    graphwire.save(PROGRAM, tmp_path / "old.pt2", weights=tmp_path / "m.safetensors")
    other = torch.export.export(Model().requires_grad_(False), (X,))
    with torch.no_grad():
        other.state_dict["scale"].add_(1)
    graphwire.save(other, tmp_path / "new.pt2", weights=tmp_path / "m.safetensors")
    check(graphwire.load(tmp_path / "old.pt2", verify=True))
    assert torch.equal(graphwire.load(tmp_path / "new.pt2").state_dict["scale"], other.state_dict["scale"])
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_equal_weights_are_written_once(tmp_path: Path) -> None:
    for name in ("a.pt2", "b.pt2"):
        graphwire.save(PROGRAM, tmp_path / name, weights=graphwire.Blobs(tmp_path / "blobs"))
    once = sum(path.stat().st_size for path in (tmp_path / "blobs").rglob("*"))
    graphwire.save(
        {"x": PROGRAM, "y": PROGRAM}, tmp_path / "c.pt2", weights=graphwire.Blobs(tmp_path / "blobs")
    )
    assert sum(path.stat().st_size for path in (tmp_path / "blobs").rglob("*")) == once
    check(graphwire.load(tmp_path / "c.pt2", method="y"))


def test_weights_out_of_reach_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(errors.ArchiveError, match="not at or below its folder"):
        graphwire.save(PROGRAM, tmp_path / "a" / "m.pt2", weights=tmp_path / "m.safetensors")
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_a_stream_has_no_folder(tmp_path: Path) -> None:
    stream = io.BytesIO()
    graphwire.save(PROGRAM, stream, weights=tmp_path / "m.safetensors")
    with pytest.raises(errors.WeightsError, match="does not state where"):
        graphwire.loads(stream.getvalue())
    check(graphwire.loads(stream.getvalue(), weights=tmp_path / "m.safetensors"))


@pytest.mark.parametrize(
    "use",
    [
        lambda file, new: graphwire.weights(file, export=new),
        lambda file, new: graphwire.convert(file, new, format="cbor"),
        lambda file, new: graphwire.view(file, weights=True).save(new),
        lambda file, new: graphwire.diff(file, file, weights=True),
        lambda file, new: graphwire.content_hash(file, weights=True),
        lambda file, new: graphwire.load(file, verify=True),
        lambda file, new: graphwire.load_module(file, copy=True),
    ],
    ids=["export", "convert", "view", "diff", "hash", "load", "load_module"],
)
def test_damaged_weights_are_not_used(use: Callable[[Path, Path], object], tmp_path: Path) -> None:
    module = torch.nn.Linear(4, 2)
    file, new = tmp_path / "a.pt2", tmp_path / "w.safetensors"
    graphwire.save(torch.export.export(module, (torch.ones(1, 4),)), file)
    data = file.read_bytes()
    start = data.index(bytes(module.weight.detach().untyped_storage()))
    file.write_bytes(data[:start] + b"damaged!" + data[start + 8 :])
    with pytest.raises(errors.ChecksumError, match=r"a\.pt2.*weight_"):
        use(file, new)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pt2"]


def test_weights_are_listed_and_exported(saved: Path) -> None:
    found = {each.name: each for each in graphwire.weights(saved)}
    assert list(found) == list(PROGRAM.state_dict)
    assert (found["turned"].dtype, found["turned"].shape, found["turned"].nbytes) == ("float32", [16, 8], 512)
    assert found["second.weight"].tied_to == "first.weight"
    new = saved.with_name("new.safetensors")
    with pytest.raises(errors.EncodeError, match="has no all_of_both, one_of_both"):
        graphwire.weights(saved, export=new)
    assert torch.equal(load_file(new)["turned"], MODEL.turned)
    with pytest.raises(errors.ArchiveError, match="exists"):
        graphwire.weights(saved, export=new)


def test_the_command_line_lists_converts_and_verifies(tmp_path: Path) -> None:
    graphwire.save(PROGRAM, tmp_path / "m.pt2", weights=tmp_path / "m.safetensors")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "graphwire", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    listed = run("weights", "m.pt2")
    assert listed.returncode == 0
    assert "m.safetensors: turned" in listed.stdout
    assert run("convert", "m.pt2", "b.pt2", "--format", "cbor", "--weights", "blobs:blobs").returncode == 0
    assert run("convert", "m.pt2", "n.pt2", "--format", "json", "--weights", "none").returncode == 0
    (tmp_path / "m.safetensors").rename(tmp_path / "moved.safetensors")
    missing = run("verify", "m.pt2")
    assert (missing.returncode, "m.safetensors" in missing.stdout) == (1, True)
    assert run("verify", "m.pt2", "--weights-from", "moved.safetensors").returncode == 0
    assert run("verify", "b.pt2").returncode == 0
    check(graphwire.load(tmp_path / "b.pt2"))


class Wide(torch.nn.Module):
    """Half of the rows of one weight, and half of the columns of another: what one of two ranks has."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = torch.nn.Parameter(torch.randn(64, 2048).chunk(2, 0)[rank].clone())
        self.columns = torch.nn.Parameter(torch.randn(64, 4096).chunk(2, 1)[rank].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.rows.T + (x @ self.columns.T)[:, :32]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_reads_its_own_elements_only(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {
        name: torch.cat([getattr(Wide(each), name).detach() for each in (0, 1)], dim)
        for name, dim in DIVIDED.items()
    }
    save_file(whole, tmp_path / "w.safetensors")
    x = torch.randn(2, 2048)
    chosen = graphwire.Checkpoint(tmp_path / "w.safetensors", ranks=2, shard=DIVIDED)
    graphwire.save(torch.export.export(Wide(0), (x,)), tmp_path / "m.pt2", weights=chosen)
    read = []
    usual = os.preadv

    def counted(descriptor: int, buffers: Any, offset: int) -> int:
        read.append(sum(len(each) for each in buffers))
        return usual(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    program = graphwire.load(tmp_path / "m.pt2", rank=rank)
    # Besides, the program's own file, which is small, is read at once.
    assert sum(read) - (tmp_path / "m.pt2").stat().st_size == (32 * 2048 + 64 * 2048) * 4
    assert torch.equal(program.module()(x), Wide(rank)(x))
    assert graphwire.verify(tmp_path / "m.pt2", rank=rank) == []


DIVIDED = {"rows": 0, "columns": 1}
