"""Readers written from the text alone accept what graphwire accepts, refuse what it refuses, and find the same."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import math
import random
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from graphwire.errors import GraphwireError
from graphwire.hooks import Registry
from graphwire.schema import ITEM_SIZES
from graphwire.wire.archive.reader import ArchiveReader
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.document import read_document
from graphwire.wire.weights.reference_table import read_references

FORMATS = Registry.discover().wire_formats


def _beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


archives, trees = _beside("archive_from_text"), _beside("trees_from_text")
references, payloads = _beside("references_from_text"), _beside("payloads_from_text")

# ------------------------------------------------------------------------------------------------------------ archives


def own_archive() -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream) as archive:
        archive.write("models/model.json", b'{"a":1}' * 40, compress=True)
        archive.write("data/weights/weight_0", b"x" * 70, compress=False)
        archive.write_stream("data/weights/weight_1", 100, [b"y" * 100])
    return stream.getvalue()


def foreign_archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("r/a", b"hello" * 9, compress_type=zipfile.ZIP_DEFLATED)
        archive.writestr("r/b", b"hello")
        archive.writestr("r/folder/", b"")
        archive.comment = b"a comment"
    return stream.getvalue()


def zip64_archive() -> bytes:
    """Return an archive with a zip64 end record, whose first entry has its sizes and its offset in an extra field."""
    data = own_archive()
    count, size, offset = struct.unpack_from("<H2I", data, len(data) - 12)
    fields = list(struct.unpack_from("<4s6H3I5H2I", data, offset))
    extra = struct.pack("<HHQQQ", 1, 24, fields[9], fields[8], fields[16])
    fields[8] = fields[9] = fields[16] = archives.ONES32
    fields[11] = len(extra)
    names_at = offset + 46 + fields[10]
    entry = struct.pack("<4s6H3I5H2I", *fields) + data[offset + 46 : names_at] + extra
    directory = entry + data[names_at : len(data) - 22]
    size = len(directory)
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, offset + size, 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, *[0xFFFF] * 2, *[archives.ONES32] * 2, 0)
    return data[:offset] + directory + end64 + locator + end


def changed(data: bytes, choice: random.Random, least: int) -> bytes:
    """Return data with one to three bytes changed, inserted or deleted, mostly behind an offset."""
    content = bytearray(data)
    for _ in range(choice.choice((1, 1, 1, 2, 3))):
        if not content:
            break
        at = choice.randrange(least if choice.random() < 0.5 else 0, len(content))
        byte = choice.choice((0, 1, 255, choice.randrange(256), content[at] ^ 1 << choice.randrange(8)))
        kind = choice.random()
        content[at : at + (kind > 0.1)] = b"" if kind > 0.9 else bytes([byte])
    return bytes(content)


@pytest.mark.parametrize("make", [own_archive, foreign_archive, zip64_archive])
def test_damaged_archives_are_read_and_refused_alike(make: Any) -> None:
    whole, refusals = make(), set()
    for seed in range(3000):
        choice = random.Random(seed)
        data = changed(whole, choice, whole.find(b"PK\1\2")) if seed else whole
        try:
            expected: Any = archives.read_directory(data)
        except archives.Refused as refusal:
            refusals.add(str(refusal))
            with pytest.raises(GraphwireError):
                ArchiveReader(data)
            continue
        archive = ArchiveReader(data)
        assert archive.names == tuple(expected)
        for name in expected:
            try:
                content = archives.read_record(data, *expected[name])
            except archives.Refused as refusal:
                refusals.add(str(refusal))
                with pytest.raises(GraphwireError):
                    archive.read(name)
            else:
                assert archive.read(name) == content
    assert len(refusals) >= 10


# --------------------------------------------------------------------------------------------------------------- trees

SCALARS: list[Any] = [None, True, False, 0, 23, 24, -25, 255, 1 << 16, (1 << 53) + 1, (1 << 64) - 1, 1 << 64]
SCALARS += [
    -(1 << 63),
    -(1 << 63) - 1,
    -(1 << 64) - 1,
    10**30,
    -(1 << 127),
    0.0,
    -0.0,
    1.5,
    math.nan,
    -math.inf,
    1e300,
    5e-324,
]
SCALARS += ["", "a", "é", "😀", "\0", "$bytes", "x" * 40, b"", b"ab", b"\xff" * 30]
KEYS = ["a", "b", "$bytes", "$float", "$$bytes", "$x", "", "é", "__proto__", "1"]
FRAGMENTS = [
    b'{"$bytes":"AAAA"}',
    b'{"$$float":1}',
    b'{"$float":"inf"}',
    rb'"\u0024bytes"',
    rb"\u00e9",
    rb"\ud83d",
]
FRAGMENTS += [
    rb"\ude00",
    b"1e5",
    b"1e999",
    b"-0",
    b"NaN",
    b"-Infinity",
    b" ",
    b",",
    b"}",
    b'"a":1,"a":2',
    b"01",
    b"=",
]


def made_tree(choice: random.Random, depth: int = 0) -> Any:
    kind = choice.random()
    if depth > 3 or kind < 0.5:
        return choice.choice(SCALARS)
    items = [made_tree(choice, depth + 1) for _ in range(choice.randrange(4))]
    return items if kind < 0.75 else {choice.choice(KEYS): item for item in items}


def shown(tree: Any) -> str:
    """Return a text that is equal for equal trees, with the order of keys, and kinds of numbers."""
    return repr(tree)


@pytest.mark.parametrize("name", ["json", "msgpack", "cbor"])
def test_damaged_documents_are_read_and_refused_alike(name: str) -> None:
    refusals = set()
    for seed in range(3000):
        choice = random.Random(seed)
        tree = made_tree(choice)
        data = FORMATS[name].encode(tree)
        assert shown(trees.READERS[name](data)) == shown(tree)
        data = changed(data, choice, 0)
        if name == "json" and seed % 2:
            at = choice.randrange(len(data) + 1)
            data = data[:at] + choice.choice(FRAGMENTS) + data[at + choice.choice((0, 0, 1, 3)) :]
        try:
            expected = trees.READERS[name](data)
        except trees.Refused as refusal:
            refusals.add(str(refusal))
            with pytest.raises(GraphwireError):
                read_document(data, FORMATS[name])
        else:
            assert shown(read_document(data, FORMATS[name])) == shown(expected)
    assert len(refusals) >= 4


@pytest.fixture
def deep_stack() -> Iterator[None]:
    """Let the readers of the text recurse: they use a few frames for each level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize(
    ("name", "opening", "closing", "tag"),
    [
        ("json", b"[", b"]", b'{"$bytes":""}'),
        ("msgpack", b"\x91", b"", b"\xc4\0"),
        ("cbor", b"\x81", b"", b"\x40"),
    ],
)
def test_depth_is_bounded_alike(name: str, opening: bytes, closing: bytes, tag: bytes) -> None:
    head = b"\xd9\xd9\xf7" if name == "cbor" else b""
    for depth, accepted in ((400, True), (401, False), (100_000, False)):
        data = head + opening * depth + tag + closing * depth
        if accepted:
            assert shown(trees.READERS[name](data)) == shown(read_document(data, FORMATS[name]))
            continue
        with pytest.raises(trees.Refused, match="TREE-4"):
            trees.READERS[name](data)
        with pytest.raises(GraphwireError):
            read_document(data, FORMATS[name])


# ---------------------------------------------------------------------------------------------------------- references

REFERENCES: dict[str, Any] = {
    "stores": [
        {
            "kind": "safetensors",
            "location": "a/m.safetensors",
            "folder": "w",
            "files": {"m.safetensors": {"nbytes": 160, "index_sha256": "ab" * 32}},
        }
    ],
    "records": {
        "data/weights/weight_0": {
            "nbytes": 32,
            "sha256": "cd" * 32,
            "regions": [
                {"tensor": "l", "dtype": "float32", "shape": [2, 2], "strides": [4, 1]},
                {
                    "tensor": "r",
                    "dtype": "float32",
                    "shape": [2, 4],
                    "box": [[0, 2, 1], [1, 2, 2]],
                    "offset": 2,
                    "strides": [4, 1],
                    "store": 0,
                },
            ],
        },
        "data/weights/weight_1": {"nbytes": 8},
    },
    "ranks": [
        {"data/weights/weight_2": {"nbytes": 4, "regions": [{"tensor": "x", "dtype": "int8", "shape": [4]}]}},
        {
            "data/weights/weight_2": {
                "nbytes": 4,
                "regions": [{"tensor": "x", "dtype": "int8", "shape": [8], "box": [[4, 4, 1]]}],
            }
        },
    ],
}
ODD: list[Any] = [
    0,
    1,
    2,
    -1,
    4,
    8,
    1 << 59,
    (1 << 59) + 1,
    (1 << 62) + 1,
    1 << 64,
    1.0,
    None,
    True,
    [],
    {},
    [1],
    [2, 2],
]
ODD += [
    [[0, 1, 1]],
    "",
    "a",
    "../x",
    "a//b",
    "CON",
    "con.txt",
    "a.",
    "a ",
    "x:y",
    "x\u200by",
    "x\u00a0y",
    "x y",
    "é" * 128,
]
ODD += ["\ue000", "data/weights/../x", references.TABLE, "http://x", "a\tb", "AB" * 32, "float64", "uint8"]


def places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a tree."""
    if type(tree) in (dict, list):
        for key in tree if type(tree) is dict else range(len(tree)):
            yield (*above, key)
            yield from places(tree[key], (*above, key))


def test_changed_references_are_read_and_refused_alike() -> None:
    refusals = set()
    for seed in range(1500):
        choice = random.Random(seed)
        tree = copy.deepcopy(REFERENCES)
        for _ in range(choice.choice((1, 1, 2)) if seed else 0):
            *above, last = choice.choice(list(places(tree)))
            inside = tree
            for key in above:
                inside = inside[key]
            kind, value = choice.random(), copy.deepcopy(choice.choice(ODD))
            if kind < 0.7:
                inside[last] = value
            elif type(inside) is list:
                inside.append(copy.deepcopy(inside[last]))
            elif type(inside[last]) is int and kind < 0.85:
                inside[last] += choice.choice((-1, 1, 4))
            else:
                moved = inside.pop(last)
                inside.update({value: moved} if type(value) is str else {})
        data = json.dumps(tree).encode()
        try:
            references.check(tree, ITEM_SIZES)
        except references.Refused as refusal:
            refusals.add(str(refusal))
            with pytest.raises(GraphwireError):
                read_references(data)
        else:
            read_references(data)
    assert refusals == {f"REF-{number}" for number in (2, 4, 5, 9, 11, 12, 14, 15, 17)}


# --------------------------------------------------------------------------------------------------- conformance suite

SUITE = Path(__file__).resolve().parents[2] / "conformance"
ZIP_RULES = {f"ARC-{number}" for number in range(1, 22)}


def archive_refusal(data: bytes) -> str:
    """Return the rule for which the reader of the text refuses an archive or one of its records; empty if it does not."""
    try:
        for entry, following in archives.read_directory(data).values():
            archives.read_record(data, entry, following)
    except archives.Refused as refusal:
        return str(refusal)
    return ""


def test_the_suite_names_the_rules_of_the_text_for_archives() -> None:
    for case in json.loads((SUITE / "index.json").read_bytes())["cases"]:
        if case["valid"]:
            continue
        file, rules = SUITE / case["file"], case["rules"]
        refusal = archive_refusal(file.read_bytes())
        if refusal or ZIP_RULES.intersection(rules):
            assert refusal in rules, file.stem
    for file in (SUITE / "valid").rglob("*.pt2"):
        assert archive_refusal(file.read_bytes()) == "", file.stem


@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize("name", ["json", "msgpack", "cbor"])
def test_the_suite_and_the_text_refuse_the_same_documents(name: str) -> None:
    for row in json.loads((SUITE / f"trees/{name}.json").read_bytes())["vectors"]:
        try:
            trees.READERS[name](bytes.fromhex(row["hex"]))
        except trees.Refused:
            assert not row["valid"], row["name"]
        else:
            assert row["valid"], row["name"]


def test_the_elements_of_the_suite_are_found_by_the_text() -> None:
    dtypes = payloads.dtype_tables(SUITE.parent / "docs/spec")
    found = 0
    for file in sorted((SUITE / "valid").rglob("*.pt2")):
        tree = json.loads(file.with_suffix(".expected.json").read_bytes())
        if tree["archive"]["layout"] != "B2":
            continue
        data = file.read_bytes()
        entries = archives.read_directory(data).items()
        records = {name: archives.read_record(data, *each) for name, each in entries}
        reader = payloads.Payloads(records, file.parent, dtypes)
        for program, tables in tree["payloads"]["dict"]:
            expected = {
                (kind, name): payload["sha256"]
                for kind, table in tables.items()
                for name, payload in table["dict"]
                if "sha256" in payload
            }
            assert {(kind, name): each for kind, name, each in reader.digests(program)} == expected, file.stem
            found += len(expected)
    assert found > 100
