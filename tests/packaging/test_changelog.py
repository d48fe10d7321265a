"""The changelog has the form of Keep a Changelog, and names the version that the sources have."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import graphwire

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_its_headings_are_versions_and_kinds_of_changes() -> None:
    text = ROOT.joinpath("CHANGELOG.md").read_text("utf-8")
    title, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    assert title.startswith("# Changelog\n")
    heads = [section.partition("\n")[0] for section in sections]
    assert heads[0] == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", head) for head in heads[1:]]
    assert all(found), heads
    released = [
        (*(int(part) for part in each.groups()[:3]), datetime.date.fromisoformat(each[4]))
        for each in found
        if each
    ]
    assert released == sorted(released, reverse=True)
    for section in sections:
        kinds = re.findall(r"^### (.*)$", section, flags=re.MULTILINE)
        assert kinds == sorted(set(kinds), key=KINDS.index), section.partition("\n")[0]
        for part in re.split(r"^### .*$", section, flags=re.MULTILINE)[1:]:
            for line in part.strip().splitlines():
                assert re.match(r"- \S|  \S", line), f"not an entry: {line!r}"


def test_a_version_is_released_or_the_next_one() -> None:
    """The sources have the version of the newest release, with nothing unreleased, or a later one."""
    text = ROOT.joinpath("CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, flags=re.MULTILINE)
    unreleased = text.partition("## [Unreleased]")[2].partition("\n## ")[0].strip()
    version = tuple(map(int, graphwire.__version__.split(".")[:3]))
    newest = tuple(map(int, released[0].split("."))) if released else (0, 0, 0)
    assert version == newest if not unreleased else version >= newest


def test_every_version_has_a_link_or_none_has() -> None:
    text = ROOT.joinpath("CHANGELOG.md").read_text("utf-8")
    linked = re.findall(r"^\[([^\]]+)\]: ", text, flags=re.MULTILINE)
    heads = re.findall(r"^## \[([^\]]+)\]", text, flags=re.MULTILINE)
    assert linked in ([], heads)
