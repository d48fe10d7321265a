"""What docs/architecture.md says is so: the packages and their questions, and the way of a save and of a load."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import graphwire

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "src" / "core" / "graphwire"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGES = sorted(path.parent for path in CORE.rglob("__init__.py") if path.parent != CORE)
MOST_PACKAGES = 24
MOST_LINES = 500


def name(package: Path) -> str:
    return ".".join(package.relative_to(CORE).parts)


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_the_question_of_each_package_is_listed(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))
    assert docstring is not None
    assert f"| `{name(package)}` | {docstring.splitlines()[0]} |" in PAGE


def test_one_word_says_one_thing() -> None:
    files = [
        each
        for kind in ("*.py", "*.md")
        for folder in ("src", "docs")
        for each in (ROOT / folder).rglob(kind)
    ]
    found = [
        (each, re.findall(r"(?i)\b(?:arms?|portraits?|left out)\b", each.read_text("utf-8")))
        for each in files
    ]
    assert [each for each in found if each[1]] == []  # but variants, snapshots, dropped


def test_no_other_package_is_listed() -> None:
    table = PAGE.partition("| package | its question |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [line.split("`")[1] for line in table.splitlines()] == sorted(map(name, PACKAGES))
    assert len(list((ROOT / "src").rglob("__init__.py"))) <= MOST_PACKAGES


def test_names_of_the_schema_are_imported_from_it() -> None:
    package = CORE / "schema"
    tree = ast.parse((package / "__init__.py").read_text("utf-8"))
    own = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert len(own) >= 4
    for path in (ROOT / "src").rglob("*.py"):
        if path.is_relative_to(package):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.ImportFrom) or node.module not in own, (path, node.lineno)


def code_lines(path: Path) -> int:
    """The lines that are neither blank, nor comments, nor docstrings."""
    text = path.read_text("utf-8")
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in strings
        for number, line in lines
    )


def test_a_file_is_one_concept_of_readable_length() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): code_lines(path)
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}
    assert sum(lengths.values()) / len(lengths) >= 150


# -------------------------------------------------------------------------------------------------------- the way of a program


def way(title: str) -> list[str]:
    """The functions that the page names below a title, in their order: `module.function`."""
    block = PAGE.partition(f"### {title}\n")[2].partition("```text\n")[2].partition("```")[0]
    return [line.split()[0] for line in block.splitlines() if line.strip()]


def called(function: Callable[[], Any]) -> list[str]:
    """The functions of graphwire that a call runs, each once, in the order of their first calls."""
    found: dict[str, None] = {}
    below = f"{CORE}/"

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(below):
            module = path.removeprefix(below).removesuffix(".py").replace("/", ".")
            found.setdefault(f"{module}.{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return list(found)


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("architecture") / "small.pt2"
    graphwire.save(torch.export.export(Small(), (torch.ones(2, 4),)), path)
    return path


def test_a_save_goes_the_way_that_is_described(file: Path) -> None:
    program = graphwire.load(file)
    steps = way("A save")
    assert len(steps) > 5
    ran = called(lambda: graphwire.save(program, file.with_name("again.pt2")))
    assert [step for step in ran if step in steps] == steps


def test_a_load_goes_the_way_that_is_described(file: Path) -> None:
    steps = way("A load")
    assert len(steps) > 5
    ran = called(lambda: graphwire.load(file))
    assert [step for step in ran if step in steps] == steps


def test_a_warm_save_and_load_run_few_modules(file: Path) -> None:
    """A reader follows a load in one sitting."""
    program = graphwire.load(file)
    modules = [".".join(path.relative_to(CORE).with_suffix("").parts) for path in CORE.rglob("*.py")]

    def used(function: Callable[[], Any]) -> set[str]:
        return {
            max((each for each in modules if name.startswith(f"{each}.")), key=len)
            for name in called(function)
        }

    assert len(used(lambda: graphwire.save(program, file.with_name("again.pt2")))) <= 57
    assert len(used(lambda: graphwire.load(file))) <= 45
