"""The documentation for plugin authors is true: its commands are run, its files written, its examples executed.

In a page, a paragraph that is one code span and a colon names the file that the next blocks write or (`diff`) change. Of a
`console` block each line with a `$` is run; the others must stand in what it prints, where `…` is any text.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = sorted((DOCS / "hooks").glob("*.md"))
RUN = [*REFERENCE, DOCS / "from-torch.md", DOCS / "signatures.md", DOCS / "view.md", DOCS / "weights.md"]
"""The pages whose blocks of Python run one after the other."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    file: str
    """The file that it is, or changes; empty where it is none."""
    text: str


def blocks_of(page: Path) -> Iterator[Block]:
    file = ""
    parts = re.split(
        r"^```(\w*)\n(.*?)^```\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for prose, language, text in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        named = re.search(r"(?:^|\n)`([^`\n]+)`:\n\n$", prose)
        if named is not None:
            file = named[1]
        elif prose.strip() or language != "diff":
            file = ""
        yield Block(language, file, text)


@pytest.fixture(scope="module")
def desk(make_environment: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An environment whose commands are those that a reader types, and an empty folder to type them in."""
    environment = make_environment("documentation")
    commands = {
        "graphwire": f'exec {environment.python} -m graphwire "$@"',
        "pytest": f'exec {environment.python} -m pytest -p no:cacheprovider "$@"',
        "pip": f'exec {sys.executable} -m pip --python {environment.python} --disable-pip-version-check "$@"',
    }
    for name, command in commands.items():
        script = environment.python.parent / name
        script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return environment, tmp_path_factory.mktemp("desk")


def typed(desk: Any, command: str) -> tuple[str, int]:
    """What a command prints, and its exit code."""
    environment, folder = desk
    words = shlex.split(command)
    if words[:2] == ["pip", "install"]:
        words += ["--quiet", "--no-build-isolation"]
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAPHWIRE", "COLUMNS"))}
    # A reader takes longer than a second between edits, which bytecode needs to notice one that keeps a file's size.
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables["PATH"] = f"{environment.python.parent}:{variables['PATH']}"
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr, done.returncode


def check(desk: Any, text: str) -> None:
    """Run the commands of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        printed, code = typed(desk, command)
        for line in expected:
            pattern = r"[^\n]*".join(map(_spaced, line.split("…")))
            assert re.search(pattern, printed), f"$ {command}\n{printed}\nlacks {line!r}"
        told = any(word in line for line in expected for word in ("FAILED", "Error", "error:"))
        assert (code != 0) is told, f"$ {command}\n{printed}"


def _spaced(text: str) -> str:
    """A pattern for a text, in which any width of spaces is as good as another."""
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text.lstrip()))


def put(folder: Path, block: Block) -> None:
    """Write the file of a block, or change it."""
    path = folder / block.file
    if block.language != "diff":
        path.write_text(block.text, encoding="utf-8")
        return
    sides = {
        mark: "".join(f"{line[1:]}\n" for line in block.text.splitlines() if line.startswith(mark))
        for mark in "-+"
    }
    text = path.read_text(encoding="utf-8")
    assert text.count(sides["-"]) == 1, f"{block.file} has not one place of\n{sides['-']}"
    path.write_text(text.replace(sides["-"], sides["+"]), encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_is_true(desk: Any) -> None:
    for block in blocks_of(DOCS / "write-a-plugin.md"):
        if block.language == "console":
            check(desk, block.text)
        elif block.file:
            put(desk[1], block)
        else:
            _is_part_of_a_file(desk[1], block)


def _is_part_of_a_file(folder: Path, block: Block) -> None:
    assert any(block.text in path.read_text(encoding="utf-8") for path in folder.rglob("pyproject.toml")), (
        block
    )


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    examples = [block for block in blocks_of(page) if block.language == "python"]
    assert examples
    for block in examples:
        if block.file:
            put(tmp_path, block)
        else:
            exec(compile(block.text, str(page), "exec"), vars(module))


def test_every_hook_has_its_page() -> None:
    from graphwire.hooks.discovery import HOOKS

    pages = "".join(page.read_text(encoding="utf-8").partition(".")[0] for page in REFERENCE)
    assert len(REFERENCE) == len(HOOKS)
    assert all(f"Hook `{hook.name}`" in pages for hook in HOOKS)


def test_a_format_touches_two_files(desk: Any) -> None:
    environment, folder = desk
    files = [block for block in blocks_of(DOCS / "hooks/wire-formats.md") if block.file]
    assert [block.file for block in files] == ["graphwire_cborz.py", "pyproject.toml"]
    two = folder / "two-files"
    two.mkdir()
    for block in files:
        put(two, block)
    printed, code = typed(desk, "pip install --no-deps ./two-files")
    assert code == 0, printed
    source = (
        "import graphwire; from graphwire.schema import program; "
        "names = [each.name for each in graphwire.plugins() if each.status == 'active']; "
        "assert 'cborz' in names; print(graphwire.Registry.discover().wire_format('cborz').suffix)"
    )
    assert environment.run("-c", source) == ".cborz\n"
    assert "**two files**" in (DOCS / "write-a-plugin.md").read_text(encoding="utf-8")
