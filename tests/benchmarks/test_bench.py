"""The benchmark measures every set in one form, and docs/performance.md has the numbers of docs/performance.json."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from nightly import IS_NIGHTLY

sys.path.append(str(Path(__file__).parent))

from samples import UNITS, Numbers, Row
from sets import large
from tables import TABLES, markdown
from timing import Bench

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
WAYS = ("torch.export", "json", "msgpack", "cbor")
ACTIONS = ("save to a path", "save in memory", "load")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Numbers, str]:
    """What a run of two sets wrote, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "numbers.json"
    command = [sys.executable, HERE / "bench.py", "programs", "steps", "--program", "lenet", "--runs", "1"]
    done = subprocess.run([*command, "--json", file], check=True, capture_output=True, text=True, timeout=300)
    return Numbers.read(file), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_program_has_samples_of_each_way_to_save_it(run: tuple[Numbers, str], way: str) -> None:
    numbers, _ = run
    name = f"programs/lenet/{way}"
    for unit in ("s", "cpu s"):
        assert sorted(numbers.metrics(name, unit)) == sorted(ACTIONS)
    assert numbers.metrics(name, "B") == ["program"]
    assert all(len(row.samples) == 1 for row in numbers.rows if row.name == name)


@pytest.mark.nightly
@pytest.mark.skipif(not IS_NIGHTLY, reason="starts thirty processes: `make test-nightly`")
def test_each_command_is_measured_on_large_programs(tmp_path: Path) -> None:
    bench = Bench(1, False, False, tmp_path, (), lambda step: None)
    rows = [*large._weights(bench, 1, "names"), *large._nodes(bench, 1_000)]
    seconds = [row.metric for row in rows if row.unit == "s"]
    assert {*large.commands_on(tmp_path, tmp_path, tmp_path), "save by reference", "load"} <= {*seconds}


STEPS = {
    "save": ["storages found", "program → records", "records → bytes", "archive (deflate, checksums)",
             "archive to a synced, replaced file", "all of save"],
    "load": ["directory read", "bytes → records (inflate, decode)", "weights' configuration", "records checked",
             "records → program", "of which torch's verifiers", "all of load"],
    "floor": ["msgspec: records → JSON", "msgspec: JSON → records", "zlib: deflate at level 6", "FX: nodes created",
              "torch: a fake tensor for each value", "torch: code of the graph generated"],
}  # fmt: skip


@pytest.mark.slow
def test_each_step_of_a_save_and_a_load_has_samples(run: tuple[Numbers, str]) -> None:
    numbers, _ = run
    found = {
        action: [step.strip() for step in numbers.metrics(f"steps/lenet/{action}", "s")] for action in STEPS
    }
    assert found == STEPS


@pytest.mark.slow
def test_what_was_measured_is_printed_as_tables(run: tuple[Numbers, str]) -> None:
    numbers, printed = run
    for name in ("small programs", "program times", "steps", "environment"):
        table = TABLES[name](numbers)
        assert table.rows
        assert all(row[1] in printed for row in table.rows)


def test_numbers_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [Row("a/x", "load", "s", [1.5, 2.0]), Row("a/x", "program", "B", [7])]
    numbers = Numbers({"processors": 1}, {"torch": "2.13.0"}, rows)
    file = tmp_path / "numbers.json"
    numbers.write(file)
    assert Numbers.read(file) == numbers
    file.write_text(file.read_text().replace('"unit": "B"', '"unit": "MB"'))
    with pytest.raises(ValueError, match="unknown units"):
        Numbers.read(file)


def test_a_set_that_is_measured_again_replaces_the_old_one() -> None:
    old = Numbers({"processors": 1}, {}, [Row("a/x", "load", "s", [1]), Row("b/x", "load", "s", [1])])
    new = Numbers({"processors": 2}, {}, [Row("a/y", "load", "s", [2])])
    updated = old.updated(new)
    assert [row.name for row in updated.rows] == ["b/x", "a/y"]
    assert updated.machine == new.machine


def test_documented_tables_and_picture_are_those_of_the_documented_numbers() -> None:
    for file, text in make_performance().generated().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run python docs/make_performance.py"


def test_every_documented_table_has_rows() -> None:
    numbers = Numbers.read(DOCS / "performance.json")
    marked = make_performance().MARKED.findall((DOCS / "performance.md").read_text(encoding="utf-8"))
    assert marked
    for name in marked:
        header, line, *rows = markdown(TABLES[name](numbers))
        assert rows, name
        assert {row.count("|") for row in (line, *rows)} == {header.count("|")}
    assert {row.unit for row in numbers.rows} <= UNITS.keys()


def make_performance() -> ModuleType:
    """docs/make_performance.py as a module."""
    spec = importlib.util.spec_from_file_location("make_performance", DOCS / "make_performance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
