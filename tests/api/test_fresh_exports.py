"""One program makes the same bytes wherever it is exported: no address, counter or hash of the process gets into a file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("strict_export", "map_and_scan")
CODE = """
    import hashlib, sys, warnings

    sys.path[:0] = ["contrib/demo", "tests/api"]
    before = int(sys.argv[1])
    kept = [bytearray(100) for _ in range(before)]

    import torch
    from small_programs import SMALL_PROGRAMS

    import graphwire

    warnings.simplefilter("ignore")
    for _ in range(before % 7):  # torch counts the functions that it generates
        torch.fx.symbolic_trace(torch.nn.ReLU())
    for name in sys.argv[2:]:
        print(name, hashlib.sha256(graphwire.dumps(SMALL_PROGRAMS[name]().program)).hexdigest())
"""


def digests(seed: int, before: int, names: tuple[str, ...]) -> set[str]:
    """The names and digests of programs that a fresh process exports and saves."""
    command = [sys.executable, "-c", textwrap.dedent(CODE), str(before), *names]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return set(done.stdout.splitlines())


@pytest.mark.slow
def test_two_processes_make_the_same_bytes() -> None:
    found = digests(1, 10, PROGRAMS)
    assert len(found) == len(PROGRAMS)
    assert digests(2, 100_000, PROGRAMS[::-1]) == found
