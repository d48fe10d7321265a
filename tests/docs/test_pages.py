"""The documents are true: their Python and their commands run, and print what is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from documents import DATA, RUN, Desk, blocks_of, environment, is_shown

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "docs/write-a-plugin.md": "tests/contrib/test_documentation.py",
    "docs/fleet.md": "needs pyarrow and DuckDB; contrib/graphwire-fleet/tests run its commands",
}
"""Pages that are not run here, and where they are."""
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
WITH_EXAMPLES = [
    name
    for name, text in PAGES.items()
    if name not in ELSEWHERE and any(block.language in RUN and not block.not_run for block in blocks_of(text))
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_a_page_runs_and_shows_what_comes_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)
    with environment():
        for ran in Desk(tmp_path, name).run(PAGES[name]):
            place = f"{name}:{ran.line}: {ran.command}\n{ran.printed}"
            assert ran.code == ran.expected_code, place
            assert ran.shown is None or is_shown(ran.printed, ran.shown), (
                f"{place}\nis not\n{ran.shown}\n`python tests/documents.py {name}` writes it"
            )
    for module in set(sys.modules) - modules:
        if Path(getattr(sys.modules[module], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[module]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_run_or_data_or_has_a_reason(name: str) -> None:
    for block in blocks_of(PAGES[name]):
        assert block.language in (*RUN, *DATA), f"{name}:{block.line}: {block.language}"
