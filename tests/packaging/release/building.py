"""Builds the sdist, and the wheel from the sdist, of the files that git tracks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]

SURROUNDINGS: Final = (
    {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0", "umask": "022"},
    {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7", "umask": "077"},
)
"""What differs between the builds that must be equal, besides the folder and the files' times."""


MADE: Final = frozenset(
    {".venv", "__pycache__", "node_modules", ".ruff_cache", ".mypy_cache", ".hypothesis", "build", "dist"}
)
"""Folders that are no part of the sources."""


class Distributions(NamedTuple):
    """The two files of a release."""

    sdist: Path
    wheel: Path

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, by name."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self}


def tracked_files(root: Path = ROOT) -> list[str]:
    """The files of the work tree that git tracks; all files if there is no git, as in an unpacked sdist."""
    if (root / ".git").exists():
        listed = _output(["git", "-C", str(root), "ls-files", "-z"]).split("\0")
        return [name for name in listed if name and (root / name).is_file()]
    unpacked = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in unpacked if not MADE.intersection(path.parts))


def is_changed(root: Path = ROOT) -> bool:
    """Whether files differ from the commit that a release would be of."""
    return (root / ".git").exists() and bool(_output(["git", "-C", str(root), "status", "--porcelain"]))


def commit_time(root: Path = ROOT) -> str:
    """The time that all files of the distributions have: SOURCE_DATE_EPOCH, or that of the commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return _output(["git", "-C", str(root), "log", "-1", "--format=%ct"]).strip()


def copy_tracked(folder: Path, root: Path = ROOT) -> None:
    """Copy the tracked files to a folder."""
    for name in tracked_files(root):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
        target.chmod(0o755 if os.access(root / name, os.X_OK) else 0o644)


def build(source: Path, output: Path, surroundings: dict[str, str] | None = None) -> Distributions:
    """Build the sdist of a folder, and the wheel from the sdist, with the hatchling that is installed."""
    variables = dict(surroundings or {})
    umask = int(variables.pop("umask", "022"), 8)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(source)]
    done = subprocess.run(
        command, env=os.environ | variables, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the build failed\n{done.stdout}{done.stderr}")
    (sdist,) = output.glob("*.tar.gz")
    (wheel,) = output.glob("*.whl")
    return Distributions(sdist, wheel)


def build_twice(folder: Path) -> tuple[Distributions, Distributions]:
    """Build in two folders whose names, files' times and surroundings differ."""
    first, second = (
        _build_copy(folder / name, surroundings)
        for name, surroundings in zip(("one", "another/folder"), SURROUNDINGS, strict=True)
    )
    return first, second


def _build_copy(folder: Path, surroundings: dict[str, str]) -> Distributions:
    source = folder / "source"
    copy_tracked(source)
    return build(source, folder / "dist", surroundings | {"SOURCE_DATE_EPOCH": commit_time()})


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
