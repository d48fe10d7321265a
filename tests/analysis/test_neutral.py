"""Neutral JSON has what the specification says: every value tagged, texts parsed, the same for each wire format."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import struct
from pathlib import Path

import pytest

from graphwire import schema
from graphwire.analysis.neutral import (
    OPTIONAL,
    canonical_json,
    digest_of_elements,
    hex_float,
    neutral_expression,
    neutral_guard,
    neutral_infix,
    neutral_treespec,
    tagged,
)
from graphwire.evolve.vocabulary import FIELDS
from graphwire.schema import Device, Layout, ScalarType, SymInt, TensorMeta

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


def test_a_tree_is_tagged_whatever_its_depth() -> None:
    tree = {"10": None, "2": [True, 2**70, -0.0, "é\n", b"\x00\xff"], "": {}}
    assert tagged(tree) == {
        "dict": [
            ["10", {"none": True}],
            ["2", [True, {"int": str(2**70)}, {"float": "-0x0p+0"}, "é\n", {"bytes": "00ff"}]],
            ["", {"dict": []}],
        ]
    }
    assert canonical_json(tagged(tree)).endswith(b'"\xc3\xa9\\n",{"bytes":"00ff"}]],["",{"dict":[]}]]}\n')
    deep: object = None
    for _ in range(5000):
        deep = {"a": [deep]}
    assert canonical_json(tagged(deep)).count(b"dict") == 5000
    assert canonical_json("a\ud800") == b'"a\\ud800"\n'


def test_texts_become_trees() -> None:
    s0 = {"symbol": "s0"}
    doubled = {"op": "Add", "args": [{"op": "Mul", "args": [{"int": "2"}, s0]}, {"int": "-1"}]}
    assert neutral_infix("2*s0 - 1") == doubled
    assert neutral_expression("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))") == doubled
    assert neutral_expression(
        "Max(Symbol('u0', integer=True), -int_oo, Float('1.E-5', precision=53))"[:0] + "-int_oo"
    ) == {"constant": "-int_oo"}
    assert neutral_expression("Symbol('u0', integer=True)") == {
        "symbol": "u0",
        "assumptions": [["integer", True]],
    }
    assert neutral_expression("IsNonOverlappingAndDenseIndicator()")["args"] == []
    assert neutral_guard("L['x'].a[-1].size()[0] % 8 == -1 and not math.floor(0.5) or math.inf") == {
        "op": "or",
        "args": [
            {
                "op": "and",
                "args": [
                    {
                        "op": "==",
                        "args": [
                            {
                                "op": "%",
                                "args": [
                                    {
                                        "source": [
                                            ["key", "x"],
                                            ["attribute", "a"],
                                            ["index", {"int": "-1"}],
                                            ["call", "size"],
                                            ["index", {"int": "0"}],
                                        ]
                                    },
                                    {"int": "8"},
                                ],
                            },
                            {"op": "-", "args": [{"int": "1"}]},
                        ],
                    },
                    {"op": "not", "args": [{"op": "math.floor", "args": [{"float": "0x1p-1"}]}]},
                ],
            },
            {"constant": "math.inf"},
        ],
    }
    leaf = '{"type": null, "context": null, "children_spec": []}'
    spec = f'[1, {{"type": "builtins.dict", "context": "[\\"a\\", 1.0]", "children_spec": [{leaf}]}}]'
    assert neutral_treespec(spec) == {
        "type": "builtins.dict",
        "context": {"json": ["a", {"float": "0x1p+0"}]},
        "children": [{"leaf": True}],
    }


@pytest.mark.parametrize("item", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "expected"),
    [
        ([2, 3], [3, 1], 0, [0, 1, 2, 3, 4, 5]),
        ([3, 2], [1, 3], 1, [1, 4, 2, 5, 3, 6]),
        ([2, 2], [0, 2], 3, [3, 5, 3, 5]),
        ([2, 3], [1, 0], 4, [4, 4, 4, 5, 5, 5]),
        ([], [], 7, [7]),
        ([0, 4], [4, 1], 0, []),
        ([2, 1, 2], [4, 9, 2], 0, [0, 2, 4, 6]),
    ],
)
def test_a_digest_covers_the_elements_in_row_major_order(
    item: int, sizes: list[int], strides: list[int], offset: int, expected: list[int]
) -> None:
    kinds = {1: ScalarType.BYTE, 2: ScalarType.BFLOAT16, 4: ScalarType.FLOAT, 8: ScalarType.LONG}
    elements = [bytes([number] * item) for number in range(8)]
    meta = TensorMeta(
        kinds.get(item, ScalarType.COMPLEXDOUBLE),
        [SymInt(as_int=size) for size in sizes],
        False,
        Device("cpu"),
        [SymInt(as_int=stride) for stride in strides],
        SymInt(as_int=offset),
        Layout.Strided,
    )
    wanted = hashlib.sha256(b"".join(elements[number] for number in expected)).hexdigest()
    assert digest_of_elements(memoryview(b"".join(elements)), meta) == wanted


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
