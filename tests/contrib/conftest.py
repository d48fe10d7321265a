"""Environments of their own for the distributions under `contrib/`, each installed there by pip and used for real."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest


class Environment:
    """A virtual environment with the outer packages (graphwire and torch among them) behind its own."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
        packages = Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        outer = sysconfig.get_path("purelib")
        # `addsitedir`, since a plain line would leave out the `.pth` files there, an editable graphwire among them.
        (packages / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n", encoding="utf-8")

    def attempt(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run its Python, away from any source tree."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GRAPHWIRE"))
        }
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.python.parent,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def run(self, *arguments: str | Path, **variables: str) -> str:
        """The standard output of its Python, which must succeed."""
        done = self.attempt(*arguments, **variables)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Let pip install something into it."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        command = [*pip, "install", "--quiet", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def run_tests(self, folder: Path, root: Path, *more: str) -> str:
        """The summary of pytest on a distribution's own tests."""
        options = [
            *more,
            "-q",
            "--import-mode=importlib",
            "-c",
            os.devnull,
            "--rootdir",
            root,
            "-p",
            "no:cacheprovider",
        ]
        return self.run("-m", "pytest", *options, folder)


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes a fresh environment; its name is only for the folder."""
    try:
        metadata.distribution("graphwire")
    except metadata.PackageNotFoundError:
        pytest.skip("graphwire is on the path, but not installed, so its own plugins are not found either")
    return lambda name: Environment(tmp_path_factory.mktemp(name) / "environment")
