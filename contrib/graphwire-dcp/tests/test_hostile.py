"""Checkpoints that lie are refused, with the file and the tensor; nothing in them is executed."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 # an attack is written with what it attacks
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graphwire_dcp.metadata
import pytest
import torch
import torch.distributed.checkpoint as dcp
from graphwire_dcp import DcpStore
from graphwire_dcp.metadata import METADATA, DescribedTensor, SavedChunk, write_metadata

import graphwire
from graphwire.errors import ArchiveError, GraphwireError, MissingRecordError
from graphwire.hooks import NewTensor
from graphwire.wire.weights.folder import Folder

DATA = "__0_0.distcp"
SIZES = {"a": (4, 2), "b": (4,)}
Tensors = dict[str, DescribedTensor]
pytestmark = pytest.mark.filterwarnings("ignore")  # torch.distributed.checkpoint warns that it is alone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good checkpoint with the tensors `a` and `b`."""
    state = {name: torch.arange(8.0)[: torch.Size(size).numel()].view(size) for name, size in SIZES.items()}
    dcp.save(state, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    return tmp_path / "checkpoint"


def described(folder: Path) -> Tensors:
    return dict(graphwire_dcp.metadata.read_metadata(Folder(folder), METADATA).tensors)


def rewrite(folder: Path, tensors: Tensors) -> None:
    (folder / METADATA).write_bytes(write_metadata(tensors))


def read(folder: Path) -> dict[str, Any]:
    """Every tensor of the store, as a load looks at it."""
    index = DcpStore().open(Folder(folder), METADATA)
    return {name: index.tensors[name] for name in index.tensors}


def with_chunk(tensors: Tensors, name: str, **changes: Any) -> Tensors:
    """The same with a changed chunk."""
    chunk = tensors[name].chunks[0]._replace(**changes)
    return {**tensors, name: tensors[name]._replace(chunks=(chunk,))}


def same_range(tensors: Tensors) -> Tensors:
    a = tensors["a"].chunks[0]
    return with_chunk(tensors, "b", offset=a.offset, nbytes=a.nbytes)


LIES: dict[str, tuple[Callable[[Tensors], Tensors], str]] = {
    "above": (lambda t: with_chunk(t, "a", file="../secret"), "secret"),
    "absolute": (lambda t: with_chunk(t, "a", file="/etc/passwd"), "passwd"),
    "device": (lambda t: with_chunk(t, "a", file="NUL"), "NUL"),
    "URL": (lambda t: with_chunk(t, "a", file="https://example.org/x"), "example"),
    "empty": (lambda t: with_chunk(t, "a", file=""), "location"),
    "a file that is missing": (lambda t: with_chunk(t, "a", file="__9_0.distcp"), "__9_0"),
    "behind the end": (lambda t: with_chunk(t, "a", offset=1 << 40), DATA),
    "longer than the file": (lambda t: with_chunk(t, "b", nbytes=1 << 40), DATA),
    "the same bytes": (same_range, "overlaps"),
    "not the start": (lambda t: with_chunk(t, "b", offset=t["b"].chunks[0].offset + 1, nbytes=99), "'b'"),
    "no bytes": (lambda t: with_chunk(t, "b", nbytes=0), "'b'"),
    "the chunk of another tensor": (
        lambda t: (
            with_chunk(t, "b", offset=t["a"].chunks[0].offset, nbytes=t["a"].chunks[0].nbytes)
            | {"a": DescribedTensor("float32", (0,), ())}
        ),
        "'b'",
    ),
    "another type": (lambda t: {**t, "a": t["a"]._replace(dtype="int32")}, "'a'"),
    "another shape": (
        lambda t: {
            **t,
            "a": t["a"]._replace(shape=(2, 4), chunks=(t["a"].chunks[0]._replace(sizes=(2, 4)),)),
        },
        "'a'",
    ),
    "outside of the shape": (lambda t: with_chunk(t, "a", start=(1, 0)), "'a'"),
    "too many dimensions": (lambda t: with_chunk(t, "a", start=(0, 0, 0), sizes=(4, 2, 1)), "'a'"),
    "negative": (lambda t: with_chunk(t, "a", start=(-1, 0)), "malformed"),
    "too large": (lambda t: {**t, "a": t["a"]._replace(shape=(1 << 40, 1 << 40), chunks=())}, "'a'"),
    "an unknown type": (lambda t: {**t, "a": t["a"]._replace(dtype="quint8")}, "quint8"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_description_that_lies_is_refused(lie: str, folder: Path) -> None:
    (folder.parent / "secret").write_bytes((folder / DATA).read_bytes())
    change, said = LIES[lie]
    rewrite(folder, described(folder))
    assert read(folder).keys() == SIZES.keys()
    rewrite(folder, change(described(folder)))
    with pytest.raises(ArchiveError) as caught:
        read(folder)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        ([((0, 0), (2, 2))], "has 4 of its 8"),
        ([((0, 0), (3, 2)), ((2, 0), (2, 2))], "has 10 of its 8"),
        ([((0, 0), (3, 2)), ((1, 1), (2, 1))], "overlap"),
        ([((0, 0), (4, 1)), ((0, 1), (2, 1)), ((1, 1), (2, 1))], "overlap"),
    ],
    ids=["a gap", "an overlap", "both", "in one column"],
)
def test_chunks_that_do_not_make_the_tensor_are_refused(
    boxes: list[Any], problem: str, folder: Path, tmp_path: Path
) -> None:
    model = torch.nn.Linear(2, 4, bias=False)
    file = tmp_path / "m.pt2"
    graphwire.save(torch.export.export(model, (torch.ones(1, 2),)), file, weights=None)
    parts, chunks = b"", []
    for number, (start, sizes) in enumerate(boxes):
        store = DcpStore()
        content = bytes(4 * sizes[0] * sizes[1])
        new = NewTensor("float32", sizes, len(content), lambda content=content: memoryview(content))
        store.write(Folder(tmp_path / f"part{number}"), METADATA, {"a": new})
        part = (tmp_path / f"part{number}" / DATA).read_bytes()
        chunks.append(SavedChunk(DATA, len(parts), len(part), start, sizes))
        parts += part
    (folder / DATA).write_bytes(parts)
    rewrite(folder, {"weight": DescribedTensor("float32", (4, 2), tuple(chunks))})
    with pytest.raises(GraphwireError, match=problem) as caught:
        graphwire.load(file, weights=folder)
    assert "weight" in str(caught.value)


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("where", ["alone", "as data of the planner", "as a chunk", "as a key"])
def test_a_pickle_that_names_anything_else_is_refused_by_name(
    where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    metadata: Any = dcp.FileSystemReader(folder).read_metadata()
    match where:
        case "alone":
            metadata = _Evil()
        case "as data of the planner":
            metadata.planner_data = {"a": _Evil()}
        case "as a chunk":
            metadata.state_dict_metadata["a"].chunks[0] = _Evil()
        case "as a key":
            metadata.storage_data[_Evil()] = None
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    with pytest.raises(ArchiveError, match=r"system.*would run code"):
        read(folder)
    assert not (tmp_path / "executed").exists()


def test_a_chunk_that_is_no_plain_saved_tensor_is_refused(folder: Path, tmp_path: Path) -> None:
    tensors = described(folder)
    plain = torch.ones(4, 2)
    values: dict[str, Any] = {
        "a dict": {"a": plain},
        "sparse": plain.to_sparse(),
        "conjugated": torch.ones(4, 2, dtype=torch.complex64).conj(),
        "expanded": torch.ones(2).expand(4, 2),
        "on no device": plain.to("meta"),
        "a function": os.system,
    }
    for value in values.values():
        torch.save(value, folder / DATA)
        size = (folder / DATA).stat().st_size
        rewrite(folder, with_chunk({"a": tensors["a"]}, "a", offset=0, nbytes=size))
        with pytest.raises(ArchiveError, match="'a'"):
            read(folder)
    torch.save(plain, tmp_path / "plain")
    with (
        zipfile.ZipFile(tmp_path / "plain") as old,
        zipfile.ZipFile(folder / DATA, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    rewrite(folder, with_chunk({"a": tensors["a"]}, "a", offset=0, nbytes=(folder / DATA).stat().st_size))
    with pytest.raises(ArchiveError, match="compressed"):
        read(folder)


def test_links_are_followed_only_where_the_caller_names_the_folder(folder: Path, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 4, bias=False)
    model.weight = torch.nn.Parameter(torch.arange(8.0).view(4, 2))
    file = tmp_path / "m.pt2"
    program = torch.export.export(model, (torch.ones(1, 2),))
    graphwire.save(program, file, weights=graphwire.Checkpoint(folder, names={"weight": "a"}))
    assert torch.equal(graphwire.load(file).state_dict["weight"], model.weight)
    (folder / DATA).rename(tmp_path / "elsewhere")
    (folder / DATA).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GraphwireError, match="symbolic link"):
        graphwire.load(file)
    chosen = graphwire.Checkpoint(folder, names={"weight": "a"})
    assert torch.equal(graphwire.load(file, weights=chosen).state_dict["weight"], model.weight)
    (tmp_path / "elsewhere").unlink()
    with pytest.raises(MissingRecordError, match=DATA):
        graphwire.load(file, weights=chosen)


def test_an_exchanged_checkpoint_is_noticed(folder: Path, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 4, bias=False)
    model.weight = torch.nn.Parameter(torch.arange(8.0).view(4, 2))
    file = tmp_path / "m.pt2"
    program = torch.export.export(model, (torch.ones(1, 2),))
    graphwire.save(program, file, weights=graphwire.Checkpoint(folder, names={"weight": "a"}))
    dcp.save({name: torch.ones(size) for name, size in SIZES.items()}, checkpoint_id=folder, no_dist=True)
    with pytest.raises(GraphwireError, match="describes other tensors"):
        graphwire.load(file)
