"""What cannot be saved or loaded fails with one clear error of ours, and leaves no trace."""

from __future__ import annotations

import io
import json as json_text
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from small_programs import module_of
from torch import Tensor, nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire import errors
from graphwire.hooks import Registry
from graphwire_plugins import json_format as json, ops, treespecs


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(nn.Linear(3, 2), (torch.ones(1, 3),))


@pytest.fixture(scope="module")
def data(program: ExportedProgram) -> bytes:
    return graphwire.dumps(program)


# ------------------------------------------------------------------------------------------------- damaged archives


@pytest.mark.parametrize("kept", [0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_a_truncated_file_is_an_error_of_the_archive(kept: float, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt2"
    path.write_bytes(data[: int(len(data) * kept)])
    for read in (graphwire.load, graphwire.inspect, lambda file: graphwire.open(file).program):
        with pytest.raises(errors.ArchiveError):
            read(path)
    assert [problem.kind for problem in graphwire.verify(path)] == ["archive"]


@pytest.mark.parametrize("junk", [b"", b"\0", b"PK", b"not an archive" * 100, b"\x7fELF" + bytes(500)])
def test_another_kind_of_file_is_an_error_of_the_archive(junk: bytes) -> None:
    with pytest.raises(errors.NotAnArchiveError):
        graphwire.loads(junk)


@pytest.mark.parametrize(
    "junk",
    [b"", b"hello", b"PK", b'{"a": 1}', b"{", b"[]", b"\x82\xa1a\x01", b"\xd9\xd9\xf7\xa0", b"\xa1\x00"],
)
def test_a_file_of_another_kind_is_told_from_a_damaged_one(junk: bytes) -> None:
    assert {problem.kind for problem in graphwire.verify(junk)} == {"unrecognized"}


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        graphwire.load(tmp_path / "absent.pt2")


def _rewritten(data: bytes, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> bytes:
    """An archive with some of its records changed or, where `change` gives None, dropped."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for info in old.infolist():
            if info.filename.endswith(
                "/manifest.json"
            ):  # whoever changes records changes it too, or leaves it out
                continue
            if (changed := change(info.filename, old.read(info))) is not None:
                new.writestr(*changed)
    return stream.getvalue()


@pytest.mark.parametrize("part", ["models/", "weights_config.json", "constants_config.json", "weight_1"])
def test_a_missing_record_is_named(part: str, data: bytes) -> None:
    cut = _rewritten(data, lambda name, content: None if part in name else (name, content))
    with pytest.raises(errors.MissingRecordError) as caught:
        graphwire.loads(cut)
    assert part.rstrip("/") in str(caught.value)


def test_a_flipped_bit_in_the_program_is_noticed(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "flipped.pt2"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = next(info for info in archive.infolist() if "models/" in info.filename)
    flipped = bytearray(data)
    flipped[info.header_offset + 200 + info.compress_size // 2] ^= 4
    path.write_bytes(flipped)
    with pytest.raises(errors.ArchiveError):
        graphwire.load(path)
    assert graphwire.verify(path) != []


def test_a_flipped_bit_in_a_weight_is_noticed_when_asked(data: bytes) -> None:
    flipped = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = next(info for info in archive.infolist() if info.filename.endswith("weight_1"))
        weight = archive.read(info)
    start = data.index(weight, info.header_offset)
    flipped[start] ^= 1
    graphwire.loads(flipped)
    with pytest.raises(errors.ChecksumError, match="weight_1"):
        graphwire.loads(flipped, verify=True)
    with pytest.raises(errors.ChecksumError, match="weight_1"):
        graphwire.loads(flipped, copy=True)
    assert [problem.kind for problem in graphwire.verify(flipped)] == ["record"]


def test_a_weight_that_does_not_fit_its_record_is_an_error(data: bytes) -> None:
    cut = _rewritten(data, lambda n, content: (n, content[:-1] if n.endswith("weight_0") else content))
    with pytest.raises(errors.ArchiveError, match="needs 24 bytes, its record has 23"):
        graphwire.loads(cut)
    assert "extent" in [problem.kind for problem in graphwire.verify(cut)]


# ---------------------------------------------------------------------------------------------------------- formats


def test_an_unknown_format_is_refused_before_anything_is_written(
    program: ExportedProgram, tmp_path: Path
) -> None:
    with pytest.raises(errors.UnknownFormatError, match="json"):
        graphwire.save(program, tmp_path / "program.pt2", format="yaml")
    assert list(tmp_path.iterdir()) == []


def test_the_format_of_a_plugin_that_is_not_installed_is_named(program: ExportedProgram) -> None:
    without_cbor = Registry.of(json, ops, treespecs)
    data = graphwire.dumps(program, format="cbor")
    with pytest.raises(errors.UnknownFormatError, match="cbor"):
        graphwire.loads(data, registry=without_cbor)


def test_bytes_of_no_format_are_refused() -> None:
    with pytest.raises(errors.UnknownFormatError, match="json"):
        graphwire.decode(b"\xc1 not a document")


# ---------------------------------------------------------------------------------------------- what cannot be saved


@pytest.fixture
def unsayable() -> ExportedProgram:
    """A program with an argument that nothing can say."""
    program = export(module_of(lambda x: (x + 1).clamp(0.0, 1.0)), (torch.ones(3),))
    node = next(node for node in program.graph.nodes if node.name == "clamp")
    node.args = (node.args[0], object(), node.args[2])
    return program


def test_an_argument_that_nothing_can_say_is_named_with_its_node(unsayable: ExportedProgram) -> None:
    with pytest.raises(errors.EncodeError, match=r"clamp.*object") as caught:
        graphwire.dumps(unsayable)
    assert "clamp" in caught.value.place


def test_after_an_error_the_old_file_is_whole_and_alone(unsayable: ExportedProgram, tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"the old file")
    with pytest.raises(errors.EncodeError):
        graphwire.save(unsayable, path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


def test_a_crash_while_a_file_is_written_leaves_the_old_one(
    program: ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"the old file")
    extra: Any = {"good": b"", "bad": 7}
    with pytest.raises((TypeError, AttributeError, errors.GraphwireError)):
        graphwire.save(program, path, extra_files=extra)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


def test_no_program_at_all_is_refused() -> None:
    with pytest.raises(errors.EncodeError, match="no program"):
        graphwire.dumps({})


def test_metadata_that_is_no_data_is_refused() -> None:
    program = export(module_of(lambda x: x.sin()), (torch.ones(3),))
    next(iter(program.graph.nodes)).meta["custom"] = {"key": object()}
    with pytest.raises(errors.EncodeError, match=r"x: meta\['custom'\]"):
        graphwire.dumps(program)


def test_an_operator_that_no_handler_owns_is_named() -> None:
    program = export(module_of(lambda x: x.sin()), (torch.ones(3),))
    next(node for node in program.graph.nodes if node.name == "sin").target = len
    with pytest.raises(
        errors.EncodeError, match=r"sin: no operator handler supports <built-in function len>"
    ):
        graphwire.dumps(program)


# ---------------------------------------------------------------------------------------------- documents that lie


def _with_document(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    def edit(name: str, content: bytes) -> tuple[str, bytes]:
        if "models/" not in name:
            return name, content
        tree = json_text.loads(content)
        change(tree)
        return name, json_text.dumps(tree).encode()

    return _rewritten(data, edit)


def test_all_problems_of_a_document_are_listed(data: bytes) -> None:
    def break_three(tree: dict[str, Any]) -> None:
        graph = tree["graph_module"]["graph"]
        graph["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody"
        graph["outputs"][0] = {"as_tensor": {"name": "linear"}, "as_int": 3}
        tree["range_constraints"]["s0 +* 2"] = {"min_val": 3, "max_val": 2}

    broken = _with_document(data, break_three)
    with pytest.raises(errors.ValidationError) as caught:
        graphwire.loads(broken)
    problems = caught.value.problems
    places = {problem.place: problem.kind for problem in problems}
    assert places["graph_module.graph.nodes[0].inputs[0].arg"] == "dangling-reference"
    assert places["graph_module.graph.outputs[0]"] == "variant"
    of_range = [problem.kind for problem in problems if problem.place.startswith("range_constraints")]
    assert of_range == ["expression", "range"]
    assert all(str(problem) in str(caught.value) for problem in problems)
    told = [problem for problem in graphwire.verify(broken) if problem.kind != "manifest"]  # which it lost
    assert len(told) == len(problems)


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        pytest.param(lambda t: t.pop("graph_module"), errors.SchemaError, "graph_module", id="a field is missing"),
        pytest.param(lambda t: t.update(range_constraints=7), errors.SchemaError, "range_constraints", id="a type"),
        pytest.param(
            lambda t: t["schema_version"].update(major=9), errors.SchemaVersionError, "schema_version", id="a major version"
        ),
        pytest.param(
            lambda t: t.update(requires=["teleport"]), errors.UnsupportedFeatureError, "teleport", id="a feature"
        ),
        pytest.param(lambda t: t.update(verifiers=["MARTIAN"]), errors.DecodeError, "MARTIAN", id="a dialect"),
        pytest.param(lambda t: t["opset_version"].update(aten=99), errors.OpsetError, "aten", id="a version"),
        pytest.param(lambda t: t["opset_version"].update(mars=1), errors.OpsetError, "mars", id="a namespace"),
        pytest.param(
            lambda t: t["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.aten.linearr.default"),
            errors.UnknownOperatorError,
            "aten::linear",
            id="an operator",
        ),
        pytest.param(
            lambda t: t["graph_module"]["graph"]["nodes"][0]["inputs"][1].update(name="heft"),
            errors.DecodeError,
            "no parameter heft",
            id="a parameter",
        ),
    ],
)  # fmt: skip
def test_what_this_installation_does_not_know_is_named(
    change: Callable[[dict[str, Any]], Any], error: type[Exception], told: str, data: bytes
) -> None:
    with pytest.raises(error) as caught:
        graphwire.loads(_with_document(data, change))
    assert told in str(caught.value)


def test_records_that_were_made_wrong_are_refused(program: ExportedProgram) -> None:
    record, payloads = graphwire.to_schema(program)
    wrong = msgspec.convert(msgspec.to_builtins(record), type(record))
    wrong.graph_module.graph.nodes.clear()
    with pytest.raises(errors.ValidationError, match="dangling-reference"):
        graphwire.from_schema(wrong, payloads)


# --------------------------------------------------------------------------------- libraries that are not there at load

_LIBRARY = """
import torch

@torch.library.custom_op("graphwire_absent::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@triple.register_fake
def _(x):
    return torch.empty_like(x)
"""

_LOAD = """
import sys
import torch
import graphwire

try:
    graphwire.load(sys.argv[1])
except graphwire.errors.UnknownOperatorError as error:
    print(error)
import library
print(graphwire.load(sys.argv[1]).module()(torch.ones(2)).tolist())
"""


def test_a_custom_operator_that_is_not_registered_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(_LIBRARY)
    exec(_LIBRARY, {})
    program = export(module_of(lambda x: torch.ops.graphwire_absent.triple(x)), (torch.ones(2),))
    graphwire.save(program, tmp_path / "program.pt2")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD, tmp_path / "program.pt2"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    error, result = done.stdout.splitlines()
    assert "torch.ops.graphwire_absent.triple.default" in error
    assert "Import or install the library that registers graphwire_absent::triple" in error
    assert result == "[3.0, 3.0]"


def test_a_weight_of_a_class_that_does_not_say_what_it_consists_of_is_refused_by_name() -> None:
    class Odd(Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    program = export(nn.Linear(1, 1), (torch.ones(1, 1),))
    program.state_dict["bias"] = torch.zeros(1).as_subclass(Odd)
    with pytest.raises(errors.EncodeError, match=r"bias: .*Odd.* not a plain strided tensor.*codec"):
        graphwire.dumps(program)
