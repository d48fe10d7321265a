"""Documents of the schemas where the system began, by name."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from external_weights import externalize
from inside.evolve import embedded_tensors
from inside.wire import read_document, write_document

import graphwire
from graphwire import Payloads
from graphwire.cli import main
from graphwire.errors import (
    ArchiveError,
    DecodeError,
    EncodeError,
    TargetError,
)
from graphwire.hooks import default_registry

JSON = default_registry().wire_format("json")


@pytest.fixture(scope="module")
def linear() -> torch.export.ExportedProgram:
    layer = torch.nn.Linear(2, 1)
    layer.load_state_dict({"weight": torch.tensor([[1.0, -2.5]]), "bias": torch.tensor([0.5])})
    return torch.export.export(layer, (torch.ones(1, 2),))


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_document_of_the_first_design_has_its_weights_inside(
    linear: torch.export.ExportedProgram, format: str
) -> None:
    program, payloads = graphwire.to_schema(linear)
    data = graphwire.encode(program, format, target="draft-2022", payloads=payloads)
    tree = read_document(data, default_registry().wire_format(format))
    assert tree["parameters"]["weight"]["storage"]["data"]["buffer"] == struct.pack(">2f", 1.0, -2.5)
    held = {tensor.name: tensor.data for tensor in embedded_tensors(tree)}
    assert held == {"weight": struct.pack("<2f", 1.0, -2.5), "bias": struct.pack("<f", 0.5)}
    again = graphwire.from_schema(graphwire.decode(data), payloads)
    value = torch.tensor([[3.0, 4.0]])
    assert torch.equal(again.module()(value), linear.module()(value))


@pytest.mark.parametrize("target", ["schema-1", "schema-5.3", "compact-5.3", "torch-2.6", "8.14"])
def test_a_document_of_every_named_schema_is_written_and_read(
    linear: torch.export.ExportedProgram, target: str
) -> None:
    program, payloads = graphwire.to_schema(linear)
    again = graphwire.from_schema(graphwire.decode(graphwire.encode(program, target=target)), payloads)
    value = torch.tensor([[3.0, 4.0]])
    assert torch.equal(again.module()(value), linear.module()(value))


def test_weights_without_bytes_are_refused(linear: torch.export.ExportedProgram) -> None:
    program, _ = graphwire.to_schema(linear)
    with pytest.raises(EncodeError, match="no bytes of the weight"):
        graphwire.encode(program, target="draft-2022", payloads=Payloads())


def test_what_the_first_design_cannot_say_is_refused() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n.add_(1)
            return x + self.n

    program, _ = graphwire.to_schema(torch.export.export(Counter(), (torch.ones(1),)))
    with pytest.raises(TargetError):
        graphwire.encode(program, target="draft-2022")


VALUE = torch.tensor([[3.0, 4.0]])


@pytest.fixture
def draft(linear: torch.export.ExportedProgram, tmp_path: Path) -> Path:
    """A document of the first design in a folder of its own, its weights inside."""
    folder = tmp_path / "folder"
    folder.mkdir()
    program, payloads = graphwire.to_schema(linear)
    path = folder / "linear.json"
    path.write_bytes(graphwire.encode(program, target="draft-2022", payloads=payloads))
    return path


def external(draft: Path, location: str = "linear.weights", **changes: str) -> dict[str, Any]:
    """Move the weights of a draft to a file beside it."""
    tree, data = externalize(read_document(draft.read_bytes(), JSON), "linear.weights")
    (draft.parent / "linear.weights").write_bytes(data)
    tree["parameters"]["weight"]["storage"]["data"] |= {"location": location, **changes}
    draft.write_bytes(write_document(tree, JSON))
    return tree


def test_a_bare_draft_loads_with_its_weights(linear: torch.export.ExportedProgram, draft: Path) -> None:
    for source in (draft, draft.read_bytes()):
        loaded = graphwire.load(source)
        assert torch.equal(loaded.module()(VALUE), linear.module()(VALUE))
        assert all(isinstance(each, torch.nn.Parameter) for each in loaded.state_dict.values())
    assert graphwire.verify(draft) == []
    found = graphwire.inspect(draft)
    assert (found.layout, found.size, found.payload_bytes) == ("document", draft.stat().st_size, 12)
    for format in ("json", "msgpack", "cbor"):
        graphwire.convert(draft, draft.with_suffix(".pt2"), format=format)
        again = graphwire.load(draft.with_suffix(".pt2"))
        assert torch.equal(again.module()(VALUE), linear.module()(VALUE))


@pytest.mark.parametrize("target", ["schema-1", "compact-5.3", "8.14"])
@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_bare_document_without_weights_is_looked_into_and_not_loaded(
    linear: torch.export.ExportedProgram, target: str, format: str
) -> None:
    program, _ = graphwire.to_schema(linear)
    data = graphwire.encode(program, format, target=target)
    assert graphwire.inspect(data).methods[0].summary.nodes == len(program.graph_module.graph.nodes)
    with pytest.raises(DecodeError, match="needs 2 weights and constants, and all are missing"):
        graphwire.load(data)


def test_weights_beside_a_draft_are_read(linear: torch.export.ExportedProgram, draft: Path) -> None:
    external(draft)
    assert graphwire.verify(draft) == []
    assert torch.equal(graphwire.load(draft).module()(VALUE), linear.module()(VALUE))
    with pytest.raises(DecodeError, match="not read from a path"):
        graphwire.load(draft.read_bytes())
    store = fsspec.filesystem("memory")
    store.pipe("/drafts/linear.json", draft.read_bytes())
    with pytest.raises(DecodeError, match="there is no file"):
        graphwire.load("memory://drafts/linear.json")
    store.pipe("/drafts/linear.weights", (draft.parent / "linear.weights").read_bytes())
    assert torch.equal(graphwire.load("memory://drafts/linear.json").module()(VALUE), linear.module()(VALUE))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"location": "../secret"}, "not a location below"),
        ({"location": "/etc/passwd"}, "not a location below"),
        ({"location": "a\\..\\..\\secret"}, "not a location below"),
        ({"location": "link"}, "symbolic link"),
        ({"location": "linked/secret"}, "symbolic link"),
        ({"location": "absent"}, "there is no file"),
        ({"location": "inner"}, "not a folder or a file"),
        ({"location": "pipe"}, "not a regular file"),
        ({"offset": "8"}, "not inside"),
        ({"offset": "-1"}, "not inside"),
        ({"length": "13"}, "not inside"),
        ({"checksum": "0" * 64}, "checksum"),
    ],
)
def test_weights_that_are_not_beside_a_draft_are_refused(
    draft: Path, changes: dict[str, str], problem: str
) -> None:
    (draft.parent.parent / "secret").write_bytes(bytes(8))
    (draft.parent / "link").symlink_to(draft.parent.parent / "secret")
    (draft.parent / "linked").symlink_to(draft.parent.parent)
    (draft.parent / "inner").mkdir()
    os.mkfifo(draft.parent / "pipe")
    external(draft, **changes)
    with pytest.raises(DecodeError, match=problem):
        graphwire.load(draft)
    with pytest.raises(DecodeError, match=problem):
        graphwire.convert(draft, draft.with_suffix(".pt2"))
    assert not draft.with_suffix(".pt2").exists()
    assert [(each.place, each.kind) for each in graphwire.verify(draft)] == [("model: weight", "unread")]
    assert graphwire.inspect(draft).methods[0].summary.nodes == 1


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_draft_is_saved_and_converted_as_a_bare_document(
    linear: torch.export.ExportedProgram, tmp_path: Path, format: str
) -> None:
    graphwire.save(linear, tmp_path / "saved", target="draft-2022", format=format)
    graphwire.save(linear, tmp_path / "linear.pt2")
    options = ["--format", format, "--target", "draft-2022"]
    assert main(["convert", str(tmp_path / "linear.pt2"), str(tmp_path / "converted"), *options]) == 0
    for path in (tmp_path / "saved", tmp_path / "converted"):
        assert graphwire.inspect(path).layout == "document"
        assert torch.equal(graphwire.load(path).module()(VALUE), linear.module()(VALUE))


def test_a_draft_is_one_program_with_nothing_beside_it(
    linear: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError, match="one program"):
        graphwire.save({"a": linear, "b": linear}, tmp_path / "file", target="draft-2022")
    with pytest.raises(ArchiveError, match="nothing beside"):
        graphwire.save(linear, tmp_path / "file", target="draft-2022", extra_files={"a": b"x"})
    assert not list(tmp_path.iterdir())


def test_compact_stack_traces_are_saved_in_an_archive(
    linear: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    graphwire.save(linear, tmp_path / "file", target="compact-5.3")
    found = graphwire.inspect(tmp_path / "file").methods[0].report
    assert found.schema_version == "compact-5.3"
    assert torch.equal(graphwire.load(tmp_path / "file").module()(VALUE), linear.module()(VALUE))
