"""The table of docs/spec/canonical.md: it has every field of every record of the schema, and what it says of each is true."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inside.analysis import content_hash
from nightly import one_in

import graphwire
import graphwire.schema
from graphwire.errors import GraphwireError
from graphwire.schema import Argument, Program, UserInputSpec

ROOT = Path(__file__).parents[2]
NOT_IN_DOCUMENTS = {
    "Held",
    "SourceRow",
    "BackwardNameMaps",
    "NameMaps",
    "PayloadMeta",
    "PayloadConfig",
    "TreeSpec",
}
"""Records that a program's document does not hold: text with a grammar, views, and what lies beside it."""
ROW = re.compile(r"^\| (\w+) \| ((?:`\w+` ?)+) \| (.+) \|$", re.MULTILINE)


def _table() -> dict[tuple[str, str], str]:
    text = (ROOT / "docs" / "spec" / "canonical.md").read_text(encoding="utf-8")
    section = text.partition("## What counts")[2].partition("## Algorithm")[0]
    found: dict[tuple[str, str], str] = {}
    for record, fields, place in ROW.findall(section):
        for field in re.findall(r"`(\w+)`", fields):
            assert (record, field) not in found, f"{record}.{field} has two rows"
            found[record, field] = place
    return found


TABLE = _table()


def _records() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.walk_packages(graphwire.schema.__path__, "graphwire.schema."):
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # former places of names
            held = importlib.import_module(module.name)
        for kind in vars(held).values():
            is_record = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
            if is_record and kind.__module__ == held.__name__ and not kind.__name__.startswith("_"):
                yield kind


def test_every_field_of_every_record_has_a_row() -> None:
    views = {"Held", "SourceRow", "BackwardNameMaps", "NameMaps"}
    places = {"FileFacts", "StoreReference", "Region", "RecordReference", "WeightReferences"}
    helpers = {"Access", "Growth", "Inside", "Renaming", "Variant"}
    fields = {
        (kind.__name__, field)
        for kind in _records()
        if kind.__name__ not in views | places | helpers
        for field in kind.__struct_fields__
    }
    assert fields == set(TABLE)


# ---------------------------------------------------------------------------------------------- what the rows say


def _programs() -> list[Program]:
    """The golden documents, which together hold all that the schema can say."""
    folder = ROOT / "tests" / "golden" / "documents"
    return [graphwire.decode(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


PROGRAMS = _programs()


def _instances(part: Any) -> Iterator[msgspec.Struct]:
    """Every record in a program, in an order that a copy has, too."""
    if isinstance(part, msgspec.Struct):
        yield part
        for field in part.__struct_fields__:
            yield from _instances(getattr(part, field))
    elif isinstance(part, dict):
        for value in part.values():
            yield from _instances(value)
    elif isinstance(part, list):
        for item in part:
            yield from _instances(item)


HASHES = [content_hash(program) for program in PROGRAMS]
HOLDERS: dict[tuple[str, str], list[tuple[int, msgspec.Struct]]] = {}
"""For each field the records that have it, and the programs that these are in."""
for number, program in enumerate(PROGRAMS):
    for record in _instances(program):
        for name in record.__struct_fields__:
            HOLDERS.setdefault((type(record).__name__, name), []).append((number, record))


def _hash_with(number: int, record: msgspec.Struct, field: str, value: Any) -> str:
    """The hash of a program with another value in one field."""
    before = getattr(record, field)
    msgspec.structs.force_setattr(record, field, value)
    try:
        return content_hash(PROGRAMS[number])
    finally:
        msgspec.structs.force_setattr(record, field, before)


SAID_ELSEWHERE: dict[tuple[str, str], Any] = {("Graph", "input_names"): None}
"""What is read, and so takes no value of another type: the names of literals, to tell whose they are."""

OUT = sorted(key for key, place in TABLE.items() if place.startswith("no") and key[0] not in NOT_IN_DOCUMENTS)
IN = sorted(key for key in TABLE if key not in OUT and key[0] not in NOT_IN_DOCUMENTS)


@pytest.mark.parametrize(("record", "field"), OUT)
def test_what_the_table_leaves_out_changes_nothing_whatever_it_is(record, field) -> None:
    value = SAID_ELSEWHERE.get((record, field), "anything")
    for number, holder in HOLDERS.get((record, field), [])[:3]:
        assert _hash_with(number, holder, field, value) == HASHES[number]


def _others(value: Any) -> Iterator[Any]:
    """Other values for one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield (
            type(value)(value + 1)
            if type(value) is int
            else next(each for each in type(value) if each != value)
        )
    elif isinstance(value, float):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}1"
        yield value.replace("1", "2")
        yield 0.5
    elif value is None:
        yield from (True, 7, "other")
    elif isinstance(value, (list, dict)) and value:
        yield type(value)()
        yield None
    elif isinstance(value, (list, dict)):
        yield ["other"]
        yield {"other": 7}


def _changes(record: str, field: str) -> bool:
    for number, holder in HOLDERS[record, field]:
        held = getattr(holder, field)
        if held is not None and record in (
            "InputSpec",
            "OutputSpec",
        ):  # under another variant it is of another kind
            variant = "token" if field != "token" else holder.__struct_fields__[0]
            msgspec.structs.force_setattr(
                holder, variant, UserInputSpec(Argument()) if variant == "user_input" else held
            )
            try:
                return _hash_with(number, holder, field, None) != HASHES[number]
            finally:
                msgspec.structs.force_setattr(holder, variant, None)
        inner = held[0] if isinstance(held, list) and held else held
        if isinstance(inner, msgspec.Struct):  # counts by what is in it
            return any((type(inner).__name__, name) in IN for name in inner.__struct_fields__)
        for other in _others(held):
            try:
                if _hash_with(number, holder, field, other) != HASHES[number]:
                    return True
            except (GraphwireError, AttributeError, TypeError, ValueError, KeyError):
                continue  # no program at all; another value or place may do
    return False


@pytest.mark.parametrize("key", one_in(2, IN), ids=".".join)
def test_what_the_table_counts_changes_the_hash(key) -> None:
    if TABLE[key].startswith("with weights"):
        pytest.skip("counts with weights: tests/analysis/test_payload_content.py")
    assert _changes(*key)
