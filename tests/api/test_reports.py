"""What a load did, and which targets can read a program, is told on request."""

from __future__ import annotations

import io
import json
import tarfile
import warnings
from pathlib import Path

import pytest
import torch
from inside.evolve import CURRENT, RELEASES, STEPS, TARGETS

import graphwire
from graphwire import LoadReport
from graphwire.cli import main
from graphwire.testing import assert_same_program

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "corpus.tar.xz"
WANTED = (
    "2.1.0/linear",
    "2.6.0/scan",
    "2.5.1/pytree_dataclass_tensors",
    *(f"2.13.0/{name}" for name in ("linear", "associative_scan", "dtype_uint", "const_inputs_echo")),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS) as archive:
        wanted = [m for m in archive if m.name.endswith(tuple(f"{name}.pt2" for name in WANTED))]
        archive.extractall(folder, wanted, filter="data")
    return folder / "corpus"


def report_of(file: Path) -> LoadReport:
    told: list[LoadReport] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graphwire.load(file, report=told.append)
    (report,) = told
    return report


def test_a_file_of_2_1_is_told_with_every_step(files: Path) -> None:
    report = report_of(files / "2.1.0/linear.pt2")
    assert (report.producer, report.schema_version, report.layout) == ("torch 2.1", "1", "A1 (torch 2.1)")
    assert [each.step for each in report.steps][:3] == ["schema 1 → 2", "schema 2 → 5.1", "schema 5.1 → 5.3"]
    assert report.steps[-1].step == f"schema {STEPS[-1].older} → {CURRENT}"
    assert "the specs of inputs and outputs, from six maps of names" in report.derived
    assert {"guards", "example inputs"} <= set(report.absent)
    assert [each.what for each in report.dropped] == ["equality constraints"]
    assert "schema 1 → 2" in str(report).splitlines()


def test_an_operator_that_changed_is_told_with_its_nodes(files: Path) -> None:
    steps = {each.step: each.nodes for each in report_of(files / "2.6.0/scan.pt2").steps}
    (nodes,) = (nodes for step, nodes in steps.items() if "scan" in step)
    assert nodes
    assert "operator higher_order.scan in the form of 8.7" in steps


def test_example_inputs_of_an_unknown_class_are_told_with_the_reason(files: Path) -> None:
    with graphwire.open(files / "2.5.1/pytree_dataclass_tensors.pt2") as archive:
        report = archive.report("model")
    assert [each.what for each in report.dropped] == ["example inputs"]
    assert report.dropped[0].reason
    assert "example inputs" not in report.absent


def test_a_file_of_today_needs_no_step(files: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    told: list[LoadReport] = []
    graphwire.loads(graphwire.dumps(program), report=told.append)
    assert (told[0].steps, told[0].derived, told[0].dropped, told[0].absent) == ([], [], [], [])
    assert told[0].producer.startswith("graphwire ")


def test_a_file_tells_whether_torch_wrote_it_or_graphwire_for_that_torch(files: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    for release, version in RELEASES.items():
        if version < CURRENT:
            found = graphwire.inspect(graphwire.dumps(program, target=f"torch-{release}"))
            assert found.producer == f"graphwire, for torch {release}"
    for name in WANTED:
        release = name.partition("/")[0].rpartition(".")[0]
        assert graphwire.inspect(files / f"{name}.pt2").producer.startswith(f"torch {release}")


def test_a_load_without_a_report_is_the_same_load(files: Path) -> None:
    file = files / "2.13.0/linear.pt2"
    told: list[LoadReport] = []
    assert_same_program(graphwire.load(file), graphwire.load(file, report=told.append))
    assert len(told) == 1


def test_inspect_shows_the_steps_as_text_and_as_data(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(files / "2.6.0/scan.pt2")
    assert main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert "operator higher_order.scan in the form of 8.7" in text
    assert f"8.2, read as {CURRENT}" in text
    assert main(["inspect", path, "--json"]) == 0
    (method,) = json.loads(capsys.readouterr().out)["methods"]
    assert method["report"]["schema_version"] == "8.2"


def test_inspect_names_every_target_and_what_keeps_it_from_reading(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(files / "2.6.0/scan.pt2")
    assert main(["inspect", path, "--targets", "--json"]) == 0
    (method,) = json.loads(capsys.readouterr().out)["methods"]
    found = {each["target"]: each["obstacles"] for each in method["targets"]}
    assert list(found) == list(TARGETS)
    assert found["torch-2.6"] == []
    (obstacle,) = found["torch-2.5"]
    assert obstacle["first"] == "torch-2.6"
    assert "scan" in obstacle["construct"]
    assert obstacle["node"]
    assert main(["inspect", path, "--targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == [f"torch-{[*RELEASES][-1]}", "yes"] for line in lines)
    assert any(line.split()[:2] == ["torch-2.5", "no"] for line in lines)


def test_targets_of_a_program_agree_with_supports() -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    stream = io.BytesIO(graphwire.dumps(program))
    found = graphwire.targets(stream)
    assert {name: graphwire.supports(program, name) for name in ("torch-2.1", "draft-2022", "5.3")} == {
        name: found[name] for name in ("torch-2.1", "draft-2022", "5.3")
    }


def test_a_version_is_named_with_and_without_the_word_schema() -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    assert graphwire.supports(program, "schema-5.3") == graphwire.supports(program, "5.3") == []
    assert graphwire.loads(graphwire.dumps(program, target="schema-1")).state_dict.keys() == {
        "weight",
        "bias",
    }


@pytest.mark.parametrize(
    ("model", "format", "first"),
    [
        ("linear", "json", "torch-2.9"),
        ("dtype_uint", "json", "torch-2.12"),
        ("associative_scan", "json", "torch-2.13"),
        ("const_inputs_echo", "json", "graphwire-0.1"),
        ("linear", "msgpack", "graphwire-0.1"),
    ],
)
def test_a_file_records_its_first_reader(files: Path, model: str, format: str, first: str) -> None:
    # What each release's own loader does with these files was tried with the releases 2.9 to 2.15.
    stream = io.BytesIO()
    graphwire.convert(files / f"2.13.0/{model}.pt2", stream, format=format)
    with graphwire.open(stream.getvalue()) as archive:
        assert archive.program.readable_from == first
        assert archive.report("model").readable_from == first


def test_the_first_reader_of_a_file_for_a_target_is_the_target(files: Path) -> None:
    stream = io.BytesIO()
    graphwire.convert(files / "2.13.0/linear.pt2", stream, target="torch-2.6")
    with graphwire.open(stream.getvalue()) as archive:
        assert archive.program.readable_from is None
        assert archive.report("model").readable_from == "torch-2.6"


def test_an_operator_is_an_obstacle_for_a_release_that_lacks_it_with_the_same_schema(files: Path) -> None:
    file = files / "2.13.0/associative_scan.pt2"
    assert graphwire.supports(file, "torch-2.13") == []
    obstacles = graphwire.supports(file, "torch-2.12")
    assert {each.first for each in obstacles} == {"torch-2.13"}
    with pytest.raises(graphwire.errors.TargetError, match="predispatch"):
        graphwire.convert(file, io.BytesIO(), target="torch-2.12")
    operators = [each for each in graphwire.supports(file, "torch-2.8") if "the operator" in each.construct]
    assert {each.first for each in operators} == {"torch-2.13"}
