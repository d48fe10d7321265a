"""`contrib/graphwire-fleet`, installed by pip in an environment of its own, where its own tests run.

`make test-fleet` installs pyarrow, DuckDB and Ray first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DISTRIBUTION = Path(__file__).resolve().parents[3] / "contrib/graphwire-fleet"
FILES = sorted(each.name for each in (DISTRIBUTION / "tests").glob("test_*.py"))

pytest.importorskip("pyarrow", reason="needs the extra `fleet`: make test-fleet")


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("fleet")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    return environment


def test_the_command_is_found_and_imports_nothing_heavy(environment: Any) -> None:
    code = """
import sys
from graphwire.cli import main
assert main(["fleet", "inspect", "--help"]) == 0
print(*sorted({"torch", "pyarrow", "duckdb", "ray", "psutil", "fsspec"} & set(sys.modules)), file=sys.stderr)
"""
    done = environment.attempt("-c", code)
    assert done.returncode == 0, done.stderr
    assert "PATTERN" in done.stdout
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("name", FILES)
def test_its_own_tests_pass(name: str, environment: Any, tmp_path: Path) -> None:
    summary = environment.run_tests(DISTRIBUTION / "tests" / name, tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
