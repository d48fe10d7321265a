"""A loaded program serves for everything that the one that was saved serves for, with the same results.

Both are used in each way of `uses.py`, and where the one that was saved fails, nothing is asked of the loaded one. Every program
is tried by `make test-gate` (the profile `nightly` of hypothesis); otherwise the same few are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from construct import quiet
from families import CONSTRUCTS
from higher_order import BY_HAND, MODES, database_programs, program_by_hand
from programs import PROGRAMS, Inputs, decoder
from small_programs import SMALL_PROGRAMS
from torch.export import ExportedProgram
from uses import outcomes


class Case(NamedTuple):
    """A program and a call of it."""

    program: ExportedProgram
    call: Inputs


def _of_construct(key: str) -> Case | None:
    construct = CONSTRUCTS[key]
    return Case(construct.program(), Inputs(construct.calls[0], {})) if construct.calls else None


def _of_example(make: Callable[[], Any]) -> Case | None:
    example = make()
    return Case(example.program, example.calls[0]) if example.calls else None


def _cases() -> dict[str, Callable[[], Case | None]]:
    cases: dict[str, Callable[[], Case | None]] = {}
    for key, construct in CONSTRUCTS.items():
        if construct.refusal is None:
            cases[key] = lambda key=key: _of_construct(key)
    for name, make in {**SMALL_PROGRAMS, **PROGRAMS, "decoder": lambda: decoder(1)}.items():
        cases[f"small: {name}"] = lambda make=make: _of_example(make)
    for mode in MODES:
        for name, make in database_programs(mode):
            cases[f"database: {name} {mode}"] = lambda make=make: Case(*make())
    for name in BY_HAND:
        cases[f"by hand: {name}"] = lambda name=name: Case(*program_by_hand(name))
    return cases


CASES = _cases()
SAMPLE = (
    "higher-order operators: cond in cond, several results",
    "higher-order operators: tag_activation_checkpoint",
    "by hand: wrap_with_set_grad_enabled",
    "small: guards",
    "small: structured",
)
"""What is tried whenever the tests run."""
TRIED = list(CASES) if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else list(SAMPLE)


@pytest.mark.parametrize("name", TRIED)
def test_a_loaded_program_serves_for_what_the_saved_one_serves_for(name: str) -> None:
    with quiet():
        try:
            case = CASES[name]()
        except Exception as error:
            pytest.skip(f"torch does not export it: {error}")
        if case is None:
            pytest.skip("it cannot be run here")
        found = outcomes(case.program, case.call)
    wrong = [f"{use}: {each.defect[:1200]}" for use, each in found.items() if each.defect is not None]
    assert not wrong, "\n".join(wrong)
    assert found["is_called"].refusal is None, "what the program computes was not compared"
