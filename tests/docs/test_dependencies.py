"""docs/dependencies.md lists what is installed, with its licences, sizes and reasons."""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def made() -> Any:
    spec = importlib.util.spec_from_file_location("make_dependencies", DOCS / "make_dependencies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_direct_dependency_of_users_has_a_reason(made: Any) -> None:
    listed = {extra: {made.canonicalize_name(name) for name in why} for extra, why in made.WHY.items()}
    assert listed == {extra: made.direct(extra) for extra in made.WHY}


def test_the_page_is_that_of_the_packages(made: Any) -> None:
    """Names, licences and reasons are equal, and sizes similar, where the versions are those of constraints.txt."""
    pinned = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (DOCS.parent / "constraints.txt").read_text(), re.MULTILINE)
    )
    rows = [
        line
        for line in (DOCS / "dependencies.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| [")
    ]
    now = [line for line in made.page().splitlines() if line.startswith("| [")]
    for row, new in zip(rows, now, strict=False):
        name = re.findall(r"\[(.+?)\]", row)[0]
        if metadata.version(name).split("+")[0] == pinned[name]:
            assert _without_size(row) == _without_size(new)
            assert _size(row) == pytest.approx(_size(new), rel=0.2, abs=0.15)
    assert {_name(row) for row in now} <= {_name(row) for row in rows}


def _name(row: str) -> str:
    return re.findall(r"\[(.+?)\]", row)[0]


def _without_size(row: str) -> str:
    return re.sub(r"\| [\d.]+ MB \|", "|", row)


def _size(row: str) -> float:
    return float(re.findall(r"([\d.]+) MB", row)[0])
