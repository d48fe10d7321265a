"""The rules of the specification are numbered once, and whatever refers to a rule refers to one that exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "docs/spec"
PAGES = sorted(SPEC.glob("*.md"))
RULE = re.compile(r"\*\*\[([A-Z]+-\d+)\]\*\*")
ANCHORED = re.compile(r'<a id="([a-z]+-\d+)"></a>\*\*\[([A-Z]+-\d+)\]\*\*')
REFERENCES = (".md", ".py", ".json", ".ts", ".js", ".mjs", ".toml")
PLACES = ("docs", "tests", "src", "conformance", "contrib")


def rules_of(page: Path) -> list[str]:
    return RULE.findall(page.read_text(encoding="utf-8"))


RULES = {rule for page in PAGES for rule in rules_of(page)}
PREFIXES = {rule.partition("-")[0] for rule in RULES}
REFERENCE = re.compile(rf"\b((?:{'|'.join(sorted(PREFIXES))})-\d+)\b")


def test_every_rule_has_one_number_and_its_anchor() -> None:
    counts = Counter(rule for page in PAGES for rule in rules_of(page))
    assert [rule for rule, count in counts.items() if count > 1] == []
    for page in PAGES:
        anchors = ANCHORED.findall(page.read_text(encoding="utf-8"))
        assert [anchor for anchor, rule in anchors if anchor != rule.lower()] == []


def test_rules_of_a_page_have_one_prefix_and_those_of_a_prefix_are_numbered_from_1() -> None:
    numbers: dict[str, list[int]] = {}
    for page in PAGES:
        rules = [rule.partition("-") for rule in rules_of(page)]
        assert len({prefix for prefix, _, _ in rules}) <= 1, page.name
        for prefix, _, number in rules:
            numbers.setdefault(prefix, []).append(int(number))
    for prefix, found in numbers.items():
        assert sorted(found) == list(range(1, len(found) + 1)), prefix


@pytest.mark.parametrize("place", PLACES)
def test_every_referenced_rule_exists(place: str) -> None:
    lost = []
    for path in sorted((ROOT / place).rglob("*")):
        if path.suffix in REFERENCES and "node_modules" not in path.parts and path.stat().st_size < 1 << 20:
            text = path.read_text(encoding="utf-8")
            lost += [(path.name, rule) for rule in REFERENCE.findall(text) if rule not in RULES]
    assert lost == []


def test_every_page_begins_with_a_title_and_its_purpose() -> None:
    for page in PAGES:
        title, blank, purpose = page.read_text(encoding="utf-8").splitlines()[:3]
        assert title.startswith("# "), page.name
        assert (blank, purpose[:1].isupper()) == ("", True), page.name
