"""A few hundred mutated inputs for each reader, the same ones on every run; `make fuzz` makes others, and as many as it is told."""

from __future__ import annotations

import random
import signal

import pytest
from fuzz import execute, input_of
from targets import TARGETS

EXECUTIONS = {"document": 20, "load": 50, "trees": 50}


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_give_a_value_or_an_error_of_ours(name: str) -> None:
    target, chance = TARGETS[name], random.Random(name)
    seeds = target.seeds()
    assert [execute(target, seed) for seed in seeds] == ["value"] * len(seeds)
    for _ in range(EXECUTIONS.get(name, 300)):
        execute(target, input_of(target, chance, seeds))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
