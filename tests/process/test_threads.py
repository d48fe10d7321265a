"""Any number of threads use the functions that need no torch, and get what one thread gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GIVEN = Path(__file__).parents[2] / "conformance" / "given"
SCRIPT = Path(__file__).with_name("at_once.py")


@pytest.mark.slow
def test_eight_threads_of_a_fresh_process_find_what_one_finds() -> None:
    files = [GIVEN / f"torch_{name}.pt2" for name in ("2_1_dataclass", "2_5_linear", "2_13_cond")]
    done = subprocess.run([sys.executable, SCRIPT, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 threads, 36 results each, 0 of them errors"), done.stdout
