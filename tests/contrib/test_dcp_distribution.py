"""A stranger's weight store works: `contrib/graphwire-dcp` is installed by pip in an environment of its own, and used there.

The contract suite, and the tests with several processes, are in `heavy`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DISTRIBUTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-dcp"
SAVE = """
import sys
import torch
import graphwire

program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(1, 4),))
graphwire.save(program, sys.argv[1], weights=sys.argv[2])
"""


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("dcp")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.slow
def test_its_own_short_tests_pass(environment: Any, tmp_path: Path) -> None:
    tests = DISTRIBUTION / "tests"
    others = [f"--ignore={tests / name}" for name in ("test_sharded.py", "test_contract.py")]
    summary = environment.run_tests(tests, tmp_path, *others)
    assert "passed" in summary
    assert "failed" not in summary


@pytest.mark.slow
def test_without_it_the_file_says_what_is_missing(environment: Any, tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    environment.run("-W", "ignore", "-c", SAVE, path, tmp_path / "weights/.metadata")
    assert ".metadata" in environment.run("-m", "graphwire", "weights", path)
    command = [sys.executable, "-m", "graphwire", "verify", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "graphwire-dcp" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
