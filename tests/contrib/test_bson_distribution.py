"""A stranger's format works: `contrib/graphwire-bson` is installed by pip in an environment of its own, and used there.

The environment sees the packages of the one that runs the tests (graphwire and torch among them) behind its own; `pymongo`,
which holds the module `bson`, comes from the package index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

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


class Environment:
    """A virtual environment with the outer packages behind its own."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
        packages = Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        outer = sysconfig.get_path("purelib")
        # `addsitedir`, since a plain line would leave out the `.pth` files there, an editable graphwire among them.
        (packages / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n", encoding="utf-8")

    def run(self, *arguments: str | Path) -> str:
        """The standard output of its Python, away from any source tree."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GRAPHWIRE"))
        }
        done = subprocess.run(
            [self.python, *arguments],
            cwd=self.python.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.python,
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]
        return subprocess.run([*pip, *arguments], capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    try:
        metadata.distribution("graphwire")
    except metadata.PackageNotFoundError:
        pytest.skip("graphwire is on the path, but not installed, so its own plugins are not found either")
    environment = Environment(tmp_path_factory.mktemp("bson") / "environment")
    done = environment.install("pymongo>=4.9")
    if done.returncode:
        pytest.skip(f"pymongo cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    return environment


def test_it_is_not_installed_out_here() -> None:
    assert "graphwire-bson" not in {each.metadata["Name"] for each in metadata.distributions()}


def test_the_command_lists_it_beside_the_formats_in_the_box(environment: Environment) -> None:
    plugins = json.dumps(json.loads(environment.run("-m", "graphwire.cli", "plugins", "--json")))
    assert "graphwire-bson" in plugins
    for name in ("bson", "json", "msgpack", "cbor"):
        assert f'"{name}"' in plugins


def test_programs_are_saved_and_loaded_through_it(environment: Environment, tmp_path: Path) -> None:
    path, json_path = tmp_path / "program.pt2", tmp_path / "json.pt2"
    assert environment.run("-W", "error::ResourceWarning", "-c", SAVE_AND_LOAD, path, json_path).split() == [
        "Program"
    ]
    assert path.stat().st_size < 20_000
    assert "bson" in environment.run("-m", "graphwire.cli", "inspect", path)


def test_without_it_the_file_says_what_is_missing(environment: Environment, tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    environment.run("-c", SAVE_AND_LOAD, path, tmp_path / "json.pt2")
    command = [sys.executable, "-m", "graphwire.cli", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "bson" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_own_tests_pass(environment: Environment, tmp_path: Path) -> None:
    options = [
        "-q",
        "--import-mode=importlib",
        "-c",
        os.devnull,
        "--rootdir",
        tmp_path,
        "-p",
        "no:cacheprovider",
    ]
    summary = environment.run("-m", "pytest", *options, DISTRIBUTION / "tests")
    assert "passed" in summary
    assert "failed" not in summary
