"""What documents and templates import is public, and a name that was public works where it was."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {"graphwire", "graphwire.errors", "graphwire.schema", "graphwire.hooks", "graphwire.testing"}
TEMPLATES = sorted((ROOT / "src/core/graphwire/cli/templates").glob("*.py.txt"))
PAGES = [
    *sorted((ROOT / "docs/hooks").glob("*.md")),
    ROOT / "docs/write-a-plugin.md",
    ROOT / "docs/plugins.md",
]
PLUGINS = [
    *(ROOT / "contrib").glob("graphwire-bson/*.py"),
    *(ROOT / "contrib").glob("graphwire-linops/graphwire_linops/*.py"),
    *(ROOT / "contrib").glob("graphwire-sqlite/*.py"),
    *(ROOT / "contrib").glob("graphwire-transformers/*.py"),
    *(ROOT / "contrib").glob("graphwire-torchao/**/*.py"),
]
"""The plugins that the documents show as examples."""


def sources() -> Iterator[tuple[str, str]]:
    for path in [*TEMPLATES, *PLUGINS]:
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for page in PAGES:
        for index, block in enumerate(
            re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        ):
            yield f"{page.name}, block {index}", block


@pytest.mark.parametrize(("place", "source"), [*sources()])
def test_examples_import_from_public_modules_alone(place: str, source: str) -> None:
    for node in ast.walk(ast.parse(source)):
        modules = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        for module in modules:
            assert module.split(".")[0] != "graphwire" or module in PUBLIC, (place, node.lineno)
            if module in PUBLIC and isinstance(node, ast.ImportFrom):
                of = importlib.import_module(module)
                public = {*getattr(of, "__all__", dir(of))}
                assert public.issuperset(name.name for name in node.names), (place, node.lineno)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_in_the_text_of_a_page_is_public(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for name in re.findall(r"`(graphwire(?:\.\w+)+)", text):
        module, _, last = name.rpartition(".")
        assert name in PUBLIC or (module in PUBLIC and hasattr(importlib.import_module(module), last)), name


@pytest.mark.parametrize(
    ("old", "names"),
    [
        ("graphwire.wire.tree", ["MAX_DEPTH", "measure_tree"]),
        ("graphwire.wire.plain_trees", ["MAX_DEPTH", "measure_tree"]),
        ("graphwire.wire", ["measure_tree"]),
        ("graphwire.evolve.opsets", ["NodeEditor"]),
        ("graphwire.schema.treespec", ["TreeSpec", "dump_json", "load_json"]),
    ],
)
def test_a_former_place_works_and_names_the_new_one(old: str, names: list[str]) -> None:
    source = f"from {old} import {', '.join(names)}\nimport graphwire.hooks as new\n" + "".join(
        f"assert {name} is new.{name}\n" for name in names
    )
    command = [sys.executable, "-W", "always::DeprecationWarning", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        f"<string>:1: DeprecationWarning: {old} is deprecated: import its names from graphwire.hooks"
        in done.stderr
    )
