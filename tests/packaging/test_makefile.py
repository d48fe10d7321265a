"""`make help` lists what one may make, and `make` alone does no more."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import undeclared_imports
from release.environments import ENVIRONMENTS

ROOT = Path(__file__).resolve().parents[2]
INNER = {"zoo", "js", "browser"}
"""What other targets make in an environment or with a Node that they have found."""


def test_help_lists_every_target() -> None:
    done = subprocess.run(
        ["make", "-C", ROOT, "--no-print-directory"], capture_output=True, text=True, check=True
    )
    listed = re.findall(r"^make ([\w-]+) +\S", done.stdout, flags=re.MULTILINE)
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(phony.split()) - INNER


def test_a_pattern_of_interpreters_is_not_expanded_by_the_shell() -> None:
    pattern = f"{ROOT}/tests/p*"  # several folders
    command = ["make", "-C", ROOT, "-n", "dist", f"PYTHONS={pattern} other", f"TORCH_WHEELS={pattern}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if "-m release" in line)
    assert [word for word in shlex.split(line) if "/" in word][-2:] == [pattern, pattern]


def test_each_python_that_the_distribution_names_is_tried() -> None:
    named = set(re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8")))
    assert named == {environment.python for environment in ENVIRONMENTS}
    for workflow in ("release.yml", "tests.yml"):
        path = ROOT / ".github/workflows" / workflow
        if path.exists():  # not in an sdist
            tried = set(re.findall(r"\b3\.1\d\b", path.read_text("utf-8")))
            assert named <= tried


def test_workflows_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        made = re.findall(r"^ *(?:- )?run: make ([\w -]+)", workflow.read_text("utf-8"), flags=re.MULTILINE)
        assert {word for line in made for word in line.split() if word.islower()} <= targets


def test_a_module_that_only_another_target_installs_is_found() -> None:
    """The demo once imported what only the benchmarks' extra named."""
    share = undeclared_imports.Share(("tests/zoo/of_timm.py",), ("test",))
    found = list(undeclared_imports.undeclared(share, undeclared_imports.Repository()))
    assert any(line.startswith("tests/zoo/of_timm.py:") and line.endswith(" imports timm") for line in found)


def test_each_target_with_an_environment_has_its_files_checked() -> None:
    others = {
        target for target, extras in undeclared_imports.extras_of_targets().items() if extras != ("test",)
    }
    assert others - {"setup"} <= undeclared_imports.TARGETS.keys()
