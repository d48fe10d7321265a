"""The examples and limits in the specification are those of the code."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from graphwire.errors import FormatError, LimitError
from graphwire.hooks import Registry
from graphwire.wire import DEFAULT_LIMITS
from graphwire.wire.archive.manifest import read_manifest
from graphwire.wire.package.document import read_document

SPEC = Path(__file__).resolve().parents[2] / "docs/spec"
FORMATS = Registry.discover().wire_formats


def blocks(page: str, kind: str) -> list[str]:
    """Return the fenced blocks of a page with an info string."""
    text = (SPEC / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def tagged(tree: Any) -> Any:
    """Return a tree as neutral JSON tags it."""
    match tree:
        case None:
            return {"none": True}
        case bool() | str():
            return tree
        case int():
            return {"int": str(tree)}
        case float():
            return {"float": hexadecimal(tree)}
        case bytes():
            return {"bytes": tree.hex()}
        case list():
            return [tagged(each) for each in tree]
        case dict():
            return {"dict": [[key, tagged(value)] for key, value in tree.items()]}
    raise AssertionError(tree)


def hexadecimal(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = math.frexp(value)
    if mantissa == 0:
        return "-0x0p+0" if math.copysign(1, value) < 0 else "0x0p+0"
    digits = re.sub(r"\.?0*p.*", "", (mantissa * 2).hex())
    return f"{digits}p{exponent - 1:+d}"


EXAMPLES = [line for block in blocks("trees.md", "tree") for line in block.splitlines()]


@pytest.mark.parametrize("line", EXAMPLES)
def test_documents_have_the_stated_trees(line: str) -> None:
    document, _, expected = line.partition(" => ")
    name, _, text = document.partition(" ")
    data = text.encode() if name == "json" else bytes.fromhex(text.replace(" ", ""))
    if expected.startswith("refused"):
        with pytest.raises((FormatError, LimitError)):
            read_document(data, FORMATS[name])
        return
    assert tagged(read_document(data, FORMATS[name])) == json.loads(expected)


def test_limits_are_those_of_the_code() -> None:
    text = (SPEC / "archive.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| ([\d,]+) \| `(\w+)` \|$", text, re.MULTILINE)
    stated = {name: int(value.replace(",", "")) for value, name in rows}
    limits = {each.name: getattr(DEFAULT_LIMITS, each.name) for each in fields(DEFAULT_LIMITS)}
    assert stated == {name: value for name, value in limits.items() if name != "pickle"}


def test_the_manifest_of_the_example_is_one() -> None:
    (text,) = blocks("archive.md", "json manifest")
    assert len(read_manifest(text.encode()).names) == 4
