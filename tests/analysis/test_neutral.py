"""Neutral JSON has what the specification says: every value tagged, texts parsed, the same for each wire format."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from pathlib import Path

from inside.analysis import OPTIONAL, canonical_json, hex_float
from inside.evolve import FIELDS

from graphwire import schema

_SPECIFICATION = Path(__file__).resolve().parents[2] / "docs/spec/neutral.md"


def test_hexadecimal_floats_are_exact_and_normalized() -> None:
    known = {
        1.5: "0x1.8p+0",
        3.0: "0x1.8p+1",
        -0.0: "-0x0p+0",
        5e-324: "0x1p-1074",
        -1.0: "-0x1p+0",
    }
    assert {value: hex_float(value) for value in known} == known
    assert hex_float(0.0) == "0x0p+0"
    assert [hex_float(each) for each in (math.inf, -math.inf, math.nan)] == ["inf", "-inf", "nan"]
    pick = random.Random(1)
    for _ in range(1000):
        value = struct.unpack("<d", pick.randbytes(8))[0]
        if math.isfinite(value):
            text = hex_float(value)
            assert float.fromhex(text) == value
            assert re.fullmatch(r"-?0x(1(\.[0-9a-f]*[1-9a-f])?|0)p[+-][0-9]+", text)


def test_what_a_reader_may_ignore_is_what_the_schema_says_and_what_the_specification_lists() -> None:
    needed = {(schema.Program, "requires"), (schema.Program, "encoded_values")}
    ours: dict[str, set[str]] = {}
    for kind, rows in FIELDS.items():
        if all(row.since is None for row in rows.values()) or kind is schema.PayloadMeta:
            continue  # a record of an extension, all of which counts; payloads have no part that may be ignored
        for name, row in rows.items():
            if (
                row.since is None
                and not row.feature
                and (kind, name) not in needed
                and not name.startswith("as_")
            ):
                ours.setdefault(kind.__name__, set()).add(name)
    assert {kind.__name__: set(names) for kind, names in OPTIONAL.items()} == ours
    page = _SPECIFICATION.with_name("extensions.md").read_text("utf-8").partition("## Optional fields")[2]
    listed: dict[str, set[str]] = {}
    for kind, name in re.findall(r"^\| `(\w+)\.(\w+)` \|", page, re.MULTILINE):
        listed.setdefault(kind, set()).add(name)
    del listed["PayloadMeta"]
    assert listed == ours


def test_canonical_json_of_a_truth_value_in_a_list() -> None:
    assert json.loads(canonical_json({"a": [True]})) == {"a": [True]}
