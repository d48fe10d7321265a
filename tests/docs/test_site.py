"""The site has every document. `make site` builds it, with warnings as errors."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
from inside.registry import HOOKS

import graphwire
from graphwire import hooks, testing

ROOT = Path(__file__).resolve().parents[2]


def test_the_navigation_has_every_document_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w/.-]+\.md)$", nav, re.MULTILINE)
    documents = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    documents |= {f"contrib/{page.parent.name}.md" for page in (ROOT / "contrib").glob("*/README.md")}
    assert len(listed) == len(set(listed))
    assert documents <= set(listed)


def test_the_index_leads_to_every_document() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name}" in index, page.name
    for page in (ROOT / "docs/guides").glob("*.md"):
        assert f"(guides/{page.name}" in index, page.name


def test_help_lists_every_name_and_every_hook() -> None:
    listed = set(re.findall(r"\w+", str(graphwire.__doc__)))
    assert set(graphwire.__all__) - {"__version__"} <= listed
    assert {hook.name for hook in HOOKS} <= set(re.findall(r"\w+", str(hooks.__doc__)))


def test_each_field_of_a_public_value_is_described() -> None:
    """The reference shows no field without a description."""
    for name, value in [
        *vars(hooks).items(),
        *((name, getattr(graphwire, name)) for name in graphwire.__all__),
    ]:
        if not isinstance(value, type) or not issubclass(value, (msgspec.Struct, tuple)):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0].body  # type: ignore[attr-defined]
        for field, after in itertools.pairwise([*body, None]):
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_"):
                described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert described, (name, ast.unparse(field.target))


def test_contract_suites_document_what_to_set() -> None:
    """`help` shows no attribute without a value, so the docstring has them all."""
    for name in dir(testing):
        suite = getattr(testing, name)
        for attribute in inspect.get_annotations(suite) if isinstance(suite, type) else ():
            assert f"{attribute}: " in str(suite.__doc__) or f"`{attribute}`" in str(suite.__doc__), (
                name,
                attribute,
            )


def test_contract_suites_tell_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "graphwire.testing.strategies", raising=False)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ModuleNotFoundError, match=r"hypothesis.*pip install 'graphwire\[test\]'"):
        testing.trees  # noqa: B018
