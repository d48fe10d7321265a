"""A reader written from docs/spec/core.md alone finds in files what the conformance suite has beside them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from spec.core_reader import COMPLEX, ITEM_SIZES, CoreFile, Refused, _role

from graphwire.schema import ITEM_SIZES as SIZES
from graphwire.schema import ScalarType

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
GROUPS = ("payloads", "signatures", "formats")
CASES = [
    case
    for case in json.loads((SUITE / "index.json").read_bytes())["cases"]
    if case["valid"]
    and case["file"].split("/")[1] in GROUPS
    and not {"msgpack", "cbor", "schema-8", "older"} & set(case["needs"])
]


def _optional(spec: dict) -> dict:
    """A role of neutral JSON as the document has it."""
    [(role, fields)] = spec.items()
    return {role: {**fields, **fields.get("optional", {})}}


@pytest.mark.parametrize("kind", ["weights", "constants"])
def test_weights_are_those_of_the_suite(kind: str) -> None:
    seen = 0
    for case in CASES:
        expected = json.loads((SUITE / case["file"]).with_suffix(".expected.json").read_bytes())
        file = CoreFile(SUITE / case["file"])
        for program, tables in expected["payloads"]["dict"]:
            rows = [(name, row) for name, row in tables[kind]["dict"] if row["where"] == "file"]
            if any(
                row["tensor_meta"].get("dtype") == "UNKNOWN" or "dtype_name" in row["tensor_meta"]
                for _, row in rows
            ):
                continue  # an element type by name
            if any(ScalarType[row["tensor_meta"]["dtype"]] not in ITEM_SIZES for _, row in rows):
                continue
            found = list(file.weights(program, kind))
            assert [name for name, *_ in found] == [name for name, _ in rows], case["file"]
            for (_, dtype, sizes, data), (_, row) in zip(found, rows, strict=True):
                assert ScalarType(dtype).name == row["tensor_meta"]["dtype"], case["file"]
                assert [{"as_int": {"int": str(size)}} for size in sizes] == row["tensor_meta"].get(
                    "sizes", []
                ), case["file"]
                assert hashlib.sha256(data).hexdigest() == row["sha256"], case["file"]
                seen += 1
    assert seen > (40 if kind == "weights" else 3)


def test_interfaces_are_those_of_the_suite() -> None:
    for case in CASES:
        expected = json.loads((SUITE / case["file"]).with_suffix(".expected.json").read_bytes())
        file = CoreFile(SUITE / case["file"])
        for program, tree in expected["programs"]["dict"]:
            signature = tree["graph_module"]["signature"]
            both = (signature.get("input_specs", []), signature.get("output_specs", []))
            assert file.interface(program) == tuple(
                [_role(_optional(spec)) for spec in specs] for specs in both
            ), case["file"]


def test_tensors_beyond_their_record_are_refused() -> None:
    for name in (
        "one_element_too_many",
        "offset_too_large",
        "strides_too_large",
        "element_too_large",
        "product_wraps",
        "negative_size",
    ):
        with pytest.raises(Refused):
            list(CoreFile(SUITE / f"invalid/payloads/{name}.pt2").weights("model"))


def test_the_page_is_short_and_its_table_of_bytes_is_that_of_the_code() -> None:
    text = (ROOT / "docs/spec/core.md").read_text("utf-8")
    assert len(text.split()) < 3000  # ten printed pages
    assert {number: SIZES[_name(number)] for number in ITEM_SIZES} == ITEM_SIZES
    assert {number for number in ITEM_SIZES if _name(number).startswith("complex")} == set(COMPLEX)
    for number in ITEM_SIZES:
        assert f"{number} {_name(number)}" in text


def _name(number: int) -> str:
    from graphwire.schema import DTYPE_NAMES

    return DTYPE_NAMES[ScalarType(number)]
