"""A plugin's wire format that does not read what it wrote is found at save, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with

import graphwire
from graphwire.errors import FormatError
from graphwire.hooks import Tree

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


def test_a_format_that_is_right_is_written(program: torch.export.ExportedProgram) -> None:
    registry = registry_with(wire_formats=[Faulty(lambda tree: json.dumps(tree).encode())])
    data = graphwire.dumps(program, format="faulty", registry=registry)
    assert graphwire.loads(data, registry=registry).graph_signature == program.graph_signature
