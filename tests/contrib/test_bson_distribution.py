"""A stranger's format works: `contrib/graphwire-bson` is installed by pip in an environment of its own, and used there.

The environment sees the packages of the one that runs the tests (graphwire and torch among them) behind its own; `pymongo`,
which holds the module `bson`, comes from the package index.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DISTRIBUTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-bson"

SAVE_AND_LOAD = """
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

import graphwire

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"sum": self.linear(x), "rest": (x.relu(), x * float("inf"))}

program = torch.export.export(
    Model(), (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},)
)
path, json_path = sys.argv[1:]
graphwire.save(program, path, format="bson")
graphwire.convert(path, json_path, format="json")
x = torch.ones(7, 4)
expected = program.module()(x)
for each in (path, json_path):
    actual = graphwire.load(each).module()(x)
    assert torch.equal(expected["sum"], actual["sum"])
    assert torch.equal(expected["rest"][1], actual["rest"][1])
    assert type(actual["rest"]) is tuple
with graphwire.open(path) as archive:
    print(type(archive.program).__name__)
"""


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("bson")
    done = environment.install("pymongo>=4.9")
    if done.returncode:
        pytest.skip(f"pymongo cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.slow
def test_the_command_lists_it_beside_the_formats_in_the_box(environment: Any) -> None:
    plugins = json.dumps(json.loads(environment.run("-m", "graphwire", "plugins", "--json")))
    assert "graphwire-bson" in plugins
    for name in ("bson", "json", "msgpack", "cbor"):
        assert f'"{name}"' in plugins


@pytest.mark.slow
def test_programs_are_saved_and_loaded_through_it(environment: Any, tmp_path: Path) -> None:
    path, json_path = tmp_path / "program.pt2", tmp_path / "json.pt2"
    assert environment.run("-W", "error::ResourceWarning", "-c", SAVE_AND_LOAD, path, json_path).split() == [
        "Program"
    ]
    assert path.stat().st_size < 20_000
    assert "bson" in environment.run("-m", "graphwire", "inspect", path)


@pytest.mark.slow
def test_without_it_the_file_says_what_is_missing(environment: Any, tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    environment.run("-c", SAVE_AND_LOAD, path, tmp_path / "json.pt2")
    command = [sys.executable, "-m", "graphwire", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "bson" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_its_own_tests_pass(environment: Any, tmp_path: Path) -> None:
    summary = environment.run_tests(DISTRIBUTION / "tests", tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
