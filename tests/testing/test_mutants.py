"""The contract suites find what they are for: each is held against providers that are wrong in one thing."""

from __future__ import annotations

import ast
import gc
import os
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import pytest

import graphwire.testing

MUTANTS = Path(__file__).with_name("mutants.py")
SOURCE = MUTANTS.read_text()
ROWS = [
    (f"Test{provider}", base, test)
    for base, test, provider in re.findall(r'^@mutant\((\w+), "(\w+)"\)\nclass (\w+)', SOURCE, re.MULTILINE)
]
ROWS += re.findall(
    r'^class (Test\w+)\((\w+)\):(?:(?!^class ).)*?^    fails = "(\w+)"', SOURCE, re.MULTILINE | re.DOTALL
)
"""Each mutant: its class, its base, and the test that must fail on it."""
SUITES = {base for _, base, _ in ROWS}
"""The suites with a right provider."""


class Recorder:
    """What became of each test, by its class and name: `passed`, or why it failed."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, owner, test = report.nodeid.split("::")
        self.outcomes[owner, test.partition("[")[0]].add(
            report.longreprtext if report.failed else report.outcome
        )


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], set[str]]:
    """The tests named, run on the mutants, and all of them on the right providers; in this process, which has torch."""
    wanted = [f"{MUTANTS}::{owner}::{test}" for owner, _, test in ROWS]
    wanted += sorted({f"{MUTANTS}::{base}::{test}" for _, base, test in ROWS})
    recorder = Recorder()
    options = [
        "-q",
        "--noconftest",
        "--import-mode=importlib",
        "-c",
        os.devnull,
        f"--rootdir={MUTANTS.parent}",
    ]
    # A file that a wrong provider leaves open is found by the collector, perhaps in the test of a right one.
    without = ("cacheprovider", "xdist", "unraisableexception")
    options += [word for name in without for word in ("-p", f"no:{name}")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        pytest.main([*options, *wanted], plugins=[recorder])
        gc.collect()
    return recorder.outcomes


def test_each_assertion_says_what_is_wrong() -> None:
    """`check-plugin` shows the message, where the values of an assertion say little."""
    found = {
        f"{path.name}:{node.lineno}"
        for path in Path(graphwire.testing.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert) and node.msg is None
    }
    assert found == set()


def test_every_suite_has_mutants() -> None:
    assert len(SUITES) == 6
    for base in SUITES:
        assert sum(each == base for _, each, _ in ROWS) >= 6, base


@pytest.mark.parametrize(("mutant", "base", "test"), ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.slow
def test_a_mutant_fails_where_the_right_one_passes(
    mutant: str, base: str, test: str, outcomes: dict[tuple[str, str], set[str]]
) -> None:
    assert outcomes[mutant, test] - {"passed", "skipped"}
    assert outcomes[base, test] == {"passed"}


@pytest.mark.slow
def test_an_author_reads_the_values_of_each_assertion(tmp_path: Path) -> None:
    """pytest explains an assertion of a module that is not a test only if the module asks for it."""
    code = """
from graphwire.testing import WeightStoreContract

class Store:
    takes_storages = False
    def keeps(self, dtype): return True

class TestBad(WeightStoreContract):
    store = Store()
"""
    (tmp_path / "test_bad.py").write_text(code)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "it_says_which_types",
        tmp_path,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert "assert not True" in done.stdout
    assert "where True = keeps('no_such_type')" in done.stdout
