"""How much tests try in `make test`, in `make test-all`, and by night (`make test-nightly`).

`make test` leaves out what has the mark `slow`: what takes seconds and rarely breaks. A test that tries more by night is one of
hypothesis, or has the mark `nightly`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def by_day(few: T, *, by_night: T) -> T:
    """`few`, but in the nightly run all of it."""
    return by_night if IS_NIGHTLY else few


def one_in(number: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters of a test: the first of each `number` for `make test`; the others are slow."""
    return [
        pytest.param(value, marks=[pytest.mark.slow] if index % number else [])
        for index, value in enumerate(values)
    ]
