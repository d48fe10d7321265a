"""Distributions under `contrib/`, and some as they were before: pip installs each in an environment of its own, where its own
tests run and commands use it; without it, a file that needs it says so.

The environment sees the packages of the one that runs the tests (graphwire and torch among them) behind its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import graphwire
from graphwire.errors import GraphwireError

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ROOT / "tests/plugins_of_before"


class Distribution(NamedTuple):
    """A distribution, and what `convert` is told so that a file needs it."""

    folder: Path
    needs: str = ""
    """What comes from the package index first."""
    options: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    """The files of its tests that `heavy` runs."""


DISTRIBUTIONS = {
    "bson": Distribution(ROOT / "contrib/graphwire-bson", "pymongo>=4.9", ("--format", "bson")),
    "dcp": Distribution(
        ROOT / "contrib/graphwire-dcp",
        options=("--weights", "weights/.metadata"),
        elsewhere=("test_sharded.py", "test_contract.py"),
    ),
    "linops": Distribution(ROOT / "contrib/graphwire-linops"),
    "sqlite": Distribution(ROOT / "contrib/graphwire-sqlite", options=("--weights", "m.sqlite")),
    "bson of before": Distribution(BEFORE / "graphwire-bson", "pymongo>=4.9"),
    "linops of before": Distribution(BEFORE / "graphwire-linops"),
    "slabs of before": Distribution(BEFORE / "graphwire-slabs"),
}
COMMANDS = (("verify",), ("weights",), ("hash", "--weights"), ("inspect",))


@pytest.fixture(scope="module")
def installed(make_environment: Callable[[str], Any]) -> Callable[[str], Any]:
    """Gives the environment of a distribution by its name."""

    @functools.cache
    def installed(name: str) -> Any:
        environment, distribution = make_environment(name), DISTRIBUTIONS[name]
        if distribution.needs and (done := environment.install(distribution.needs)).returncode:
            pytest.skip(f"{distribution.needs} cannot be installed here: {done.stderr.splitlines()[-1:]}")
        done = environment.install("--no-deps", "--no-build-isolation", distribution.folder)
        assert done.returncode == 0, done.stderr
        return environment

    return installed


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_its_own_tests_pass(name: str, installed: Callable[[str], Any], tmp_path: Path) -> None:
    tests = DISTRIBUTIONS[name].folder / "tests"
    elsewhere = [f"--ignore={tests / each}" for each in DISTRIBUTIONS[name].elsewhere]
    summary = installed(name).run_tests(tests, tmp_path, *elsewhere)
    assert "passed" in summary
    assert "failed" not in summary


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in DISTRIBUTIONS.items() if each.options])
def test_commands_use_it_and_without_it_a_file_says_what_is_missing(
    name: str, installed: Callable[[str], Any], tmp_path: Path
) -> None:
    environment, (option, value) = installed(name), DISTRIBUTIONS[name].options
    plain, path = tmp_path / "plain.pt2", tmp_path / "m.pt2"
    graphwire.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),)), plain)
    there = tmp_path / value if option == "--weights" else value
    environment.run("-m", "graphwire", "convert", plain, "-o", path, option, there)
    for command in COMMANDS:
        environment.run("-W", "error", "-m", "graphwire", *command, path)
    environment.run("-W", "ignore", "-c", "import graphwire, sys; graphwire.load(sys.argv[1])", path)
    with pytest.raises(GraphwireError, match=f"graphwire-{name}" if option == "--weights" else name):
        graphwire.load(path)
