"""A stranger's weight store works: `contrib/graphwire-sqlite` is installed by pip in an environment of its own, and used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire
from graphwire.errors import GraphwireError

DISTRIBUTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-sqlite"
COMMANDS = (("verify",), ("weights",), ("hash", "--weights"), ("inspect",))


@pytest.mark.slow
def test_its_own_tests_pass_and_commands_use_it(
    make_environment: Callable[[str], Any], tmp_path: Path
) -> None:
    environment = make_environment("sqlite")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    summary = environment.run_tests(DISTRIBUTION / "tests", tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
    plain, path = tmp_path / "plain.pt2", tmp_path / "m.pt2"
    graphwire.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),)), plain)
    environment.run("-m", "graphwire", "convert", plain, "-o", path, "--weights", tmp_path / "m.sqlite")
    for command in COMMANDS:
        environment.run("-W", "error", "-m", "graphwire", *command, path)
    with pytest.raises(GraphwireError, match="graphwire-sqlite"):
        graphwire.load(path)
