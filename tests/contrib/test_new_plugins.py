"""What `graphwire new-plugin` writes works as it is: installed by pip, found, and its own tests pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphwire.cli.new_plugin import KINDS, write_plugin


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("new_plugins")
    return {kind: write_plugin(f"fresh-{kind}", kind, parent) for kind in KINDS}


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any], folders: dict[str, Path]) -> Any:
    environment = make_environment("new_plugins")
    done = environment.install("--no-deps", "--no-build-isolation", *folders.values())
    assert done.returncode == 0, done.stderr
    return environment


def test_each_is_found_and_active(environment: Any) -> None:
    plugins = json.loads(environment.run("-m", "graphwire.cli", "plugins", "--json"))
    fresh = {plugin["distribution"]: plugin["status"] for plugin in plugins if "fresh" in plugin["name"]}
    assert fresh == {f"graphwire-fresh-{kind}": "active" for kind in KINDS}


def test_the_tests_of_each_pass(environment: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    summary = environment.run_tests(folders["format"].parent, tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
