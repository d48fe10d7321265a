"""The site has every document. `make site` builds it, with warnings as errors."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_navigation_has_every_document_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w/.-]+\.md)$", nav, re.MULTILINE)
    documents = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert documents <= set(listed)


def test_the_index_leads_to_every_document() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name}" in index, page.name
    for page in (ROOT / "docs/guides").glob("*.md"):
        assert f"(guides/{page.name}" in index, page.name
