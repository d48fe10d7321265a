"""What is released works: the sdist, the wheel that it builds, and that wheel in an environment of its own.

The clean environment does not download torch again. It gets the declared dependencies of the wheel, theirs in turn, and
nothing more, as links to the packages of the environment that runs the tests: a `.pth` file names the folder of links.
A dependency that we import without declaring it is therefore missing there, and so is the outer installation of
graphwire. The wheel itself is installed by pip, entry points and console script included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"graphwire": ROOT / "src/core", "graphwire_plugins": ROOT / "src/plugins"}
FORMATS = ("json", "msgpack", "cbor")

SAVE_AND_LOAD = """
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch's word; graphwire needs no NumPy
import torch

import graphwire

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.arange(4.0))

    def forward(self, x):
        return {"sum": self.linear(x) + self.offset, "parts": (x.relu(), x.shape[0])}

program = torch.export.export(
    Model(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},)
)
graphwire.save(program, sys.argv[2], format=sys.argv[1])
loaded = graphwire.load(sys.argv[2])
x = torch.randn(7, 4)
expected, actual = program.module()(x), loaded.module()(x)
assert torch.equal(expected["sum"], actual["sum"])
assert torch.equal(expected["parts"][0], actual["parts"][0])
assert actual["parts"][1] == 7
print(graphwire.__file__)
"""


class Distributions(NamedTuple):
    """The two files of a release."""

    sdist: Path
    wheel: Path


class Environment(NamedTuple):
    """A virtual environment that holds the wheel and its dependencies."""

    folder: Path
    site_packages: Path

    def run(self, *command: str | Path, torch: bool = False, code: int = 0) -> str:
        """The standard output of a program of the environment, started where no source is in reach.

        Args:
            command: the program and its arguments.
            torch: whether it finds what the extra `torch` installs.
            code: how it ends. Its errors are returned instead if that is not 0.
        """
        executable, *arguments = command
        found = {"PYTHONPATH": str(self.folder / "with_torch")} if torch else {}
        done = subprocess.run(
            [self.folder / "bin" / executable, *arguments],
            cwd=self.folder,
            env={
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("PYTHON", "GRAPHWIRE"))
            }
            | found,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (
            f"{executable} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The sdist of this tree, and the wheel that is built from the sdist (not from the tree)."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return Distributions(sdist, wheel)


@pytest.fixture(scope="module")
def clean(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A virtual environment with the wheel, and links to its dependencies."""
    folder = tmp_path_factory.mktemp("clean") / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    pip = [folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", distributions.wheel], check=True)

    links = folder / "dependencies"
    (own,) = metadata.distributions(name="graphwire", path=[str(site_packages)])
    base = dependency_closure(own)
    assert "torch" not in base
    link(base, links)
    link(dependency_closure(own, "torch") - base, folder / "with_torch")
    (site_packages / "dependencies.pth").write_text(f"{links}\n")
    return Environment(folder, site_packages)


def link(names: set[str], folder: Path) -> None:
    """Make a folder with links to the packages of distributions."""
    folder.mkdir()
    for name in names:
        for entry in top_level_entries(metadata.distribution(name)):
            if not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)


def dependency_closure(root: metadata.Distribution, extra: str = "") -> set[str]:
    """The names of everything that `root` needs, with an extra or without, directly or through others."""
    names: set[str] = set()
    waiting = [(root, frozenset({"", extra}))]
    while waiting:
        distribution, extras = waiting.pop()
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            name = canonicalize_name(needed.name)
            try:
                found = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue  # torch of some releases names CUDA's packages, without which it runs on a CPU
            assert needed.specifier.contains(found.version, prereleases=True), (
                f"{line}, but {found.version} is here"
            )
            if name not in names:
                names.add(name)
                waiting.append((found, frozenset({"", *needed.extras})))
    return names


def top_level_entries(distribution: metadata.Distribution) -> Iterator[Path]:
    """The files and folders of a distribution that lie in site-packages itself."""
    names = {file.parts[0] for file in distribution.files or ()}
    for name in sorted(names - {"..", "__pycache__"}):
        yield Path(str(distribution.locate_file(name)))


def source_files() -> set[str]:
    """Every file under `src` that belongs in the wheel, as the wheel spells it."""
    return {
        path.relative_to(base).as_posix()
        for package, base in SOURCES.items()
        for path in (base / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_source_file_and_nothing_else(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        packaged = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packaged == source_files()


def test_the_wheel_carries_the_licence_and_the_types(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = wheel.namelist()
        (licence,) = (name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert {"graphwire/py.typed", "graphwire_plugins/py.typed"} <= set(names)


def test_the_sdist_can_be_tested_and_read_by_itself(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "docs/index.md"} <= names
    assert Path(__file__).resolve().relative_to(ROOT).as_posix() in names
    assert not {name for name in names if name.startswith((".venv", ".git/", "dist/"))}


def test_the_types_are_in_place_once_installed(clean: Environment) -> None:
    for package in SOURCES:
        assert (clean.site_packages / package / "py.typed").is_file()


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_program_is_saved_loaded_and_inspected_where_only_the_wheel_is_installed(
    clean: Environment, tmp_path: Path, format_name: str
) -> None:
    file = tmp_path / "model.pt2"
    imported_from = clean.run("python", "-c", SAVE_AND_LOAD, format_name, file, torch=True)
    assert Path(imported_from.strip()).is_relative_to(clean.site_packages)
    assert clean.run("graphwire", "inspect", file).strip()
    assert json.loads(clean.run("graphwire", "inspect", "--json", file))
    if format_name == "json":
        for command in (["verify"], ["hash", "--weights"], ["strip", "--in-place"]):
            clean.run("graphwire", *command, file)
        told = clean.run("python", "-c", f"import graphwire; graphwire.load({str(file)!r})", code=1)
        assert "torch is not installed" in told
        assert "pip install 'graphwire[torch]'" in told


def test_the_plugins_in_the_box_are_found_through_their_entry_points(clean: Environment) -> None:
    listed = json.dumps(json.loads(clean.run("graphwire", "plugins", "--json")))
    for format_name in FORMATS:
        assert f'"{format_name}"' in listed
