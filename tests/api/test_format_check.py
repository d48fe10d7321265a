"""A plugin's wire format that does not read what it wrote is found at save, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from inside.wire import write_document

import graphwire
from graphwire.errors import FormatError
from graphwire.hooks import Tree
from graphwire_plugins.json_format import JsonFormat

FAULTS: dict[str, Callable[[Any], bytes]] = {
    "everything is empty": lambda tree: b"{}",
    "a field is lost": lambda tree: json.dumps({key: tree[key] for key in list(tree)[1:]}).encode(),
    "order is lost": lambda tree: json.dumps(tree, sort_keys=True).encode(),
    "numbers are floats": lambda tree: json.dumps(tree, default=str).replace("2", "2.0").encode(),
    "it changes what it encodes": lambda tree: json.dumps((tree.clear(), tree)[1]).encode(),
    "it cannot be read": lambda tree: b"{",
}


class Faulty:
    name, suffix, media_type = "faulty", ".faulty", "application/x-faulty"

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode

    def encode(self, tree: Tree) -> bytes:
        return self._encode(tree)

    def decode(self, data: Any) -> Tree:
        return json.loads(bytes(data))

    def matches(self, head: bytes) -> bool:
        return False


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_format_that_loses_something_writes_nothing(
    fault: str, program: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    registry = registry_with(wire_formats=[Faulty(FAULTS[fault])])
    path, plain = tmp_path / "m.pt2", tmp_path / "plain.pt2"
    path.write_bytes(b"old")
    with pytest.raises(FormatError, match="faulty does not read what it wrote"):
        graphwire.save(program, path, format="faulty", registry=registry)
    assert path.read_bytes() == b"old"
    graphwire.save(program, plain)
    with pytest.raises(FormatError, match="faulty does not read what it wrote"):
        graphwire.convert(plain, path, format="faulty", registry=registry)
    with pytest.raises(FormatError, match="faulty does not read what it wrote"):
        graphwire.encode(graphwire.to_schema(program)[0], format="faulty", registry=registry)
    assert path.read_bytes() == b"old"
    graphwire.convert(plain, path, format="faulty", registry=registry, check_format=False)
    assert path.read_bytes() != b"old"
    graphwire.save(program, path, format="faulty", registry=registry, check_format=False)


def _without_nodes(program: Any) -> Any:
    program.graph_module.graph.nodes.clear()
    return program


RECORDS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "everything is empty": ("encode_records", lambda given: b"{}", "does not read what it wrote"),
    "no bytes": (
        "encode_records",
        lambda given: bytearray(b"{}"),
        "`encode_records` .* returns a bytearray, not bytes",
    ),
    "nodes are lost before": (
        "encode_records",
        lambda given: JsonFormat().encode_records(_without_nodes(given)),
        "changes the records that it encodes",
    ),
    "nodes are lost behind": (
        "encode_records",
        lambda given: (JsonFormat().encode_records(given), _without_nodes(given))[0],
        "changes the records that it encodes",
    ),
    "records are read without nodes": (
        "decode_program",
        lambda data: _without_nodes(JsonFormat().decode_program(data)),
        "does not read what it wrote: it reads something else",
    ),
    "records are not read": ("decode_program", lambda data: 1 / 0, "`decode_program` .* ZeroDivisionError"),
    "another thing is read": ("decode_program", lambda data: {}, "returns a dict, not a Program or None"),
}


@pytest.mark.parametrize("fault", RECORDS)
def test_records_are_checked_as_a_load_reads_them(
    fault: str, program: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    method, does, told = RECORDS[fault]
    json_format = JsonFormat()
    wire_format = Faulty(json_format.encode)
    vars(wire_format).update(
        encode_records=json_format.encode_records, decode_program=json_format.decode_program
    )
    registry = registry_with(wire_formats=[wire_format])
    graphwire.save(program, tmp_path / "right.pt2", format="faulty", registry=registry)
    vars(wire_format)[method] = does
    registry = registry_with(wire_formats=[wire_format])
    with pytest.raises(FormatError, match=told) as refused:
        graphwire.save(program, tmp_path / "m.pt2", format="faulty", registry=registry)
    assert "GRAPHWIRE_DISABLE_PLUGINS" in refused.value.remedy
    assert not (tmp_path / "m.pt2").exists()


def test_a_deep_tree_is_checked() -> None:
    """A copy of a tree is made without Python's recursion."""
    tree: Any = 1
    for _ in range(390):
        tree = [tree]
    given = write_document(tree, JsonFormat(), checked=True)
    assert given == b"[" * 390 + b"1" + b"]" * 390


def test_a_format_that_is_right_is_written(program: torch.export.ExportedProgram) -> None:
    registry = registry_with(wire_formats=[Faulty(lambda tree: json.dumps(tree).encode())])
    data = graphwire.dumps(program, format="faulty", registry=registry)
    assert graphwire.loads(data, registry=registry).graph_signature == program.graph_signature
