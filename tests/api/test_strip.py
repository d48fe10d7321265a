"""`strip=`: a file without stack traces, provenance, example inputs and extra files, whose program computes the same."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire.errors import EncodeError

KINDS = ["stack_traces", "provenance", "example_inputs", "extra_files"]
X = torch.full((2, 3), 0.5)


class Net(torch.nn.Module):
    """A model with a nested graph and a result that is called `stack`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: x - 1, (x,))
        return torch.stack([y, x])


@pytest.fixture(scope="module")
def program():
    return torch.export.export(Net(), (X,)).run_decompositions({})


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def kinds_in(path: Path) -> list[str]:
    with graphwire.open(path) as archive:
        return [each.kind for each in archive.disclosures("model")]


@pytest.mark.parametrize("format", ["json", "msgpack"])
def test_nothing_of_it_is_in_the_file(program, format, tmp_path) -> None:
    full, bare = tmp_path / "full.pt2", tmp_path / "bare.pt2"
    extra = {"notes.txt": "secret"}
    graphwire.save(program, full, format=format, extra_files=extra)
    graphwire.save(program, bare, format=format, extra_files=extra, strip=True)
    assert kinds_in(full) == KINDS
    assert kinds_in(bare) == []
    whole = b"".join(contents(bare).values())
    assert __file__.encode() in b"".join(contents(full).values())
    for hint in (
        __file__.encode(),
        b"test_strip",
        b"secret",
        b"stack_trace",
        b"from_node",
        b"sample_inputs/tensor",
    ):
        assert (hint in whole) is (hint == b"test_strip"), hint  # the class is Net of test_strip
    assert graphwire.verify(bare) == []
    assert graphwire.content_hash(bare, weights=True) == graphwire.content_hash(full, weights=True)
    loaded = graphwire.load(bare)
    assert torch.equal(loaded.module()(X), program.module()(X))
    assert not any("stack_trace" in node.meta for node in loaded.graph.nodes)
    converted = tmp_path / "converted.pt2"
    graphwire.convert(full, converted, strip=True)
    assert contents(converted).keys() == contents(bare).keys()
    assert kinds_in(converted) == []
    assert kinds_in(full) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_is_dropped(program, kind, tmp_path) -> None:
    graphwire.save(program, tmp_path / "a.pt2", extra_files={"notes.txt": "secret"}, strip=[kind])
    assert kinds_in(tmp_path / "a.pt2") == [each for each in KINDS if each != kind]
    graphwire.save(program, tmp_path / "a.pt2", target="torch", strip=[kind])
    torch.export.load(tmp_path / "a.pt2")


@pytest.mark.parametrize("wrong", ["stack_traces", ["weights"], 3])
def test_what_cannot_be_dropped_is_refused(program, wrong, tmp_path) -> None:
    with pytest.raises(EncodeError, match="strip"):
        graphwire.save(program, tmp_path / "a.pt2", strip=wrong)


def test_the_program_of_the_caller_stays_as_it_is(program) -> None:
    before = [node.meta.get("stack_trace") for node in program.graph.nodes]
    graphwire.dumps(program, strip=True)
    assert [node.meta.get("stack_trace") for node in program.graph.nodes] == before
    assert program.example_inputs is not None


def test_a_program_is_inspected_like_its_file(program, tmp_path) -> None:
    graphwire.save(program, tmp_path / "a.pt2")
    of_file, of_program = graphwire.inspect(tmp_path / "a.pt2"), graphwire.inspect(program)
    assert of_program.methods[0].summary == of_file.methods[0].summary
    with graphwire.open(tmp_path / "a.pt2") as archive:
        assert graphwire.inspect(archive) == of_file
        assert graphwire.inspect(archive.program).methods[0].summary.nodes == of_file.methods[0].summary.nodes
