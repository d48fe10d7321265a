"""Reads the pages of docs/spec: rules, tables and examples, which tests compare with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SPEC = Path(__file__).resolve().parents[1] / "docs" / "spec"


def examples(file: str, kind: str) -> list[Any]:
    """Return the items of the JSON blocks of one kind in a file."""
    return [item for block in blocks(file, kind) for item in block]


def blocks(file: str, kind: str) -> list[Any]:
    found = re.findall(rf"^```json {kind}\n(.*?)^```$", (SPEC / file).read_text(), re.M | re.S)
    assert found, f"{file} has no examples of {kind}"
    return [json.loads(each) for each in found]


def rules(file: str) -> dict[str, str]:
    """Return the text of each rule of a file, by its number."""
    text = (SPEC / file).read_text()
    found = re.findall(r"^- <a id=\S+\*\*\[([A-Z]+-\d+)\]\*\* (.*?)(?=^- <a|^\n|\Z)", text, re.M | re.S)
    assert len(dict(found)) == len(found), "a number occurs twice"
    return dict(found)


def table_rows(after: str, file: str = "expressions.md") -> list[list[str]]:
    """Return the cells of the first table behind a rule."""
    lines = (SPEC / file).read_text().partition(f"**[{after}]**")[2].splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(("| ---", "|--")))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def words(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)
