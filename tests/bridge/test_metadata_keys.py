"""What plugins declare of the metadata of nodes and graphs is kept, exactly; nothing else is."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import EncodeError, GraphwireWarning, PluginError
from graphwire.hooks import MetadataKey
from graphwire.registry.interfaces import OWN_METADATA


class Stage(enum.Enum):
    """A value of metadata."""

    FIRST = 1


VALUES: list[Any] = [
    "text",
    0,
    False,
    2.5,
    (1, [None, ("a",)]),
    {1: "x", (2, 3): b"\x00"},
    Stage.FIRST,
    float("inf"),
]


class Declaring:
    """A plugin that declares keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    @graphwire.hookimpl
    def graphwire_metadata_keys(self) -> list[MetadataKey]:
        return [MetadataKey(key) for key in self.keys]


def _registry(*keys: str) -> graphwire.Registry:
    return graphwire.Registry.discover().extended(Declaring(*keys))


def _noted(value: Any) -> ExportedProgram:
    program = export(nn.Linear(2, 3), (torch.ones(1, 2),))
    for node in program.graph.nodes:
        node.meta["team"] = value
    program.graph_module.meta["team"] = value
    return program


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_declared_key_is_kept_of_every_node_and_of_the_graph(value: Any) -> None:
    registry = _registry("team")
    data = graphwire.dumps(_noted(value), registry=registry)
    loaded = graphwire.loads(data, registry=registry)
    found = [node.meta["team"] for node in loaded.graph.nodes] + [loaded.graph_module.meta["team"]]
    assert found == [value] * 6
    assert {type(each) for each in found} == {type(value)}
    assert graphwire.dumps(loaded, registry=registry) == data


def test_what_nobody_declares_is_not_kept() -> None:
    program = _noted("text")
    data = graphwire.dumps(program, registry=_registry("team"))
    with pytest.warns(GraphwireWarning, match="'team' are not loaded: no plugin in force declares the key"):
        loaded = graphwire.loads(data)
    assert not any("team" in node.meta for node in loaded.graph.nodes)
    assert "team" not in loaded.graph_module.meta
    assert graphwire.dumps(program) == graphwire.dumps(loaded)


def test_two_plugins_may_declare_one_key() -> None:
    registry = _registry("team").extended(Declaring("team", "other"))
    assert [*registry.metadata_keys][-2:] == ["team", "other"]


def test_a_value_that_is_no_data_is_refused_with_its_node() -> None:
    with pytest.raises(EncodeError, match=r"graph\.p_weight.*meta\['team'\]"):
        graphwire.dumps(_noted(object()), registry=_registry("team"))


@pytest.mark.parametrize("key", sorted(OWN_METADATA))
def test_a_key_that_is_kept_in_a_way_of_its_own_cannot_be_declared(key: str) -> None:
    with pytest.raises(PluginError, match="kept without being declared"):
        _registry(key)
