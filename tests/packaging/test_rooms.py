"""The packages of the source are rooms: small, with a question that docs/architecture.md lists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "src" / "core" / "graphwire"
MOST_MODULES = 12
ROOMS = sorted(path.parent for path in CORE.rglob("__init__.py") if path.parent != CORE)


def modules(room: Path) -> list[str]:
    return sorted(path.stem for path in room.glob("*.py") if path.name != "__init__.py")


def name(room: Path) -> str:
    return ".".join(room.relative_to(CORE).parts)


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_a_room_has_at_most_a_dozen_modules(room: Path) -> None:
    assert len(modules(room)) <= MOST_MODULES, modules(room)


@pytest.mark.parametrize("room", [room for room in ROOMS if modules(room)], ids=name)
def test_the_architecture_lists_the_question_of_each_room(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8")))
    assert docstring is not None
    if name(room) == "bridge":  # it holds what its rooms share
        return
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert f"| `{name(room)}` | {docstring.splitlines()[0]} |" in page


def test_the_architecture_lists_no_other_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("| room | its question |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [line.split("`")[1] for line in table.splitlines()]
    assert sorted(listed) == sorted(set(listed)) == sorted(set(listed) & {name(room) for room in ROOMS})
