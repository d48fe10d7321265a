"""The derived files of the specification are current, complete, and agree with the records, and with each other."""

from __future__ import annotations

import json
import logging
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest
from cddl_verifier import Validator
from inside.evolve import FIELDS
from inside.specification import (
    NARROWED,
    ROOTS,
    SUFFIXES,
    Description,
    Record,
    describe,
    meaning_of,
    specification_files,
)
from jsonschema import Draft202012Validator
from msgspec import inspect as types

from graphwire.cli import main
from graphwire.schema import FEATURES, VARIANTS

logging.getLogger("cddl_verifier").setLevel(logging.CRITICAL)  # it logs every deviation that it returns

ROOT = Path(__file__).parents[2]
SPECIFICATION = ROOT / "docs/spec"
GOLDEN = sorted((ROOT / "tests/golden/documents").glob("*.json"))
DESCRIBED = {kind: describe(kind) for kind in ROOTS}
RECORDS = {name: record for each in DESCRIBED.values() for name, record in each.records.items()}
CLASSES = {
    kind.__name__: kind
    for kind in (*msgspec.Struct.__subclasses__(), *FIELDS)  # others may have the name of a record
    if kind.__module__ != "graphwire.viewer"  # its facts of a file are no record of one
}


@cache
def json_schema(kind: str, record: str | None = None) -> Draft202012Validator:
    """The JSON Schema of a kind of document, or of one of its records."""
    whole = json.loads((SPECIFICATION / f"{kind}{SUFFIXES['json-schema']}").read_text("utf-8"))
    return Draft202012Validator(
        whole if record is None else {"$defs": whole["$defs"], "$ref": f"#/$defs/{record}"}
    )


@pytest.fixture(scope="module")
def cddl() -> dict[str, Validator]:
    """The CDDL of each kind of document."""
    return {
        kind: Validator((SPECIFICATION / f"{kind}{SUFFIXES['cddl']}").read_text("utf-8")) for kind in ROOTS
    }


# ----------------------------------------------------------------------------------------------------- completeness


def test_the_files_are_those_that_the_script_writes() -> None:
    stale = [
        name
        for name, text in specification_files().items()
        if not (SPECIFICATION / name).exists() or (SPECIFICATION / name).read_text("utf-8") != text
    ]
    assert stale == [], "run python docs/spec/make_schemas.py"


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("language", SUFFIXES)
def test_the_command_prints_the_files(kind: str, language: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind, "--as", language]) == 0
    assert capsys.readouterr().out == (SPECIFICATION / f"{kind}{SUFFIXES[language]}").read_text("utf-8")


def test_the_command_prints_the_page_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--as", "markdown"]) == 0
    assert capsys.readouterr().out == (SPECIFICATION / "records.md").read_text("utf-8")


def test_every_record_field_and_number_has_a_meaning() -> None:
    silent = [name for name, record in RECORDS.items() if not record.meaning]
    silent += [
        f"{name}.{each.name}"
        for name, record in RECORDS.items()
        for each in record.fields
        if not each.meaning
    ]
    for each in DESCRIBED.values():
        silent += [
            f"{name}.{one.name}"
            for name, enum in each.numbers.items()
            for one in enum.members
            if not one.meaning
        ]
    assert silent == [], "write a docstring below the field"


def test_a_record_is_a_union_if_it_calls_itself_one() -> None:
    unions = {name for name, record in RECORDS.items() if "xactly one variant is set." in record.meaning}
    assert unions == {name for name, record in RECORDS.items() if record.is_union}


def test_fields_of_graphwire_in_records_of_torch_call_themselves_extensions() -> None:
    for kind, rows in FIELDS.items():
        if not any(row.since for row in rows.values()):
            continue
        own = {name for name in rows if meaning_of(kind, name).own}
        expected = {name for name, row in rows.items() if row.since is None}
        if kind.__name__ == "Argument":
            expected = {name for name, row in VARIANTS.items() if row.feature}
        assert own == expected, kind


def test_the_meanings_and_the_vocabulary_name_the_same_extensions() -> None:
    for kind, rows in FIELDS.items():
        for name, row in rows.items():
            extension = meaning_of(kind, name).extension
            expected = row.feature or (VARIANTS[name].feature if kind.__name__ == "Argument" else "")
            assert extension in FEATURES or not extension
            assert not expected or extension == expected, (kind, name)


# ----------------------------------------------------------------------------------------------- they accept documents


@pytest.mark.parametrize("kind", ROOTS)
def test_the_json_schemas_are_json_schemas(kind: str) -> None:
    Draft202012Validator.check_schema(json_schema(kind).schema)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_documents_are_accepted(path: Path, cddl: dict[str, Validator]) -> None:
    assert [
        error.message for error in json_schema("document").iter_errors(json.loads(path.read_bytes()))
    ] == []
    assert cddl["document"].validate(path.with_suffix(".cbor").read_bytes()).errors == ()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/golden/archives").iterdir()), ids=lambda path: path.stem
)
def test_the_records_of_golden_archives_are_accepted(path: Path, cddl: dict[str, Validator]) -> None:
    found = list(records_of(path))
    assert {"payloads", "manifest"} <= {kind for kind, _ in found}
    for kind, tree in found:
        assert [error.message for error in json_schema(kind).iter_errors(tree)] == []
        assert cddl[kind].validate(tree).errors == ()


def records_of(path: Path) -> Iterator[tuple[str, Any]]:
    """The records of an archive that are JSON, other than programs, each with its kind."""
    kinds = {root.record: kind for kind, root in ROOTS.items()}
    with zipfile.ZipFile(path) as archive:
        for whole in archive.namelist():
            name = whole.partition("/")[2]
            kind = "payloads" if name.endswith("_config.json") else kinds.get(name)
            if kind is not None:
                record = archive.read(whole)
                yield kind, None if record == b"no" else json.loads(record)


READERS_ONLY = {
    *("null_variants.pt2", "unknown_fields.pt2", "floats_json.pt2", "providers_that_nobody_needs.pt2"),
    *("float_in_two_forms.pt2", "nan_in_two_forms.pt2", "damaged_config_beside_torch_save.pt2"),
    *(f"unknown_field_{each}.pt2" for each in ("escape", "float", "object", "text", "nested_400_deep")),
}
"""What readers accept and no writer writes: variants of null, later fields, floats of JSON that are not finite, and records
that nobody needs."""


def test_the_conformance_suite_has_valid_documents_only() -> None:
    refused = set()
    for path in (ROOT / "conformance/valid").rglob("*.pt2"):
        for kind, tree in [*records_of(path), *documents_of(path)]:
            if not json_schema(kind).is_valid(tree):
                refused.add(path.name)
    assert refused == READERS_ONLY


def documents_of(path: Path) -> Iterator[tuple[str, Any]]:
    """The programs of an archive that are JSON of the current major version."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.partition("/")[2].startswith("models/") and name.endswith(".json"):
                tree = json.loads(archive.read(name))
                if isinstance(tree["schema_version"], dict) and tree["schema_version"]["major"] == 8:
                    yield "document", tree


OTHERS: dict[str, Any] = {
    "references": {
        "stores": [
            {
                "kind": "safetensors",
                "location": "m.safetensors",
                "folder": None,
                "files": {"m.safetensors": {"nbytes": 23408, "index_sha256": "00"}},
            }
        ],
        "records": {
            "data/weights/weight_0": {
                "nbytes": 16384,
                "regions": [
                    {
                        "tensor": "a",
                        "dtype": "float32",
                        "shape": [64, 64],
                        "store": 1,
                        "box": [[0, 64, 1], [0, 32, 2]],
                        "offset": 3,
                        "strides": [32, 1],
                    }
                ],
                "sha256": "00",
            }
        },
        "ranks": [{"data/weights/weight_1": {"nbytes": 1}}],
        "providers": {"mine": {"distribution": "mine", "version": "1", "provides": ["weight_store:mine"]}},
    },
    "manifest": {"sha256": {"byteorder": "00"}, "together": [{"sizes": {"a": 1}, "sha256": "00"}]},
    "wire_formats": {".yaml": {"distribution": "mine", "version": "1", "provides": ["wire_format:.yaml"]}},
}
"""A document of each kind that the golden files do not have in full."""


@pytest.mark.parametrize("kind", OTHERS)
def test_documents_of_the_other_kinds_are_accepted(kind: str, cddl: dict[str, Validator]) -> None:
    msgspec.convert(OTHERS[kind], ROOTS[kind].type)
    assert [error.message for error in json_schema(kind).iter_errors(OTHERS[kind])] == []
    assert cddl[kind].validate(OTHERS[kind]).errors == ()


# ------------------------------------------------------------------------------------ they reject what the records reject


def values() -> dict[tuple[str, str], Any]:
    """For each field of each record the smallest value that a sample has."""
    found: dict[tuple[str, str], Any] = {}
    documents = [("document", json.loads(path.read_bytes())) for path in GOLDEN]
    documents += records_of(next((ROOT / "tests/golden/archives").glob("json.*")))
    for kind, tree in [*documents, *OTHERS.items()]:
        for name, record in inner(DESCRIBED[kind], DESCRIBED[kind].type, tree):
            for field, value in record.items():
                key = name, field
                if key not in found or len(json.dumps(value)) < len(json.dumps(found[key])):
                    found[key] = value
    return found


def inner(described: Description, shape: types.Type, tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every record in a tree of a type, with its name."""
    match shape:
        case types.StructType(cls=cls) if isinstance(tree, dict):
            yield cls.__name__, tree
            for field in described.records[cls.__name__].fields:
                if field.name in tree:
                    yield from inner(described, field.type, tree[field.name])
        case types.ListType(item_type=item) if isinstance(tree, list):
            for each in tree:
                yield from inner(described, item, each)
        case types.DictType(value_type=value) if isinstance(tree, dict):
            for each in tree.values():
                yield from inner(described, value, each)
        case types.UnionType(types=parts):
            for part in parts:
                yield from inner(described, part, tree)
        case _:
            pass


VALUES = values()


def least(record: Record) -> dict[str, Any]:
    """A record with its required fields, or a union with its first variant."""
    fields = [field for field in record.fields if field.required] or list(record.fields[: record.is_union])
    return {field.name: VALUES[record.name, field.name] for field in fields}


POOL: list[Any] = [
    None,
    True,
    7,
    99,
    0.5,
    "no such",
    "NaN",
    [],
    [7],
    ["no such"],
    [[]],
    [None],
    {"no such": 7},
    {"no such": {}},
]
"""Values of many types. A field accepts those of its own type."""


def test_every_field_is_in_a_sample() -> None:
    wanted = {(name, field.name) for name, record in RECORDS.items() for field in record.fields}
    assert wanted - set(VALUES) == set()


@pytest.mark.parametrize("name", RECORDS)
def test_fields_accept_the_values_that_the_record_accepts(name: str, cddl: dict[str, Validator]) -> None:
    """Each field in turn holds values of all types: both schemas accept it where the record does, and only there."""
    record, kind = RECORDS[name], next(kind for kind, each in DESCRIBED.items() if name in each.records)
    cls, schema = CLASSES[name], json_schema(kind, name)
    for field in record.fields:
        if (cls, field.name) in NARROWED:
            continue
        refused = []
        for value in [*POOL, right := VALUES[name, field.name]]:
            changed = with_field(record, field.name, value)
            expected = accepts(cls, changed) and is_strict(DESCRIBED[kind], name, changed)
            assert schema.is_valid(changed) == expected, (name, field.name, value)
            if not expected:
                refused.append(value)
        # One wrong value is enough here: each takes this validator many times as long.
        for value, expected in ((right, True), *((value, False) for value in refused[1:2])):
            changed = with_field(record, field.name, value)
            assert cddl[kind].validate(changed, root_type=name).valid == expected, (name, field.name, value)


def with_field(record: Record, field: str, value: Any) -> dict[str, Any]:
    """A record of few fields, one of which has a value."""
    return {field: value} if record.is_union else {**least(record), field: value}


def accepts(cls: type, tree: Any) -> bool:
    """Whether a record can be made of a tree."""
    try:
        msgspec.convert(tree, cls)
    except (msgspec.ValidationError, ValueError):
        return False
    return True


shape_of = cache(types.type_info)


def is_strict(described: Description, name: str, tree: Any) -> bool:
    """Whether every union in a record has one variant, which is not null, and no record has an unknown field."""
    return all(
        set(found) <= {field.name for field in described.records[each].fields}
        and (not described.records[each].is_union or (len(found) == 1 and None not in found.values()))
        for each, found in inner(described, shape_of(CLASSES[name]), tree)
    )


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_needs_its_required_fields_and_no_other(name: str, cddl: dict[str, Validator]) -> None:
    record, kind = RECORDS[name], next(kind for kind, each in DESCRIBED.items() if name in each.records)
    validate = json_schema(kind, name).is_valid, lambda tree: cddl[kind].validate(tree, root_type=name).valid
    sample = least(record)
    assert [accept(sample) for accept in validate] == [True, True]
    assert [accept({**sample, "no such field": 1}) for accept in validate] == [False, False]
    for field in sample:
        without = {other: value for other, value in sample.items() if other != field}
        assert [accept(without) for accept in validate] == [False, False], (name, field)
    if record.is_union:
        other = record.fields[1].name
        both = {**sample, other: VALUES[name, other]}
        assert [accept(both) for accept in validate] == [False, False]


def test_documents_of_another_major_version_or_with_unknown_extensions_are_rejected(
    cddl: dict[str, Validator],
) -> None:
    tree = json.loads(GOLDEN[0].read_bytes())
    for wrong in (
        {**tree, "schema_version": {"major": 9, "minor": 0}},
        {**tree, "requires": ["no-such-extension"]},
    ):
        assert not json_schema("document").is_valid(wrong)
        assert not cddl["document"].validate(cbor2.dumps(wrong)).valid
