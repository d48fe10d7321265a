"""What is tried less by day is tried by night."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = Path(ROOT, "Makefile").read_text("utf-8")
SHORTENED = [
    path
    for path in sorted(Path(ROOT, "tests").rglob("test_*.py"))
    if re.search(r"by_day\(|NIGHTLY|environ\S+HYPOTHESIS", path.read_text("utf-8"))
]


@pytest.mark.parametrize("path", SHORTENED, ids=lambda path: path.stem)
def test_a_nightly_target_collects_what_tries_less_by_day(path: Path) -> None:
    text = path.read_text("utf-8")
    (gate,) = re.findall(r"^GATE := \$\(addprefix tests/constructs/,(.*)\)$", MAKEFILE, re.MULTILINE)
    in_gate = path.name in gate.split()
    assert in_gate or "pytest.mark.nightly" in text or "@given(" in text or path == Path(__file__)


def test_the_nightly_workflow_runs_both_targets() -> None:
    targets = Path(ROOT, ".github", "workflows", "nightly.yml").read_text("utf-8")
    assert {"test-nightly", "test-gate"} <= set(re.findall(r"[\w-]+", targets))


def test_what_make_test_leaves_out_runs_in_ci_and_by_night() -> None:
    recipes = dict(re.findall(r"^([\w-]+):.*\n\t(.*)$", MAKEFILE, re.MULTILINE))
    assert '-m "not slow"' in recipes["test"]
    assert "-m slow" in recipes["test-slow"]
    assert "or slow" in recipes["test-nightly"]
    script = Path(ROOT, ".ci", "run")
    assert not script.exists() or {"test", "test-slow"} <= set(script.read_text("utf-8").split())
