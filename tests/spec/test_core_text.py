"""A reader written from docs/spec/core.md alone finds in files what the core part of the conformance suite says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from spec.core_reader import COMPLEX, EXTENSIONS, ITEM_SIZES, CoreFile, Refused

from graphwire.schema import DTYPE_NAMES, FEATURES, ITEM_SIZES as SIZES, ScalarType

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
CASES = json.loads((SUITE / "core.json").read_bytes())["cases"]


def _found(path: Path) -> dict[str, Any]:
    file = CoreFile(path)
    programs = {}
    for name in file.programs:
        inputs, outputs = file.interface(name)
        tables = {
            kind: [
                [key, dtype, sizes, hashlib.sha256(data).hexdigest()]
                for key, dtype, sizes, data in file.weights(name, kind)
            ]
            for kind in ("weights", "constants")
        }
        programs[name] = {"inputs": inputs, "outputs": outputs, **tables}
    return programs


def test_valid_files_are_read_as_the_suite_says() -> None:
    valid = [case for case in CASES if case["valid"]]
    assert sum(len(each["weights"]) for case in valid for each in case["programs"].values()) > 40
    for case in valid:
        assert _found(SUITE / case["file"]) == case["programs"], case["file"]


def test_invalid_files_are_refused_by_a_rule_of_the_case() -> None:
    invalid = [case for case in CASES if not case["valid"]]
    assert len(invalid) > 20
    for case in invalid:
        with pytest.raises(Refused) as refused:
            _found(SUITE / case["file"])
        assert str(refused.value) in case["rules"], case["file"]


def test_the_page_is_short_and_its_tables_are_those_of_the_code() -> None:
    text = (ROOT / "docs/spec/core.md").read_text("utf-8")
    assert len(text.split()) < 3000  # ten printed pages; Chromium prints it on three
    names = {number: DTYPE_NAMES[ScalarType(number)] for number in ITEM_SIZES}
    assert {number: SIZES[name] for number, name in names.items()} == ITEM_SIZES
    assert {number for number, name in names.items() if name.startswith("complex")} == set(COMPLEX)
    assert set(FEATURES) == EXTENSIONS
    for number, name in names.items():
        assert f"{number} {name}" in text
