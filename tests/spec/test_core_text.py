"""docs/spec/core.md, the part for readers of weights and interfaces, is short, and has the element types of the code.

`conformance/core.json`, the part of the suite for such readers, is made of what two readers say of the same files.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphwire.schema import DTYPE_NAMES, ITEM_SIZES, ScalarType

TEXT = (Path(__file__).resolve().parents[2] / "docs/spec/core.md").read_text("utf-8")


def test_the_page_is_short() -> None:
    assert len(TEXT.split()) < 3000  # ten printed pages; Chromium prints it on three


def test_its_element_types_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+ .+) \|$", TEXT, re.MULTILINE)
    types = {
        int(number): (name, int(size))
        for size, row in rows
        for number, name in re.findall(r"(\d+) (\w+)", row)
    }
    assert len(types) == 21
    assert types == {
        number: (DTYPE_NAMES[ScalarType(number)], ITEM_SIZES[DTYPE_NAMES[ScalarType(number)]])
        for number in types
    }
