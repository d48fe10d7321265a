"""Checks the types of programs that users write (`users/`) against the installed wheel, with mypy --strict and pyright.

Pyright is strict where torch is installed; elsewhere it does not know `ExportedProgram`, and strict mode reports each use.

The lines of `users/mistakes.py` that end with `# wrong` must be errors, and no others. A public name that is `Any` would hide
them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from release.environments import clean_variables

USERS: Final = Path(__file__).parents[1] / "users"
WITH_TORCH: Final = "saving.py"

Lines = set[tuple[str, int]]


def faults_of_types(python: Path, folder: Path, *, torch: bool) -> list[str]:
    """What mypy and pyright report otherwise than expected.

    Args:
        python: the interpreter of an environment with the wheel.
        folder: an empty folder, outside of the project and its configuration.
        torch: whether the environment has torch.
    """
    shutil.copytree(USERS, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    if not torch:
        (folder / WITH_TORCH).unlink()
    files = sorted(path.name for path in folder.glob("*.py"))
    expected = {
        (name, number)
        for name in files
        for number, line in enumerate((folder / name).read_text("utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }
    faults = []
    settings = {"typeCheckingMode": "strict" if torch else "standard", "reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    for checker, check in CHECKERS.items():
        found = check(python, folder, files)
        faults += [f"{checker}: {message}" for line, message in found.items() if line not in expected]
        faults += [
            f"{checker}: {name}:{line}: not reported" for name, line in sorted(expected - found.keys())
        ]
    return faults


def _mypy(python: Path, folder: Path, files: list[str]) -> dict[tuple[str, int], str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--no-error-summary",
        "--python-executable",
    ]
    done = _run([*command, str(python), *files], folder)
    return {
        (name, int(line)): f"{name}:{line}: {text}"
        for name, line, text in re.findall(r"^([^:\n]+):(\d+): error: (.*)$", done, re.MULTILINE)
    } or ({("", 0): done} if done.strip() else {})


def _pyright(python: Path, folder: Path, files: list[str]) -> dict[tuple[str, int], str]:
    done = _run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), *files], folder
    )
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): f"{one['file']}: {one['message']}"
        for one in json.loads(done)["generalDiagnostics"]
    }


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=clean_variables(), capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


CHECKERS: Final[dict[str, Callable[[Path, Path, list[str]], dict[tuple[str, int], str]]]] = {
    "mypy": _mypy,
    "pyright": _pyright,
}
