"""The tutorial for plugin authors is true: its commands are run, and its files written, in an environment of its own.

Of a `console` block each line with a `$` is run; the others must stand in what it prints, where `…` is any text.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from documents import Block, blocks_of, put

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = sorted((DOCS / "hooks").glob("*.md"))


class Desk(NamedTuple):
    """An environment whose commands are those that a reader types, and an empty folder to type them in."""

    environment: Any
    folder: Path
    variables: dict[str, str]
    warm: subprocess.Popen[str]
    """Runs programs of the environment's Python in copies of itself, which have imported torch (`warm_python.py`)."""


WARM = {"python": [], "pytest": ["-m", "pytest", "-p", "no:cacheprovider"]}
"""The commands that import torch, each with the arguments of Python that it stands for."""


@pytest.fixture(scope="module")
def desk(make_environment: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    environment = make_environment("documentation")
    commands = {
        "graphwire": f'exec {environment.python} -m graphwire "$@"',
        "pip": f'exec {sys.executable} -m pip --python {environment.python} --disable-pip-version-check "$@"',
    }
    for name, command in commands.items():
        script = environment.python.parent / name
        script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAPHWIRE", "COLUMNS"))}
    # A reader takes longer than a second between edits, which bytecode needs to notice one that keeps a file's size.
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables["PATH"] = f"{environment.python.parent}:{variables['PATH']}"
    server = [environment.python, Path(__file__).with_name("warm_python.py")]
    with subprocess.Popen(
        server, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as warm:
        yield Desk(environment, tmp_path_factory.mktemp("desk"), variables, warm)
        assert warm.stdin is not None
        warm.stdin.close()


def typed(desk: Desk, command: str) -> tuple[str, int]:
    """What a command prints, and its exit code."""
    name, *arguments = shlex.split(command)
    if name in WARM:
        return _warm(desk, [*WARM[name], *arguments])
    if [name, *arguments[:1]] == ["pip", "install"]:
        arguments += ["--quiet", "--no-build-isolation"]
    done = subprocess.run(
        [name, *arguments],
        cwd=desk.folder,
        env=desk.variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr, done.returncode


def _warm(desk: Desk, arguments: list[str]) -> tuple[str, int]:
    assert desk.warm.stdin is not None
    assert desk.warm.stdout is not None
    output = desk.environment.python.parent / "output.txt"
    request = {"arguments": arguments, "folder": str(desk.folder), "output": str(output)}
    desk.warm.stdin.write(f"{json.dumps(request)}\n")
    desk.warm.stdin.flush()
    code = int(desk.warm.stdout.readline())
    return output.read_text(encoding="utf-8"), code


def check(desk: Desk, text: str) -> None:
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


@pytest.mark.slow
def test_the_tutorial_is_true(desk: Desk) -> None:
    for block in blocks_of((DOCS / "write-a-plugin.md").read_text(encoding="utf-8")):
        if block.language == "console":
            check(desk, block.text)
        elif block.file:
            put(desk.folder, block)
        else:
            _is_part_of_a_file(desk.folder, block)


def _is_part_of_a_file(folder: Path, block: Block) -> None:
    assert any(block.text in path.read_text(encoding="utf-8") for path in folder.rglob("pyproject.toml")), (
        block
    )


def test_every_hook_has_its_page() -> None:
    from inside.registry import HOOKS

    pages = "".join(page.read_text(encoding="utf-8").partition(".")[0] for page in REFERENCE)
    assert len(REFERENCE) == len(HOOKS)
    assert all(f"Hook `{hook.name}`" in pages for hook in HOOKS)


@pytest.mark.slow
def test_a_format_touches_two_files(desk: Desk) -> None:
    environment, folder = desk.environment, desk.folder
    files = [
        block
        for block in blocks_of((DOCS / "hooks/wire-formats.md").read_text(encoding="utf-8"))
        if block.file
    ]
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
