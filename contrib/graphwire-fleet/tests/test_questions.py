"""Questions are answered, by one row each; SQL reads the catalogue, and nothing else."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.strategies import characters, lists, text

sys.path.insert(0, str(Path(__file__).parent))

import torch
from fleet_files import corpus, listed, read
from graphwire_fleet.asking import QueryError, ask, opened
from graphwire_fleet.parameters import UnknownNameError, distribution_named
from graphwire_fleet.questions import QUESTIONS
from graphwire_fleet.reading import Inspecting, Targeting, Verifying

import graphwire
from graphwire.cli import main
from graphwire.evolve.targets import supports
from graphwire.schema.trees import to_tree


class Scaled(torch.nn.Module):
    def __init__(self, alpha: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(self.linear(x), x, alpha=self.alpha)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Old files of torch, two programs with the same weights, one of them with its operators at an older version, and damage."""
    folder = tmp_path_factory.mktemp("files")
    for path in (
        sorted((corpus() / "2.1.0").glob("*.pt2"))[::4] + sorted((corpus() / "2.13.0").glob("*.pt2"))[::8]
    ):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    first, second = Scaled(2), Scaled(3)
    second.load_state_dict(first.state_dict())
    for name, module in (("first", first), ("second", second)):
        graphwire.save(torch.export.export(module, (torch.ones(2, 64),)), folder / f"{name}.pt2")
    graphwire.convert(folder / "second.pt2", folder / "second.pt2", opset_version={"aten": 9})
    (folder / "damaged.pt2").write_bytes((folder / "first.pt2").read_bytes()[:-100])
    return folder


@pytest.fixture(scope="module")
def catalogue(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("catalogue") / "now"
    for work in (Inspecting(), Targeting(), Verifying()):
        read(place, listed(folder), work)
    return place


@pytest.fixture
def answered(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an action, and returns the rows that it prints."""

    def answer(*words: Any) -> list[dict[str, Any]]:
        code = main(["fleet", *map(str, words), "--json"])
        printed = capsys.readouterr()
        rows = [json.loads(line) for line in printed.out.splitlines()]
        assert code == (1 if rows and QUESTIONS[words[0]].finds else 0), printed.err
        return rows

    return answer


def names(rows: list[dict[str, Any]]) -> set[str]:
    return {Path(row["file"]).name for row in rows}


def test_who_uses_an_operator_and_with_which_arguments(catalogue: Path, folder: Path, answered: Any) -> None:
    rows = answered("uses", catalogue, "aten::add.Tensor")
    expected = {}
    for path in folder.glob("*.pt2"):
        if path.name != "damaged.pt2":
            calls = graphwire.inspect(path).methods[0].summary.operators
            if count := calls.get("torch.ops.aten.add.Tensor"):
                expected[path.name] = count
    assert {name: sum(Path(row["file"]).name == name for row in rows) for name in names(rows)} == expected
    alphas = {Path(row["file"]).name: json.loads(row["arguments"]).get("alpha") for row in rows}
    assert (alphas["first.pt2"], alphas["second.pt2"]) == (2, 3)


@pytest.mark.parametrize(
    "word", ["add", "aten.add", "aten::add", "add.Tensor", "aten.add.Tensor", "torch.ops.aten.add.Tensor"]
)
def test_a_name_means_an_operator_with_or_without_namespace_and_overload(
    word: str, catalogue: Path, answered: Any
) -> None:
    rows = [row for row in answered("uses", catalogue, word) if row["target"] != "_operator.add"]
    assert rows
    assert rows == answered("uses", catalogue, "torch.ops.aten.add.Tensor")


WORDS = [
    (name, each.name)
    for name, question in QUESTIONS.items()
    for each in question.parameters
    if each.type is str
]


@pytest.mark.parametrize(("name", "parameter"), WORDS)
def test_a_name_that_the_catalogue_lacks_is_an_error(
    name: str, parameter: str, catalogue: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [parameter] if parameter.startswith("--") else []
    assert main(["fleet", name, str(catalogue), *given, "no-such-name"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no-such-name" in printed.err


def test_a_mistyped_name_gets_the_nearest(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "uses", str(catalogue), "aten.ad"]) == 2
    assert "aten.add" in capsys.readouterr().err
    for word, names in (
        ("Graphwire_Torchao", ["graphwire-torchao"]),
        ("graphwire.torchao", ["graphwire-torchao"]),
    ):
        assert distribution_named(word, names) == {"plugin": "graphwire-torchao"}
    with pytest.raises(UnknownNameError, match="There is graphwire-torchao"):
        distribution_named("graphwire-torcho", ["graphwire-torchao", "graphwire-fleet"])


def test_programs_whose_nodes_were_not_read_are_not_forgotten(
    catalogue: Path, folder: Path, answered: Any, tmp_path: Path
) -> None:
    read(tmp_path, listed(folder), Inspecting(nodes=False))
    expected = {(row["file"], row["target"]) for row in answered("uses", catalogue, "add")}
    assert {(row["file"], row["target"]) for row in answered("uses", tmp_path, "add")} == expected


def test_no_answer_replaces_a_file_of_a_catalogue(
    catalogue: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (catalogue / "catalogue.json").read_bytes()
    for name in ("catalogue.json", "commits/new.json"):
        assert main(["fleet", "shared", str(catalogue), "-o", str(catalogue / name)]) == 2
        assert "has a catalogue" in capsys.readouterr().err
    assert (catalogue / "catalogue.json").read_bytes() == before
    assert not (catalogue / "commits/new.json").exists()


def test_what_a_release_cannot_read_as_it_is_or_at_all(catalogue: Path, folder: Path, answered: Any) -> None:
    rows = {Path(row["file"]).name: row for row in answered("unreadable", catalogue, "2.6")}
    assert rows["damaged.pt2"]["failure"]
    for path in folder.glob("*.pt2"):
        if path.name == "damaged.pt2":
            continue
        with graphwire.open(path) as archive:
            oldest, program = archive.report("model").readable_from, archive.program
        readable = oldest.startswith("torch-") and tuple(map(int, oldest[6:].split("."))) <= (2, 6)
        assert (path.name not in rows) == readable, path.name
        if not readable:
            row = rows[path.name]
            obstacles = supports(to_tree(program), "torch-2.6")
            assert (row["readable_from"], row["convertible"]) == (oldest, not obstacles)
            texts = [": ".join(filter(None, (each.node, each.construct))) for each in obstacles]
            assert row["obstacles"] == texts


def test_programs_that_share_weights(catalogue: Path, answered: Any, folder: Path, tmp_path: Path) -> None:
    [row] = answered("shared", catalogue)
    assert [Path(each["file"]).name for each in row["programs"]] == ["first.pt2", "second.pt2"]
    assert (row["weights"], row["bytes"], row["known_by"]) == (1, 64 * 64 * 4, "checksums")
    assert answered("shared", catalogue, "--least", "1")[0]["weights"] == 2
    # With digests, checksums that are equal by chance do not count.
    read(tmp_path, listed(folder), Inspecting(digests=True))
    assert answered("shared", tmp_path)[0]["known_by"] == "digests"


def test_what_an_upgrade_would_touch(catalogue: Path, folder: Path, answered: Any) -> None:
    rows = answered("outdated", catalogue)
    plan = graphwire.plan_upgrade(folder / "second.pt2")["model"]
    expected = [f"opset {each.namespace} {each.from_version} → {each.to_version}" for each in plan.steps]
    assert [row["step"] for row in rows if row["file"].endswith("second.pt2")] == expected
    assert expected
    assert not [row for row in rows if row["file"].endswith("first.pt2")]


def test_which_files_fail_and_which_need_a_plugin(catalogue: Path, answered: Any) -> None:
    failures = answered("failures", catalogue)
    assert {"inspect", "targets", "verify"} == {row["work"] for row in failures if "damaged" in row["file"]}
    assert answered("plugins", catalogue) == []


def test_what_changed_between_two_catalogues(
    catalogue: Path, folder: Path, answered: Any, tmp_path: Path
) -> None:
    later, files = tmp_path / "later", sorted(folder.glob("*.pt2"))
    moved = tmp_path / "files"
    shutil.copytree(folder, moved)
    read(tmp_path / "before", listed(moved), Inspecting())
    graphwire.upgrade(moved / "second.pt2", moved / "second.pt2")
    (moved / "first.pt2").unlink()
    shutil.copy(files[0], moved / "new.pt2")
    (moved / files[1].name).write_bytes(b"no longer")
    read(later, listed(moved), Inspecting())
    rows = {
        (Path(row["file"]).name, row["change"]): row
        for row in answered("changes", tmp_path / "before", later)
    }
    assert rows.keys() == {
        ("second.pt2", "changed"),
        ("first.pt2", "removed"),
        ("new.pt2", "added"),
        (files[1].name, "removed"),
        (files[1].name, "fails"),
    }
    assert "opsets" in rows["second.pt2", "changed"]["columns"]
    assert answered("changes", catalogue, catalogue) == []


def test_a_question_without_its_rows_says_what_to_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(tmp_path, listed(folder)[:1], Inspecting())
    assert main(["fleet", "unreadable", str(tmp_path), "torch-2.6"]) == 2
    assert "graphwire fleet targets PATTERN" in capsys.readouterr().err


def test_a_target_is_a_release_or_a_schema(catalogue: Path, answered: Any, folder: Path) -> None:
    assert answered("unreadable", catalogue, "2.6") == answered("unreadable", catalogue, "torch-2.6")
    count = len(list(folder.glob("*.pt2")))
    assert len(answered("unreadable", catalogue, "compact-5.3")) == count
    assert [row["file"] for row in answered("unreadable", catalogue, "torch")] == [
        str(folder / "damaged.pt2")
    ]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_prints_its_sql_which_runs(
    name: str, catalogue: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = QUESTIONS[name]
    words = [*(str(catalogue) for _ in question.catalogues)]
    words += [
        {"OPERATOR": "aten.add", "TARGET": "8.14"}[each.name]
        for each in question.parameters
        if not each.name.startswith("--")
    ]
    assert main(["fleet", name, *words, "--sql"]) == 0
    assert capsys.readouterr().out.strip().startswith(("SELECT", "WITH", "-- $"))
    assert main(["fleet", name, *words, "--csv"]) in ((0, 1) if question.finds else (0,))


# ----------------------------------------------------------------------------------------------------------------- SQL


def test_the_answer_is_a_table_json_csv_or_parquet(
    catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT file, opsets, plugins, parameter_bytes FROM programs ORDER BY file"
    with opened({"main": str(catalogue)}) as connection:
        expected = list(ask(connection, sql).rows()[1])
    command = ["fleet", "query", str(catalogue), sql]
    assert main([*command, "--csv"]) == 0
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["file", "opsets", "plugins", "parameter_bytes"]
    assert [(row[0], json.loads(row[1]), json.loads(row[2]), int(row[3])) for row in rows] == expected
    for form in ("parquet", "csv", "json"):
        assert main([*command, "-o", str(tmp_path / f"out.{form}")]) == 0
    assert pq.read_table(tmp_path / "out.parquet")["file"].to_pylist() == [row[0] for row in expected]
    assert [
        tuple(json.loads(line).values()) for line in (tmp_path / "out.json").read_text().splitlines()
    ] == expected
    capsys.readouterr()
    assert main(command) == 0
    assert str(expected[0][0]) in capsys.readouterr().out
    assert main([*command, "-o", str(tmp_path / "out.xlsx")]) == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.csv", "out.json", "out.parquet"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(names=lists(text(characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
@example(
    names=["a.pt2\nb.pt2,forged", "a\rb", "\x85", "\u2028", '"', ",", "", " ", "'", "\\", "\x1b[31m", "=1+1"]
)
def test_what_is_written_is_read_back_whatever_the_names(
    catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    values = ", ".join(
        f"({number}, '{name.replace(chr(39), chr(39) * 2)}')" for number, name in enumerate(names)
    )
    command = ["fleet", "query", str(catalogue), f"SELECT * FROM (VALUES {values}) AS t(n, file) ORDER BY n"]
    for form in ("parquet", "csv", "json"):
        assert main([*command, "-o", str(tmp_path / f"out.{form}")]) == 0
    assert pq.read_table(tmp_path / "out.parquet")["file"].to_pylist() == names
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["n", "file"], *([str(n), name] for n, name in enumerate(names))]
    lines = (tmp_path / "out.json").read_text("utf-8").split("\n")
    assert [json.loads(line)["file"] for line in lines[:-1]] == names
    capsys.readouterr()
    assert main([*command, "--csv"]) == 0
    read = csv.reader(io.StringIO(capsys.readouterr().out, newline=""))
    assert [row[1] for row in read] == ["file", *names]
    assert main([*command, "--json"]) == 0
    assert [json.loads(line)["file"] for line in capsys.readouterr().out.split("\n")[:-1]] == names


def test_no_column_is_lost_and_numbers_are_those_of_json(
    catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fleet", "query", str(catalogue)]
    twice = "SELECT file, file FROM programs"
    for words in (["--json"], ["-o", str(tmp_path / "out.json")], ["-o", str(tmp_path / "out.parquet")]):
        assert main([*command, twice, *words]) == 2
        assert "several columns are named 'file'. Name them with AS" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main([*command, twice, "--csv"]) == 0
    assert capsys.readouterr().out.startswith("file,file\n")
    assert main([*command, "SELECT 'nan'::DOUBLE AS a, [1.5, '-inf'::DOUBLE] AS b", "--json"]) == 0
    assert capsys.readouterr().out == '{"a": "nan", "b": [1.5, "-inf"]}\n'


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('{other}')",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "COPY (SELECT 1 AS read) TO '{part}'",
        "EXPLAIN ANALYZE COPY (SELECT 1 AS read) TO '{part}'",
        "EXPLAIN ANALYZE COPY (SELECT 1 AS read) TO '{part}' (FORMAT parquet, USE_TMP_FILE false)",
        "ATTACH '{folder}/written.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW programs",
        "SELECT 1; SELECT 2",
        "SELECT * FROM expected",
        "CALL pragma_version()",
        "",
    ],
)
def test_sql_reads_the_catalogue_and_nothing_else(sql: str, catalogue: Path, tmp_path: Path) -> None:
    secret, other = tmp_path / "secret.txt", tmp_path / "other.parquet"
    secret.write_text("secret")
    part = next((catalogue / "programs").iterdir())
    shutil.copy(part, other)
    before = {each: each.read_bytes() for each in [*tmp_path.iterdir(), *catalogue.glob("*/*")]}
    expected = pq.read_table(other)
    assert expected.num_rows
    text = sql.format(secret=secret, folder=tmp_path, other=other, part=part)
    with opened({"main": str(catalogue)}) as connection:
        with pytest.raises(QueryError):
            list(ask(connection, text).rows()[1])
        assert list(ask(connection, "SELECT count(*) > 0 FROM programs").rows()[1]) == [(True,)]
    assert {each: each.read_bytes() for each in [*tmp_path.iterdir(), *catalogue.glob("*/*")]} == before


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
def test_texts_of_files_control_no_terminal(form: list[str], catalogue: Path) -> None:
    done = on_a_terminal(
        "fleet", "query", str(catalogue), "SELECT 'a' || chr(27) || '[2J' || chr(10) || 'b' AS x", *form
    )
    assert b"\x1b" not in done
    assert b"[2J" in done


def on_a_terminal(*words: str) -> bytes:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "graphwire", *words]
    subprocess.run(command, stdout=theirs, env={**os.environ, "NO_COLOR": "1"}, check=True)
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while part := os.read(ours, 1 << 16):
            printed += part
    os.close(ours)
    return printed


def test_unlocked_sql_may_read_and_write_files(
    catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = f"COPY (SELECT count(*) AS count FROM programs) TO '{tmp_path}/written.csv'"
    assert main(["fleet", "query", str(catalogue), sql]) == 2
    assert "Give one SELECT" in capsys.readouterr().err
    assert main(["fleet", "query", str(catalogue), "--unlocked", sql]) == 0
    assert (tmp_path / "written.csv").read_text().startswith("count\n")
