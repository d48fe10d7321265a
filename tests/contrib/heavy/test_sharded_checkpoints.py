"""The contract suite of `contrib/graphwire-dcp`, and its tests with checkpoints that two and four processes write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

DISTRIBUTION = Path(__file__).resolve().parents[3] / "contrib/graphwire-dcp"


def test_its_long_tests_pass(make_environment: Callable[[str], Any], tmp_path: Path) -> None:
    environment = make_environment("sharded")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    for name in ("test_contract.py", "test_sharded.py"):
        summary = environment.run_tests(DISTRIBUTION / "tests" / name, tmp_path)
        assert "passed" in summary
        assert "failed" not in summary
