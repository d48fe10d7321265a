"""What a step makes of a document is what it made of it when the step was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from corpus_documents import same, stepped_up
from inside.evolve import STEPS, VARIANTS, Step, operators_down, version_of
from make_goldens import CASES, golden_path

from graphwire.errors import Obstacle

GOLDEN = [
    pytest.param(step, case, id=f"{step.older}-{case['source']}")
    for step in (*STEPS, *VARIANTS)
    if golden_path(step).exists()
    for case in json.loads(golden_path(step).read_text())
]

CHANGED_FOR_GOOD = {"2.1.0/lifted_constant", "2.3.1/pytree_std"}
"""A constant that becomes an input; an output that the older reader has no way to read."""


def test_every_step_has_golden_documents() -> None:
    assert {str(step.older) for step in (*STEPS, *VARIANTS)} == set(CASES)
    missing = [str(step.older) for step in (*STEPS, *VARIANTS) if not golden_path(step).exists()]
    assert missing == [], "run tests/evolve/make_goldens.py"


@pytest.mark.parametrize(("step", "case"), GOLDEN)
def test_the_step_up_makes_the_golden_document(step: Step, case: dict[str, Any]) -> None:
    before = json.dumps(case["older"])
    assert same(stepped_up(step, case["older"]), case["newer"])
    assert json.dumps(case["older"]) == before
    assert version_of(case["older"]) == step.older


@pytest.mark.parametrize(
    ("step", "case"), [p for p in GOLDEN if p.values[1]["source"] not in CHANGED_FOR_GOOD]
)
def test_the_step_down_makes_the_document_before(step: Step, case: dict[str, Any]) -> None:
    ignored: list[Obstacle] = []  # what the older loader cannot read is written all the same
    before = json.dumps(case["newer"])
    tree = operators_down(case["newer"], step.newer, ignored.append)
    assert same(step.down(tree, ignored.append), case["older"])
    assert json.dumps(case["newer"]) == before
