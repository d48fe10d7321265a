"""The vocabulary has a row for everything that a document can say, and what has none never reaches a reader of torch."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from inside.evolve import (
    CURRENT,
    EXTENSIONS,
    FIELDS,
    REFUSING,
    RELEASES,
    TYPES,
    Field,
    _new_with,
    downgrade,
    first_reader,
    first_release,
    rename_values,
    report_new_constructs,
    supports,
    targets,
)
from inside.schema import to_tree
from msgspec import inspect as types
from this_torch import RELEASE
from torch._export.serde import schema as torch_schema

import graphwire
from graphwire.errors import Obstacle, TargetError
from graphwire.schema import (
    ARGUMENT_VARIANTS,
    FEATURES,
    PLACES,
    VALUE_TABLES,
    VARIANTS,
    Argument,
    Graph,
    GraphSignature,
    InputSpec,
    ModuleCallEntry,
    ModuleCallSignature,
    Node,
    OutputSpec,
    PayloadConfig,
    Program,
    ScalarType,
    TensorMeta,
    Version,
)

GOLDEN = {
    path.stem: graphwire.decode(path.read_bytes())
    for path in sorted((Path(__file__).parents[1] / "golden/documents").glob("*.json"))
}
"""Programs that together have every record, variant and field."""
NEWEST = f"torch-{[*RELEASES][-1]}"
EXTENSION_VARIANTS = ARGUMENT_VARIANTS[ARGUMENT_VARIANTS.index("as_float_lists") + 1 :]


def _records() -> Iterator[types.StructType]:
    """Every record that a program, or the config of its payloads, consists of."""
    seen: set[type] = set()
    pending: list[Any] = [types.type_info(Program), types.type_info(PayloadConfig)]
    while pending:
        kind = pending.pop()
        if isinstance(kind, types.StructType):
            if kind.cls in seen:
                continue
            seen.add(kind.cls)
            yield kind
            pending += [field.type for field in kind.fields]
        pending += getattr(kind, "types", ())
        pending += [each for name in ("item_type", "value_type") if (each := getattr(kind, name, None))]


RECORDS = {record.cls: record for record in _records()}


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_record_has_a_row(kind: type[msgspec.Struct]) -> None:
    assert set(FIELDS[kind]) == {field.name for field in RECORDS[kind].fields}


def test_every_variant_type_and_extension_has_a_row() -> None:
    assert set(FIELDS) == set(RECORDS)
    assert tuple(VARIANTS) == ARGUMENT_VARIANTS
    assert set(TYPES) == set(ScalarType)
    assert set(EXTENSIONS) == set(FEATURES)
    features = {row.feature for row in VARIANTS.values()} | {
        row.feature for rows in FIELDS.values() for row in rows.values()
    }
    assert features - {""} <= set(EXTENSIONS)


def test_what_a_row_dates_is_a_version_that_a_release_has() -> None:
    known = {*RELEASES.values(), None}
    assert {row.since for rows in FIELDS.values() for row in rows.values()} <= known
    assert {row.since(place) for row in VARIANTS.values() for place in PLACES} <= known
    for variant, row in VARIANTS.items():  # a place reads nothing that no argument may be
        if row.argument is not None:
            assert all(row.since(place) is None or row.since(place) >= row.argument for place in PLACES), (
                variant
            )


def test_what_came_with_a_version_is_reported_for_each_version_there_is() -> None:
    tree = to_tree(GOLDEN["arguments"])
    only_fields = {Version(7, 3)}  # versions that introduced no argument, element type or spec
    for version in (None, *RELEASES.values()):
        found: list[Obstacle] = []
        report_new_constructs(tree, found.append, version)
        assert {each.first for each in found} <= {first_release(version) if version else "graphwire"}
        assert found or version in only_fields, f"{version}: extend the golden program, or `only_fields`"


@pytest.mark.parametrize("variant", EXTENSION_VARIANTS)
def test_an_argument_that_is_an_extension_is_an_obstacle_for_every_release(variant: str) -> None:
    nodes = [n for each in GOLDEN.values() for n in to_tree(each)["graph_module"]["graph"]["nodes"]]
    argument = next(named["arg"] for node in nodes for named in node["inputs"] if variant in named["arg"])
    tree = copy.deepcopy(to_tree(_plain_program()))
    tree["graph_module"]["graph"]["nodes"][0]["inputs"].append({"name": "odd", "arg": argument, "kind": 2})
    with pytest.raises(TargetError):
        downgrade(tree, CURRENT)
    assert [obstacle.first for obstacle in supports(tree, NEWEST)] == ["graphwire"]


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("graph_module",),
        ("graph_module", "graph"),
        ("graph_module", "graph", "nodes", 0),
        ("graph_module", "graph", "nodes", 0, "inputs", 0),
        ("graph_module", "graph", "nodes", 0, "inputs", 0, "arg"),
        ("graph_module", "graph", "tensor_values", "x"),
        ("graph_module", "module_call_graph", 0, "signature"),
    ],
    ids=str,
)
def test_a_field_that_nobody_gave_a_row_is_refused(path: tuple[Any, ...]) -> None:
    tree = copy.deepcopy(to_tree(_plain_program()))
    record = tree
    for step in path:
        record = record[step]
    assert not supports(tree, NEWEST)
    if path and path[-1] == "arg":
        record.clear()
    record["novelty"] = "of tomorrow"
    obstacles = supports(tree, NEWEST)
    assert [each for each in obstacles if "novelty" in each.construct], obstacles
    assert {each.first for each in obstacles} == {"graphwire"}


@pytest.mark.parametrize("kind", REFUSING, ids=lambda kind: kind.__name__)
def test_a_field_of_torch_s_that_readers_must_not_ignore_is_refused_to_older_ones(
    kind: type[msgspec.Struct], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIELDS[kind], "novelty", Field(CURRENT, says="a novelty"))
    _new_with.cache_clear()
    try:
        tree = copy.deepcopy(to_tree(_plain_program()))
        record = _first_of(kind, tree["graph_module"])
        record["novelty"] = 0
        found: list[Obstacle] = []
        report_new_constructs(tree, found.append, CURRENT)
        assert {(each.construct, each.first) for each in found} == {("a novelty", first_release(CURRENT))}
    finally:
        _new_with.cache_clear()


@pytest.mark.parametrize(
    "field",
    [
        (Graph, "inputs"),
        (Node, "target"),
        (TensorMeta, "sizes"),
        (ModuleCallSignature, "in_spec"),
        (InputSpec, "user_input"),
        (OutputSpec, "user_output"),
    ],
    ids=lambda field: field[0].__name__,
)
def test_a_file_says_that_older_readers_lack_a_field_that_they_must_not_ignore(
    field: tuple[type[msgspec.Struct], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_reader(_plain_program(), is_json=True) == "torch-2.9"
    monkeypatch.setattr(targets, "_NEW_FIELDS", {field: CURRENT})
    assert first_reader(_plain_program(), is_json=True) == first_release(CURRENT)


def _first_of(kind: type[msgspec.Struct], module: dict[str, Any]) -> dict[str, Any]:
    """The first record of a kind in a program's tree."""
    found: dict[type[msgspec.Struct], Any] = {
        Graph: module["graph"],
        Node: module["graph"]["nodes"][0],
        TensorMeta: next(iter(module["graph"]["tensor_values"].values())),
        ModuleCallSignature: module["module_call_graph"][0]["signature"],
        InputSpec: module["signature"]["input_specs"][0],
        OutputSpec: module["signature"]["output_specs"][0],
    }
    record: dict[str, Any] = found[kind]
    return record


def test_only_records_that_are_looked_at_have_fields_that_are_refused() -> None:
    assert {kind for kind, rows in FIELDS.items() if any(row.says for row in rows.values())} <= set(REFUSING)


def test_an_extension_that_nobody_gave_a_row_or_that_leaves_no_trace_is_refused() -> None:
    for feature in ("novelty", *(name for name, fate in EXTENSIONS.items() if fate == "refused")):
        tree = {**to_tree(_plain_program()), "requires": [feature]}
        for target in (NEWEST, "torch-2.3"):
            assert [each.first for each in supports(tree, target)] == ["graphwire"], feature


def _plain_program() -> Program:
    """A program with nothing of ours."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    return graphwire.to_schema(torch.export.export(Model(), (torch.ones(2),)))[0]


@pytest.mark.skipif(RELEASE < (2, 12), reason="an older torch has an older schema")
def test_the_rows_of_torch_s_fields_are_those_of_torch_s_schema() -> None:
    for kind, rows in FIELDS.items():
        theirs = getattr(torch_schema, "ExportedProgram" if kind is Program else kind.__name__, None)
        named = {field.name for field in dataclasses.fields(theirs)} if theirs is not None else set()
        if issubclass(kind, Argument):  # a tensor or None is torch's, and its reader reads it nowhere
            named -= {variant for variant, row in VARIANTS.items() if row.resolved}
        assert {name for name, row in rows.items() if row.since is not None} == named, kind.__name__


# ------------------------------------------------------------------------------------------------ names of values

_FREE = frozenset(
    {"forward_arg_names", "metadata", "in_spec", "out_spec", "target", "class_fqn", "type", "spec", "graph"}
)
"""Fields whose texts are not names, though a text may look like one; and graphs inside, which have names of their own."""


def test_the_tables_of_values_are_those_of_torch_s_schema() -> None:
    rows = FIELDS[Graph]
    assert set(VALUE_TABLES.values()) == {
        name for name, row in rows.items() if row.names and row.since is not None
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_no_name_of_a_value_stays_when_all_are_renamed(name: str) -> None:
    module = to_tree(GOLDEN[name])["graph_module"]
    graph = module["graph"]
    names = {
        value: f"renamed_{value}_value" for table in VALUE_TABLES.values() for value in graph.get(table) or ()
    }
    again = {value: key for key, value in names.items()}
    for kind, tree in (
        (Graph, graph),
        (GraphSignature, module["signature"]),
        *((ModuleCallEntry, entry) for entry in module["module_call_graph"]),
    ):
        made = rename_values(kind, tree, names)
        assert set(_texts(made)) & names.keys() <= _others(tree), name
        assert json.dumps(rename_values(kind, made, again)) == json.dumps(tree)


def _texts(tree: Any) -> Iterator[str]:
    """Every text of a tree that may be a name: values and keys."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, list):
        for item in tree:
            yield from _texts(item)
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield key
            if key not in _FREE:
                yield from _texts(item)


def _others(tree: Any) -> set[str]:
    """Names of parameters, which a name of a value may be equal to, and names of weights."""
    found: set[str] = set()
    if isinstance(tree, list):
        found.update(*map(_others, tree))
    elif isinstance(tree, dict):
        if "arg" in tree and isinstance(tree.get("name"), str):
            found.add(tree["name"])
        found |= {
            text
            for key, text in tree.items()
            if key.endswith("_name") and isinstance(text, str) and "as" not in key
        }
        for key, item in tree.items():
            found |= _others(item) if key != "graph" else set()
    return found


def test_the_variants_that_every_reader_of_the_archive_reads_come_first() -> None:
    """The first reader of a file is found without a look at them."""
    for variant in ARGUMENT_VARIANTS[: ARGUMENT_VARIANTS.index("as_optional_tensor")]:
        assert VARIANTS[variant].argument is not None, variant
        assert VARIANTS[variant].argument <= RELEASES["2.9"], variant
