"""Puts the folders with the programs of the tests where they are imported from."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

sys.path += [
    str(_ROOT / each)
    for each in ("tests", "tests/constructs", "tests/operators", "tests/api", "contrib/demo")
]
