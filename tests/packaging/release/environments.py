"""The environments in which a release is tried, and how each is made: empty, with pip, from the registries that pip knows."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from release.building import ROOT

End = Literal["oldest", "newest"]

TRIED_TESTS: Final = ("tests/golden", "tests/hooks", "tests/plugins", "tests/schema/test_records.py")
"""The part of the test suite that runs with the oldest of everything, and with the newest."""
SMOKE: Final = Path(__file__).with_name("smoke.py")
NEVER_ON_LINUX_X86: Final = ("Linux", "x86_64")
"""Where a release of torch without the label `cpu` is a build for CUDA, of several gigabytes."""


class Environment(NamedTuple):
    """An environment to try the wheel in.

    Args:
        python: the minor release of Python.
        torch: which of the allowed releases of torch it has; None for none.
        dependencies: which of the allowed releases of direct dependencies it has.
        suite: whether a part of the tests runs in it, with the dependencies of the extra `test`.
    """

    python: str
    torch: End | None
    dependencies: End
    suite: bool = False

    def __str__(self) -> str:
        torch = f"{self.torch} torch" if self.torch else "no torch"
        return f"Python {self.python}, {torch}, {self.dependencies} dependencies"


ENVIRONMENTS: Final = (
    Environment("3.11", None, "newest"),
    Environment("3.11", None, "oldest"),
    Environment("3.11", "oldest", "oldest", suite=True),
    Environment("3.11", "newest", "newest"),
    *(Environment(python, None, "newest") for python in ("3.12", "3.13", "3.14")),
    *(Environment(python, "newest", "newest") for python in ("3.12", "3.13")),
    Environment("3.14", "newest", "newest", suite=True),
)


class Unreachable(Exception):
    """This machine lacks something that an environment needs."""


class Project(NamedTuple):
    """What pyproject.toml requires."""

    dependencies: list[Requirement]
    extras: dict[str, list[Requirement]]

    def direct(self, *extras: str) -> Iterator[Requirement]:
        """The requirements of the distribution with some of its extras, those that an extra names included."""
        for requirement in [*self.dependencies, *(one for extra in extras for one in self.extras[extra])]:
            if requirement.name == "graphwire":
                yield from self.direct(*requirement.extras)
            else:
                yield requirement


def project(root: Path = ROOT) -> Project:
    """Read pyproject.toml."""
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        extra: [Requirement(line) for line in lines]
        for extra, lines in table["optional-dependencies"].items()
    }
    return Project([Requirement(line) for line in table["dependencies"]], extras)


def lower_bound(requirement: Requirement) -> str:
    """The oldest release that a requirement allows.

    Raises:
        SystemExit: it has no lower bound, so that nobody knows which releases work.
    """
    bounds = [one.version for one in requirement.specifier if one.operator == ">="]
    if len(bounds) != 1:
        raise SystemExit(f"pyproject.toml: {requirement} has no lower bound")
    return bounds[0]


class Maker(NamedTuple):
    """Makes environments.

    Args:
        folder: where they are made.
        wheel: the wheel to install.
        pythons: interpreters, besides those on PATH.
        torch_wheels: a folder with wheels of torch, besides the registries that pip knows.
        any_torch: whether builds of torch for CUDA may be installed.
    """

    folder: Path
    wheel: Path
    pythons: Sequence[Path]
    torch_wheels: str
    any_torch: bool

    def make(self, environment: Environment) -> Path:
        """Make an environment, and return its folder.

        Raises:
            Unreachable: this machine lacks the interpreter, or a release of torch for it.
            SystemExit: pip failed.
        """
        interpreter = self.interpreter(environment.python)
        folder = self.folder / str(environment).replace(", ", "-").replace(" ", "_")
        run([interpreter, "-m", "venv", folder])
        extras = [*(["torch"] if environment.torch else []), *(["test"] if environment.suite else [])]
        pins = [f"torch=={self.torch(folder, environment.torch)}"] if environment.torch else []
        if environment.dependencies == "oldest":
            pins += [
                f"{canonicalize_name(one.name)}=={lower_bound(one)}"
                for one in project().direct(*extras)
                if one.name != "torch"
            ]
        constraints = folder / "constraints.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in pins), "utf-8")
        wanted = f"{self.wheel}[{','.join(extras)}]" if extras else str(self.wheel)
        run([folder / "bin/pip", "install", "--quiet", "-c", constraints, *self.find_links, wanted])
        run([folder / "bin/pip", "check"])
        return folder

    @property
    def find_links(self) -> list[str]:
        return ["--find-links", self.torch_wheels] if self.torch_wheels else []

    def interpreter(self, python: str) -> Path:
        """The interpreter of a minor release of Python."""
        on_path = shutil.which(f"python{python}")
        for candidate in (*self.pythons, *([Path(on_path)] if on_path else [])):
            found = subprocess.run(
                [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if found.stdout.strip() == python:
                return candidate
        raise Unreachable(f"no interpreter of Python {python} (PYTHONS names those that are not on PATH)")

    def torch(self, folder: Path, end: End) -> str:
        """The oldest or the newest release of torch that pyproject.toml allows, for the Python of an environment."""
        (requirement,) = (one for one in project().extras["torch"] if one.name == "torch")
        listed = run([folder / "bin/pip", "index", "versions", *self.find_links, "torch"], stderr=False)
        _, _, line = listed.partition("Available versions:")
        versions = {Version(text.strip()) for text in line.partition("\n")[0].split(",") if text.strip()}
        allowed = sorted(one for one in versions if one in requirement.specifier)
        oldest = Version(lower_bound(requirement)).release
        if end == "oldest":
            allowed = [one for one in allowed if one.release[: len(oldest)] == oldest]
        wanted = (allowed[0] if end == "oldest" else allowed[-1]).public if allowed else "of any release"
        usable = [one for one in allowed if self.any_torch or one.local == "cpu" or not _is_linux_x86()]
        matching = [one for one in usable if one.public == wanted]
        if not matching:
            others = f"; {usable[-1]} is the newest that there is" if usable and end == "newest" else ""
            raise Unreachable(
                f"no build of torch {wanted} for CPUs (TORCH_WHEELS, or an index of pip's, names where they are){others}"
            )
        return str(matching[-1])


def _is_linux_x86() -> bool:
    return (platform.system(), platform.machine()) == NEVER_ON_LINUX_X86


def try_wheel(environment: Environment, folder: Path, archives: Sequence[Path]) -> str:
    """Use the wheel in an environment. Returns what was used.

    Raises:
        SystemExit: something does not work.
    """
    work = folder / "work"
    work.mkdir()
    python = folder / "bin/python"
    run([python, "-W", "error", SMOKE, "files", work, *archives], cwd=work)
    if environment.torch:
        run([python, SMOKE, "programs", work], cwd=work)
    done = run([python, "-m", "pip", "list", "--format", "freeze"])
    names = {
        canonicalize_name(one.name) for one in project().direct(*(["torch"] if environment.torch else []))
    }
    used = [
        line.replace("==", " ")
        for line in done.splitlines()
        if canonicalize_name(line.partition("==")[0]) in names
    ]
    if environment.suite:
        tests = [ROOT / name for name in TRIED_TESTS]
        out = run([python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests], cwd=ROOT)
        used.append(f"tests: {out.strip().splitlines()[-1]}")
    return ", ".join(used)


def archives_of_releases(folder: Path) -> list[Path]:
    """Files that torch wrote, one of each release, from the corpus of the tests; and one of graphwire's."""
    with tarfile.open(ROOT / "tests/corpus/corpus.tar.xz") as corpus:
        members = [one for one in corpus.getmembers() if one.name.endswith("/linear.pt2")]
        corpus.extractall(folder, members, filter="data")
    files = []
    for member in members:
        release = Path(member.name).parent.name
        files.append((folder / member.name).rename(folder / f"torch-{release}.pt2"))
    own = folder / "graphwire.pt2"
    shutil.copyfile(ROOT / "conformance/valid/archives/deflated.pt2", own)
    return [*sorted(files), own]


def clean_variables() -> dict[str, str]:
    """The environment variables, without those that change what an installed graphwire finds."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "GRAPHWIRE", "VIRTUAL_ENV"))
    }


def run(command: Sequence[str | Path], *, cwd: Path | None = None, stderr: bool = True) -> str:
    """The output of a program that must succeed, without what would lead it to this environment.

    Raises:
        SystemExit: it failed. The error has its output.
    """
    done = subprocess.run(
        command, cwd=cwd, env=clean_variables(), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if stderr else subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        words = " ".join(str(word) for word in command)
        raise SystemExit(f"{words} ended with {done.returncode}\n{done.stdout}")
    return done.stdout
