"""What plugins write of contexts and metadata is read again as it is saved: what a reader would refuse is refused then."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import graphwire
from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.errors import EncodeError
from graphwire.hooks import MetadataKey, Registry


class Box:
    """A container of one thing."""


pytree.register_pytree_node(
    Box, lambda box: ([1], None), lambda items, context: Box(), serialized_type_name="plugin_trees.Box"
)


class Level(enum.IntEnum):
    """Numbers of a class of their own."""

    HIGH = 3


class BoxSerializer:
    """Writes what a test says."""

    name = "plugin_trees.Box"
    version = 2

    def __init__(self, dumped: Any, number: int | None = 1) -> None:
        self._dumped, self._number = dumped, number

    def container(self) -> type:
        return Box

    def dump_context(self, context: Any) -> Any:
        return self._dumped

    def load_context(self, tree: Any, version: int) -> Any:
        if tree == "raise":
            raise ZeroDivisionError("of the plugin")
        return tree

    def arity(self, container: type, context: Any) -> int | None:
        return self._number


def registry_of(**hooks: Any) -> Registry:
    members = {}
    for hook, provided in hooks.items():

        def give(self: Any, provided: Any = provided) -> Any:
            return provided

        give.__name__ = hook
        members[hook] = graphwire.hookimpl(give)
    return Registry.discover().extended(type("Plugin", (), members)())


def written(serializer: BoxSerializer) -> str:
    registry = registry_of(graphwire_treespec_serializers=[serializer])
    text = encode_treespec(pytree.tree_structure([Box()]), registry)
    decode_treespec(text, registry)
    return text


def _deep(levels: int) -> list[Any]:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    return deep


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


BAD: dict[str, Any] = {
    "a set": {1},
    "a tuple": (1,),
    "a number of a class of its own": [Level.HIGH],
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "a key that is no text": {1: 2},
    "a cycle": _cycle(),
    "lists too deep": _deep(380),
    "a number that is too long": 10**5000,
    "an object": object(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_context_that_no_reader_takes_is_refused(name: str) -> None:
    with pytest.raises(EncodeError):
        written(BoxSerializer((1, BAD[name])))


@pytest.mark.parametrize("version", [0, 3, -1, True, "1", None, 1.0])
def test_a_version_that_the_serializer_does_not_read_is_refused_by_its_name(version: Any) -> None:
    with pytest.raises(EncodeError, match=r"plugin_trees\.Box.* version"):
        written(BoxSerializer((version, "x")))


def test_a_context_that_the_serializer_does_not_read_again_is_refused() -> None:
    with pytest.raises(EncodeError, match="could not decode"):
        written(BoxSerializer((1, "raise")))


@pytest.mark.parametrize("tree", ["x", None, 3, float("inf"), [1, {"a": "ü"}], True])
@pytest.mark.parametrize("version", [1, 2])
def test_what_is_a_tree_comes_back(tree: Any, version: int) -> None:
    assert "plugin_trees.Box" in written(BoxSerializer((version, tree)))


METADATA: dict[str, Any] = {
    "a set": {1},
    "a number of a class of its own": [type("Own", (int,), {})(3)],
    "a number of another kind": 1j,
    "a cycle": _cycle(),
    "lists too deep": _deep(380),
    "lists far too deep": _deep(5000),
    "a number that is too long": 10**5000,
    "an object": object(),
    "a tensor": torch.ones(1),
    "a bytearray": bytearray(b"x"),
}


@pytest.mark.parametrize("name", METADATA)
@pytest.mark.parametrize("home", ["node", "module"])
def test_metadata_that_no_reader_takes_is_refused(name: str, home: str) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    node = next(each for each in program.graph.nodes if each.op == "call_function")
    (node if home == "node" else program.graph_module).meta["own_key"] = METADATA[name]
    registry = registry_of(graphwire_metadata_keys=[MetadataKey("own_key")])
    with pytest.raises(EncodeError, match=r"own_key|nested too deeply"):
        graphwire.dumps(program, registry=registry)
