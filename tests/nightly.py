"""How much tests try by day (`make test`) and by night (`make test-nightly`).

A test that tries more by night is one of hypothesis, or has the mark `nightly`: those are what `make test-nightly` collects.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def by_day(few: T, *, by_night: T) -> T:
    """`few`, but in the nightly run all of it."""
    return by_night if IS_NIGHTLY else few
