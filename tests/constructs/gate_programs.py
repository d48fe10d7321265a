"""Every program that a loaded one is tried as: the constructs, torch's database of higher-order operators, and small models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from families import CONSTRUCTS
from higher_order import MODES, database_programs
from programs import PROGRAMS, Inputs, decoder
from small_programs import SMALL_PROGRAMS
from torch.export import ExportedProgram


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
    return cases


CASES = _cases()
"""What makes each program and a call of it, by name; None where it cannot be run here."""
