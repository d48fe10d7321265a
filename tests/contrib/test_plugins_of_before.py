"""Plugins that were written some time ago work with today's graphwire: each is installed, and its own tests run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLUGINS = sorted(
    each.parent for each in (Path(__file__).parents[1] / "plugins_of_before").glob("*/pyproject.toml")
)
NEEDS = {"graphwire-bson": "pymongo>=4.9"}


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_their_own_tests_pass(plugin: Path, make_environment: Callable[[str], Any], tmp_path: Path) -> None:
    environment = make_environment(f"before-{plugin.name}")
    needed = NEEDS.get(plugin.name)
    if needed and (done := environment.install(needed)).returncode:
        pytest.skip(f"{needed} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    done = environment.install("--no-deps", "--no-build-isolation", plugin)
    assert done.returncode == 0, done.stderr
    summary = environment.run_tests(plugin / "tests", tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
