"""The file that `save` writes by default tells torch's own reader as much as torch's own file does."""

from __future__ import annotations

import io
import re
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from inside.analysis import Omission
from inside.evolve import subgraphs
from inside.schema import ProcessNumbers
from inside.testing import snapshot
from inside.wire import Document, write_package
from this_torch import RELEASE
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

import graphwire
from graphwire import WriteReport, errors
from graphwire.cli import main
from graphwire.schema import Program, StackFrame
from graphwire.testing import assert_same_values

_GOLDEN = Path(__file__).resolve().parents[1] / "golden/archives"


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, times: int, *, more: dict[str, list[torch.Tensor]]) -> Any:
        branch = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return self.linear(branch).split(2, dim=1)[0] * times + more["a"][0]


@pytest.fixture
def program() -> ExportedProgram:
    more = {"a": [torch.rand(3, 2, requires_grad=True), None]}
    return export(_Model(), (torch.rand(3, 4), 2), {"more": more})


def _read_by_torch(data: bytes) -> ExportedProgram:
    return torch.export.load(io.BytesIO(data))


def _traces(program: ExportedProgram) -> list[dict[str, Any]]:
    """The traces of each graph, without torch's counts of the functions that it generated in this process."""
    numbers = ProcessNumbers()
    modules = [each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    return [
        {
            node.name: numbers.trace(node.meta.get("stack_trace") or "")
            for node in each.graph.nodes
            if node.op == "call_function"
        }
        for each in modules
    ]


@pytest.mark.parametrize("target", [None, "torch", "torch-2.13"])
def test_torch_finds_stack_traces_and_example_inputs(program: ExportedProgram, target: str | None) -> None:
    own = io.BytesIO()
    torch.export.save(program, own)
    expected = _read_by_torch(own.getvalue())
    data = graphwire.dumps(program, target=target)
    read = _read_by_torch(data)
    assert _traces(read) == _traces(expected)
    assert all(all(traces.values()) for traces in _traces(read))
    for each in (read, graphwire.loads(data)):
        assert_same_values(each.example_inputs, program.example_inputs)


def test_our_reader_has_no_use_for_the_pickle(program: ExportedProgram) -> None:
    """The example inputs stand in the archive twice; a load looks at no byte of the pickle."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(graphwire.dumps(program))) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            if not name.endswith("manifest.json"):
                pickled = name.endswith("data/sample_inputs/model.pt")
                new.writestr(name, b"no pickle" if pickled else old.read(name))
    assert_same_values(graphwire.loads(changed.getvalue()).example_inputs, program.example_inputs)


_PLAIN = [
    (),
    (3, "text", None, 0.5, True),
    (torch.Size((2, 3)), torch.Size(())),
    ({None: 1, True: 2, 3.5: 3},),
]


@pytest.mark.parametrize("example", _PLAIN)
def test_inputs_that_are_no_tensors_reach_torch(example: tuple[Any, ...]) -> None:
    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> torch.Tensor:
            return torch.ones(2)

    program = export(Model(), example)
    data = graphwire.dumps(program)
    read = _read_by_torch(data).example_inputs
    assert read == program.example_inputs == (example, {})
    assert [*map(type, read[0])] == [*map(type, example)]
    assert graphwire.loads(data).example_inputs == (example, {})
    assert graphwire.verify(io.BytesIO(data)) == []


@pytest.mark.parametrize("format", ["msgpack", "cbor"])
def test_a_file_that_torch_cannot_read_has_no_pickle(program: ExportedProgram, format: str) -> None:
    with zipfile.ZipFile(io.BytesIO(graphwire.dumps(program, format=format))) as archive:
        assert archive.read("program/data/sample_inputs/model.pt") == b""


@pytest.mark.parametrize("target", [None, "torch", "torch-2.9", "torch-2.6"])
def test_tensors_of_the_meta_device_reach_torch(target: str | None) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = torch.nn.Parameter(torch.ones(3, 4, device="meta"))
            self.empty = torch.nn.Parameter(torch.ones(0, 4, device="meta"), requires_grad=False)
            self.register_buffer("turned", torch.ones(4, 3, device="meta").t())
            self.register_buffer("part", torch.ones(40, device="meta")[3:6], persistent=False)
            self.constant = torch.ones(2, device="meta", dtype=torch.bfloat16)
            self.real = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> Any:
            held = x @ self.first, self.second, self.empty, self.turned, self.part, self.constant, self.real
            return [each + 1 for each in held]

    program = export(Model(), (torch.ones(3, 3, device="meta"),))
    data = graphwire.dumps(program, target=target)
    read = [graphwire.loads(data)] if target == "torch-2.6" else [graphwire.loads(data), _read_by_torch(data)]
    for each in read:
        for ours, its in ((program.state_dict, each.state_dict), (program.constants, each.constants)):
            assert {name: _facts(held) for name, held in ours.items()} == {
                name: _facts(held) for name, held in its.items()
            }
        assert each.example_inputs[0][0].is_meta
        assert [result.shape for result in each.module()(torch.ones(3, 3, device="meta"))]
    assert graphwire.content_hash(data) == graphwire.content_hash(graphwire.dumps(program, format="cbor"))


def _facts(held: torch.Tensor) -> Any:
    return type(held), held.requires_grad, held.device, held.dtype, held.shape, held.stride()


def test_keys_that_no_utf8_has_reach_torch() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"\udfff": x["\ud800"] + 1}

    program = export(Model(), ({"\ud800": torch.ones(2)},))
    data = graphwire.dumps(program, target="torch")
    for each in (graphwire.loads(data), _read_by_torch(data)):
        assert_same_values(each.example_inputs, program.example_inputs)
        assert list(each.module()({"\ud800": torch.ones(2)})) == ["\udfff"]


def test_provenance_reaches_torch_in_a_file_for_it() -> None:
    program = export(torch.nn.ReLU(), (torch.rand(2),)).run_decompositions()
    read = _read_by_torch(graphwire.dumps(program, target="torch"))
    origins, found = (
        {
            name: node["meta"].get("from_node")
            for name, node in snapshot(each)["graph_module"]["nodes"].items()
        }
        for each in (program, read)
    )
    assert origins["relu"]
    assert found["relu"] == origins["relu"]


def _in_a_table(program: Program) -> Program:
    """A program as the first writers wrote it: stack traces are rows of frames, in every graph."""
    module = program.graph_module
    rows: dict[tuple[str, ...], int] = {}
    pending = [module.graph]
    for graph in pending:  # grows while it is walked
        pending += [
            graph for node in graph.nodes for named in node.inputs for _, graph in subgraphs(named.arg)
        ]
        for owner in [*graph.nodes, *graph.value_metadata.values(), graph.output_metadata]:
            if owner is not None and (trace := owner.metadata.pop("stack_trace", None)):
                frames = re.findall(r'( *)File "(.*)", line (\d+), in (.*)\n((?:    .*\n?|\^)*)', trace)
                owner.stack = [rows.setdefault(frame, len(rows)) for frame in frames]
    module.stack_frames = [
        StackFrame(file, int(line), name, source, stripped=not indent)
        for indent, file, line, name, source in rows
    ]
    return program


def _old_file(program: ExportedProgram, format: str) -> bytes:
    record, payloads = graphwire.to_schema(program)
    data = graphwire.encode(_in_a_table(record), format)
    stream = io.BytesIO()
    write_package(stream, {"model": Document(data, f".{format}", payloads)})
    return stream.getvalue()


@pytest.mark.parametrize("format", ["json", "cbor"])
@pytest.mark.parametrize("step", [graphwire.convert, graphwire.upgrade])
def test_an_old_file_that_is_converted_tells_torch_what_a_new_one_does(
    program: ExportedProgram, format: str, step: Any
) -> None:
    old = _old_file(program, format)
    with graphwire.open(old) as archive:
        assert archive.program.graph_module.stack_frames
    again = io.BytesIO()
    step(io.BytesIO(old), again, format="json")
    new = graphwire.dumps(program)
    with graphwire.open(again.getvalue()) as archive, graphwire.open(new) as fresh:
        assert archive.program == fresh.program
    assert _traces(_read_by_torch(again.getvalue())) == _traces(_read_by_torch(new))
    assert_same_values(_read_by_torch(again.getvalue()).example_inputs, program.example_inputs)


@pytest.mark.parametrize("format", ["json", "cbor", "msgpack"])
@pytest.mark.parametrize("path", sorted(_GOLDEN.iterdir()), ids=lambda path: path.name)
def test_the_first_files_become_files_of_today(path: Path, format: str, tmp_path: Path) -> None:
    graphwire.convert(path, tmp_path / "new.pt2", format=format)
    with graphwire.open(path) as archive:
        old = archive.program_of("provenance")
    with graphwire.open(tmp_path / "new.pt2") as archive:
        new = archive.program_of("provenance")
    frames = [frame.text for frame in old.graph_module.stack_frames]
    (before,), (after,) = old.graph_module.graph.nodes, new.graph_module.graph.nodes
    assert before.stack is not None
    assert after.metadata == {
        **before.metadata,
        "stack_trace": "".join(frames[each] for each in before.stack),
    }
    assert new.graph_module.graph.value_metadata["x"].metadata["stack_trace"] == frames[2]
    assert (new.graph_module.stack_frames, after.stack, after.from_node) == ([], None, before.from_node)
    assert graphwire.content_hash(new) == graphwire.content_hash(old)


class _Input(NamedTuple):
    x: torch.Tensor


def test_example_inputs_that_torch_does_not_find_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are in the file for graphwire; a file for torch has no other form of them."""
    pytree._register_namedtuple(_Input, serialized_type_name="test_default_file_for_torch.Input")

    class Model(torch.nn.Module):
        def forward(self, one: _Input) -> torch.Tensor:
            return one.x.sin()

    program = export(Model(), (_Input(torch.ones(2)),))
    told: list[WriteReport] = []
    graphwire.save(program, tmp_path / "plain.pt2", report=told.append)
    graphwire.convert(tmp_path / "plain.pt2", tmp_path / "again.pt2", report=told.append)
    reason = "a collections.namedtuple among the example inputs has no plain form"
    assert_same_values(graphwire.load(tmp_path / "again.pt2").example_inputs, program.example_inputs)
    for report in told:
        assert report.dropped == []
        assert str(report).endswith(f"not for torch: model: example inputs ({reason})")
    assert (
        main(["convert", str(tmp_path / "plain.pt2"), str(tmp_path / "other.pt2"), "--format", "json"]) == 0
    )
    assert f"model: torch does not find the example inputs ({reason})" in capsys.readouterr().out
    for write in (
        lambda: graphwire.save(program, tmp_path / "torch.pt2", target="torch", report=told.append),
        lambda: graphwire.convert(
            tmp_path / "plain.pt2", tmp_path / "torch.pt2", target="torch", report=told.append
        ),
    ):
        with pytest.warns(errors.GraphwireWarning, match=f"the example inputs of 'model' .*: {reason}"):
            write()
        assert told.pop().dropped == [Omission("example inputs", reason, "model")]
    assert torch.export.load(tmp_path / "torch.pt2").example_inputs is None


def test_documents_are_stored_on_request(program: ExportedProgram, tmp_path: Path) -> None:
    """For readers that cannot inflate: every record's bytes stand in the file as they are."""
    extra = {"note.txt": b"again and " * 100}
    plain, stored, converted, typed = (tmp_path / f"{name}.pt2" for name in ("plain", "stored", "api", "cli"))
    graphwire.save(program, plain, extra_files=extra)
    graphwire.save(program, stored, extra_files=extra, compress=False)
    graphwire.convert(plain, converted, compress=False)
    assert main(["convert", str(plain), str(typed), "--format", "json", "--stored"]) == 0
    for path in (stored, converted, typed):
        content = path.read_bytes()
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(plain) as deflated:
            assert archive.namelist() == deflated.namelist()
            assert all(each.compress_type == zipfile.ZIP_STORED for each in archive.infolist())
            for name in archive.namelist():
                data = archive.read(name)
                assert data in content
                assert name.endswith("manifest.json") or data == deflated.read(name)
        assert graphwire.verify(path) == []
        assert torch.export.load(path).graph_module.code == torch.export.load(plain).graph_module.code
    assert stored.stat().st_size > plain.stat().st_size


def test_the_target_torch_is_the_installed_release_wherever_a_target_is_taken(
    program: ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = "torch-{}.{}".format(*RELEASE)
    record, _ = graphwire.to_schema(program)
    assert graphwire.encode(record, target="torch") == graphwire.encode(record, target=release)
    assert graphwire.supports(program, "torch") == graphwire.supports(program, release) == []
    data = graphwire.dumps(program, target=release)
    assert graphwire.dumps(program, target="torch") == data
    graphwire.save(program, tmp_path / "plain.pt2")
    graphwire.convert(tmp_path / "plain.pt2", tmp_path / "api.pt2", target="torch")
    command = ["convert", str(tmp_path / "plain.pt2"), str(tmp_path / "cli.pt2"), "--format", "json"]
    assert main([*command, "--target", "torch"]) == 0
    assert (tmp_path / "api.pt2").read_bytes() == (tmp_path / "cli.pt2").read_bytes() == data
    with pytest.raises(errors.EncodeError, match="reads JSON, not cbor"):
        graphwire.dumps(program, target="torch", format="cbor")
    with pytest.raises(errors.SchemaVersionError, match=r"Targets are torch \(the installed release\)"):
        graphwire.dumps(program, target="tensorflow")

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(errors.SchemaVersionError, match="the installed release, but torch is not installed"):
        graphwire.encode(record, target="torch")


def test_extra_files_are_taken_and_given_as_by_torch(program: ExportedProgram, tmp_path: Path) -> None:
    path, given = tmp_path / "model.pt2", {"a.txt": "á\n", "b/c.txt": ""}
    graphwire.save(program, path, extra_files=given)
    ours, torchs = {"a.txt": ""}, {"a.txt": ""}
    graphwire.load(path, extra_files=ours)
    torch.export.load(path, extra_files=torchs)
    assert ours == torchs == given
    torch.export.save(program, path, extra_files=given)
    ours = {}
    graphwire.loads(path.read_bytes(), extra_files=ours)
    assert ours == given
    graphwire.save(program, path, extra_files={"raw": b"\xff", "text": b"text", "bytes": "text"})
    mixed: dict[str, Any] = {"bytes": b"", "other": "stays"}
    graphwire.load(path, extra_files=mixed)
    assert mixed == {"raw": b"\xff", "text": "text", "bytes": b"text", "other": "stays"}
    with pytest.raises(errors.DecodeError, match="extra_files= takes MutableMapping, not"):
        graphwire.load(path, extra_files=["a.txt"])  # type: ignore[arg-type]
