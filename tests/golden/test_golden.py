"""The golden files are read as what they were made from, and together own everything that the schema can say."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inside.analysis import validate
from inside.schema import to_tree
from msgspec import inspect as types

import graphwire
from graphwire.schema import FEATURES, SCHEMA_VERSION, PayloadConfig, PayloadMeta, Program, SchemaVersion
from graphwire_plugins.json_format import JsonFormat

HERE = Path(__file__).parent
sys.path.append(str(HERE))

import make_golden as golden  # noqa: E402

FIRST = golden.archive_path("json")


@pytest.fixture(params=golden.NAMES)
def name(request: pytest.FixtureRequest) -> Any:
    """The name of each golden program."""
    return request.param


@pytest.fixture(params=golden.FORMATS)
def format(request: pytest.FixtureRequest) -> Any:
    """The name of each wire format in the box."""
    return request.param


# ------------------------------------------------------------------------------------------------------- documents


def test_a_document_says_in_every_format_what_its_json_says(name: str, format: str) -> None:
    document = golden.document_path(name, format).read_bytes()
    assert graphwire.decode(document).schema_version == SchemaVersion(*SCHEMA_VERSION)
    assert golden.program(name, format) == golden.program(name)
    assert graphwire.encode(golden.program(name, format), format) == document


def test_json_is_what_the_names_of_fields_say(name: str) -> None:
    """Its text is read by a library that knows no records."""
    tree = JsonFormat().decode(golden.document_path(name, "json").read_bytes())
    found = msgspec.convert(tree, Program)
    assert to_tree(msgspec.structs.replace(found, schema_version=golden.VERSION)) == to_tree(
        golden.program(name)
    )


def test_the_records_are_valid(name: str) -> None:
    assert validate(golden.program(name)) == []


# -------------------------------------------------------------------------------------------------------- archives


def test_an_archive_holds_the_programs_and_payloads_of_the_first(format: str) -> None:
    with graphwire.open(golden.archive_path(format)) as archive, graphwire.open(FIRST) as first:
        assert archive.methods == first.methods
        for name in first.methods:
            found = msgspec.structs.replace(archive.program_of(name), schema_version=golden.VERSION)
            assert found == golden.program(name)
            assert archive.format_of(name) == format
        payloads, expected = (each.payloads_of("provenance") for each in (archive, first))
        for table in ("weights", "constants", "sample_inputs"):
            assert getattr(payloads, table) == getattr(expected, table)
        for record, content in expected.records.items():
            assert bytes(payloads.records[record].view()) == bytes(content.view())
        assert {path: archive.read_extra(path) for path in archive.extra_files} == {
            "notes/read me.txt": "é".encode()
        }


def test_nothing_is_wrong_with_an_archive_but_that_three_programs_are_without_their_weights(
    format: str,
) -> None:
    problems = graphwire.verify(golden.archive_path(format))
    assert {problem.kind for problem in problems} == {"missing-payload"}
    assert {problem.place.partition(":")[0] for problem in problems} == {
        "signature",
        "in_memory",
        "provenance",
    }


# -------------------------------------------------------------------------------------------------------- coverage


def _known(kind: Any, found: dict[type, Any]) -> None:
    """Every record type and enum that a document of `kind` can hold, with its description."""
    if isinstance(kind, (types.StructType, types.EnumType)):
        if kind.cls in found:
            return
        found[kind.cls] = kind
    inner: list[Any] = [field.type for field in getattr(kind, "fields", ())]
    inner += [getattr(kind, name) for name in ("item_type", "key_type", "value_type") if hasattr(kind, name)]
    inner += [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    for each in inner:
        _known(each, found)


def _seen(record: Any) -> Iterator[tuple[type, str]]:
    """Every field that says something in a record, and in what it holds; every member of an enum."""
    if isinstance(record, enum.Enum):
        yield type(record), record.name
    elif isinstance(record, msgspec.Struct):
        defaults = {field.name: field.default for field in msgspec.structs.fields(record)}
        factories = {
            field.name: field.default_factory()
            for field in msgspec.structs.fields(record)
            if field.default_factory is not msgspec.NODEFAULT
        }
        for field in record.__struct_fields__:
            value = getattr(record, field)
            if value != factories.get(field, defaults[field]):
                yield type(record), field
            yield from _seen(value)
    elif isinstance(record, dict):
        for value in record.values():
            yield from _seen(value)
    elif isinstance(record, (list, tuple)):
        for value in record:
            yield from _seen(value)


def _wanted() -> set[tuple[type, str]]:
    kinds: dict[type, Any] = {}
    for root in (Program, PayloadConfig):
        _known(types.type_info(root), kinds)
    wanted = set()
    for cls, kind in kinds.items():
        if isinstance(kind, types.EnumType):
            wanted |= {(cls, member.name) for member in cls}  # type: ignore[attr-defined]
        else:
            wanted |= {(cls, field.name) for field in kind.fields}
    return wanted


NEVER_WRITTEN = {(PayloadMeta, "use_pickle")}
"""Fields whose other value only torch writes; required, so they are in the files all the same."""


def test_every_record_variant_field_and_number_of_the_schema_owns_a_golden_file() -> None:
    seen = {each for name in golden.NAMES for each in _seen(golden.program(name))}
    with graphwire.open(FIRST) as archive:
        payloads = archive.payloads_of("provenance")
    for metas in (payloads.weights, payloads.constants, payloads.sample_inputs):
        seen |= set(_seen(PayloadConfig(metas)))
    missing = sorted(f"{cls.__name__}.{field}" for cls, field in _wanted() - seen - NEVER_WRITTEN)
    assert missing == [], "add them to a document, and run make_golden.py"


def test_every_required_feature_is_one_that_readers_know(name: str) -> None:
    assert set(golden.program(name).requires) <= set(FEATURES)


# ------------------------------------------------------------------------------------------------------------ files


def test_the_files_are_those_that_the_script_writes_and_they_are_small() -> None:
    expected = {golden.document_path(name, format) for name in golden.NAMES for format in golden.FORMATS}
    expected |= {golden.archive_path(format) for format in golden.FORMATS}
    files = [*(HERE / "documents").iterdir(), *(HERE / "archives").iterdir()]
    assert set(files) == expected
    assert sum(file.stat().st_size for file in files) < 200_000


def test_nothing_of_the_machine_is_in_them(name: str) -> None:
    text = golden.document_path(name, "json").read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(HERE) not in text
    assert "+cpu" not in text


def test_every_target_lists_the_obstacles_of_every_construct():
    with graphwire.open(FIRST) as archive:
        for method in archive.methods:
            obstacles = [
                each for found in graphwire.targets(archive, method=method).values() for each in found
            ]
            assert all(each.construct for each in obstacles)
