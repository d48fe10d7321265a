"""`check-plugin` begins with what is wrong with a provider, one fault a line, the most specific one first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORMAT = """
from graphwire import hookimpl

GRAPHWIRE_API = 1
written = []

class Faulty:
    name, suffix, media_type = "faulty", ".faulty", "application/x-faulty"

    def encode(self, tree):
        written.append(tree)
        return {encoded}

    def decode(self, data):
        return {{}}

    def matches(self, head):
        return False

@hookimpl
def graphwire_wire_formats():
    return [Faulty()]
"""
FAULTS = {
    'b"{}"': "another tree is written in the same way",
    "str(len(written)).encode()": "the same tree is written in another way",
    "str(tree).encode()[: tree.clear() if type(tree) is dict else None]": "`encode` changes the tree",
}


@pytest.mark.slow
@pytest.mark.parametrize("encoded", FAULTS)
def test_the_specific_fault_is_named_first(encoded: str, tmp_path: Path) -> None:
    about = tmp_path / "faulty_format-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-format\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[graphwire]\nfaulty = faulty_format\n")
    (tmp_path / "faulty_format.py").write_text(FORMAT.format(encoded=encoded))
    only = ["--only", "equal_trees or returns_bytes or stay_apart"]
    done = subprocess.run(
        [sys.executable, "-m", "graphwire", "check-plugin", "faulty", *only],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert any(FAULTS[encoded] in line for line in lines[:2]), lines[:4]
