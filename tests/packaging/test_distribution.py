"""What is released works: the sdist, the wheel that it builds, and that wheel in an environment of its own.

The clean environment does not download torch again. It gets the declared dependencies of the wheel, theirs in turn, and
nothing more, as links to the packages of the environment that runs the tests: a `.pth` file names the folder of links.
A dependency that we import without declaring it is therefore missing there, and so is the outer installation of
graphwire. The wheel itself is installed by pip, entry points and console script included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from release.building import ROOT, Distributions, build, copy_tracked, tracked_files
from release.contents import faults_of, wheel_faults
from release.environments import SMOKE


class Environment(NamedTuple):
    """A virtual environment that holds the wheel and its dependencies."""

    folder: Path
    site_packages: Path

    def run(self, *command: str | Path, torch: bool = False) -> None:
        """Run a program of the environment, which must succeed, where no source is in reach.

        Args:
            command: the program and its arguments.
            torch: whether it finds what the extra `torch` installs.
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
        assert done.returncode == 0, f"{executable} ended with {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The sdist of this tree, and the wheel that is built from the sdist (not from the tree)."""
    folder = tmp_path_factory.mktemp("dist")
    copy_tracked(folder / "source")
    return build(folder / "source", folder)


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


@pytest.mark.slow
def test_the_distributions_hold_what_belongs_there_and_nothing_else(distributions: Distributions) -> None:
    assert faults_of(distributions) == []


@pytest.mark.slow
def test_what_does_not_belong_there_is_found(distributions: Distributions, tmp_path: Path) -> None:
    wheel = Path(shutil.copy(distributions.wheel, tmp_path))
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("graphwire/notes.orig", "")
    lacking = ROOT.joinpath("src/core/graphwire/py.typed")
    sources = [name for name in tracked_files() if ROOT / name != lacking]
    faults = wheel_faults(wheel, sources)
    assert f"{wheel.name}: contains graphwire/notes.orig" in faults
    assert f"{wheel.name}: contains graphwire/py.typed" in faults
    assert f"{wheel.name}: its files have 2 times" in faults


@pytest.mark.slow
def test_the_wheel_carries_the_licence(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        (licence,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_files_are_read_where_only_the_wheel_and_its_dependencies_are(
    clean: Environment, tmp_path: Path
) -> None:
    archives = ROOT / "conformance/valid/archives"
    clean.run(
        "python",
        "-W",
        "error",
        SMOKE,
        "files",
        tmp_path,
        archives / "deflated.pt2",
        archives / "stored.pt2",
    )


@pytest.mark.slow
def test_programs_are_saved_and_loaded_with_the_extra_torch(clean: Environment, tmp_path: Path) -> None:
    clean.run("python", SMOKE, "programs", tmp_path, torch=True)
