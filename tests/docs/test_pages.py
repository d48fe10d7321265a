"""The documents are true: their Python and their commands run, and print what is shown."""

from __future__ import annotations

import re
import subprocess
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


OURS = re.compile(
    r"""(?:pip|npm) install\b[^\n`#]*?[\s'"](graphwire(?:-[a-z]+)*(?:\[[^\]]*\])?)(?![\w./-])"""
)
"""A distribution of ours as what an index has: neither a path nor a part of one."""
EXTRA = re.compile(r"graphwire\[[a-z]+\]")
"""What errors name: an extra of the graphwire that runs, which pip installs without looking graphwire up."""


def named_as_on_an_index(text: str) -> list[str]:
    return [each[1] for each in OURS.finditer(text)]


def test_no_document_installs_from_an_index_what_is_on_none() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    pages += [*(ROOT / "contrib").glob("*/README.md"), *(ROOT / "contrib").glob("*/action.yml")]
    assert len(pages) > 40
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        told = "\n".join(line for line in lines if "Run: " not in line)  # what an error says, shown
        assert named_as_on_an_index(told) == [], page


def test_a_remedy_names_an_extra_of_what_is_installed_or_a_checkout() -> None:
    codes = [*(ROOT / "src").rglob("*.py"), *(ROOT / "contrib").glob("graphwire-*/graphwire_*/**/*.py")]
    named = {name for each in codes for name in named_as_on_an_index(each.read_text(encoding="utf-8"))}
    assert "graphwire[torch]" in named
    assert all(map(EXTRA.fullmatch, named)), named
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", *named]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pip install graphwire", ["graphwire"]),
        ("$ pip install -q 'graphwire-fleet[ray]'  # x", ["graphwire-fleet[ray]"]),
        ("npm install graphwire-js", ["graphwire-js"]),
        ("pip install ./contrib/graphwire-fleet", []),
        ("pip install -e './graphwire-tlv[test]'", []),
        ("pip install '.[test]' graphwire-dcp/", []),
    ],
)
def test_what_counts_as_named_as_on_an_index(text: str, named: list[str]) -> None:
    assert named_as_on_an_index(text) == named
