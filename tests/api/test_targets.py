"""Files written for an older reader: in its layout, and computing the same; or refused with every reason."""

from __future__ import annotations

import dataclasses
import io
import json
import typing
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from programs import Example, convnet, structured
from running import results
from small_programs import SMALL_PROGRAMS, shared_example
from this_torch import RELEASE
from torch._export.serde import schema as torch_schema
from torch._higher_order_ops.associative_scan import associative_scan

import graphwire
from graphwire.cli import main
from graphwire.errors import EncodeError, SchemaVersionError, TargetError
from graphwire.testing import assert_same_values


@pytest.fixture(scope="module")
def example() -> Example:
    return convnet(1)


@pytest.mark.parametrize(
    ("target", "layout"),
    [("torch-2.13", "B2"), ("torch-2.9", "B2"), ("torch-2.8", "B1"), ("torch-2.6", "A4")],
)
def test_a_file_for_an_older_release_has_its_layout_and_computes_the_same(
    example: Example, target: str, layout: str
) -> None:
    data = graphwire.dumps(example.program, target=target)
    assert graphwire.inspect(data).layout.startswith(layout)
    expected = results(example.program.module(), example.calls)
    assert_same_values(results(graphwire.loads(data).module(), example.calls), expected)


def test_a_release_needs_no_torch_before_it(example: Example, tmp_path: Path) -> None:
    whole = graphwire.dumps(example.program, target="torch-2.6")
    assert graphwire.dumps(example.program, target="2.6") == whole
    assert graphwire.supports(example.program, "2.6.0") == []
    graphwire.save(example.program, tmp_path / "new.pt2")
    assert main(["convert", "--target", "2.6", str(tmp_path / "new.pt2"), str(tmp_path / "old.pt2")]) == 0
    assert graphwire.inspect(tmp_path / "old.pt2").layout.startswith("A4")


@pytest.mark.parametrize("command", ["targets", "convert"])
@pytest.mark.parametrize("target", ["9.9", "foo"])
def test_a_command_tells_that_the_option_target_is_wrong(command: str, target: str, capsys: Any) -> None:
    assert main([command, "absent.pt2", "absent.pt2", "--target", target]) == 2
    told = capsys.readouterr().err
    assert f"{command}: error: argument --target: there is no target '{target}'. " in told
    assert "absent" not in told


def test_targets_are_listed_in_groups(example: Example, tmp_path: Path, capsys: Any) -> None:
    graphwire.save(example.program, path := tmp_path / "a.pt2")
    assert main(["targets", str(path)]) == 0
    listed = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
    assert [block[0] for block in listed] == [
        f"{path}: {group}" for group in ("Releases of torch", "Schemas", "Drafts of the schema")
    ]
    assert main(["targets", str(path), "--json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out)["programs"].values()
    for block, group in zip(listed, ("release", "schema", "draft"), strict=True):
        shown = [line.split()[0] for line in block[2:] if line.split()[1] in ("yes", "no")]
        assert shown == [each["target"] for each in rows if each["group"] == group]


def test_torch_reads_traces_and_example_inputs_in_a_file_for_it(example: Example) -> None:
    data = graphwire.dumps(example.program, target="torch-2.8")
    loaded = torch.export.load(io.BytesIO(data))
    ours = {
        node.name: node.meta.get("stack_trace")
        for node in example.program.graph.nodes
        if node.op == "call_function"
    }
    theirs = {
        node.name: node.meta.get("stack_trace") for node in loaded.graph.nodes if node.op == "call_function"
    }
    assert theirs == ours
    assert_same_values(
        results(loaded.module(), example.calls), results(example.program.module(), example.calls)
    )


def test_what_a_target_cannot_express_is_refused_with_every_reason(tmp_path: Path) -> None:
    program = structured().program
    obstacles = graphwire.supports(program, "torch-2.1")
    assert len(obstacles) > 1
    path = tmp_path / "model.pt2"
    with pytest.raises(TargetError) as caught:
        graphwire.save(program, path, target="torch-2.1")
    assert set(caught.value.obstacles) == set(obstacles)
    assert not path.exists()


def test_unknown_targets_and_formats_that_a_target_does_not_read_are_refused(example: Example) -> None:
    with pytest.raises(SchemaVersionError, match=r"there is no target 'torch-0\.4'"):
        graphwire.dumps(example.program, target="torch-0.4")
    with pytest.raises(EncodeError, match="reads JSON, not cbor"):
        graphwire.dumps(example.program, target="torch-2.6", format="cbor")


def test_an_operator_that_came_later_within_a_schema_version_is_an_obstacle() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")

    module = type("Function", (torch.nn.Module,), {"forward": staticmethod(forward)})()
    program = torch.export.export(module, (torch.ones(3),))
    assert not graphwire.supports(program, "torch-2.13")
    obstacles = graphwire.supports(program, "torch-2.12")
    assert obstacles
    assert {each.first for each in obstacles} == {"torch-2.13"}


def test_a_symbol_that_is_returned_has_the_name_that_the_reader_gives_it() -> None:
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x.reshape(x.shape[0] * x.shape[1]).sum(), x.shape[1]

    module = type("Function", (torch.nn.Module,), {"forward": staticmethod(forward)})()
    sizes = {"x": {0: torch.export.Dim("a", min=2), 1: torch.export.Dim("b", min=2)}}
    program = torch.export.export(module, (torch.ones(3, 4),), dynamic_shapes=sizes)
    with graphwire.open(graphwire.dumps(program, target="torch-2.4")) as archive:
        names = [
            node.outputs[0].as_sym_int.as_name
            for node in archive.program.graph_module.graph.nodes
            if node.outputs[0].as_sym_int is not None and "sym_size" in node.target
        ]
    assert names == ["sym_size_int", "sym_size_int_1"][: len(names)]
    assert names


class _ToSparse(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(x.to_sparse(), x)


@pytest.mark.parametrize("name", [*SMALL_PROGRAMS, "sparse"])
def test_a_document_for_torch_has_no_field_that_torch_s_schema_lacks(name: str) -> None:
    """Loaders up to 2.8 refuse a document with one."""
    target = f"torch-{RELEASE[0]}.{RELEASE[1]}"
    if name == "sparse":
        program = torch.export.export(_ToSparse(), (torch.eye(3),))
    else:
        program = shared_example(name).program
    if graphwire.supports(program, target):
        with pytest.raises(TargetError):
            graphwire.dumps(program, target=target)
        return
    with zipfile.ZipFile(io.BytesIO(graphwire.dumps(program, target=target))) as archive:
        (member,) = (each for each in archive.namelist() if each.endswith("models/model.json"))
        document = json.loads(archive.read(member))
    assert list(_strange_fields(document, torch_schema.ExportedProgram, "")) == []


def _strange_fields(value: Any, kind: Any, place: str) -> Iterator[str]:
    """Where a tree has a field that a class of torch's schema lacks."""
    if typing.get_origin(kind) is Annotated or type(None) in typing.get_args(kind):
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
        yield from _strange_fields(value, kind, place)
    elif value is None:
        return
    elif typing.get_origin(kind) is list:
        for index, each in enumerate(value):
            yield from _strange_fields(each, typing.get_args(kind)[0], f"{place}[{index}]")
    elif typing.get_origin(kind) is dict:
        for key, each in value.items():
            yield from _strange_fields(each, typing.get_args(kind)[1], f"{place}[{key!r}]")
    elif dataclasses.is_dataclass(kind):
        kinds = typing.get_type_hints(kind, include_extras=True)
        for key, each in value.items():
            if key not in kinds:
                yield f"{place}.{key}"
            else:
                yield from _strange_fields(each, kinds[key], f"{place}.{key}")
