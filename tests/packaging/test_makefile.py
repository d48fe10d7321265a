"""`make help` lists what one may make, and `make` alone does no more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

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


def test_workflows_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        made = re.findall(r"^ *(?:- )?run: make ([\w -]+)", workflow.read_text("utf-8"), flags=re.MULTILINE)
        assert {word for line in made for word in line.split() if word.islower()} <= targets
