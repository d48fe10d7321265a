"""What plugins declare of the metadata of nodes and graphs is kept, exactly; nothing else is."""

from __future__ import annotations

import enum
import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import Plugin, put_distribution, registry_with
from inside.registry import OWN_METADATA
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import EncodeError, GraphwireWarning, PluginError
from graphwire.hooks import MetadataKey


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


def _registry(*keys: str) -> graphwire.Registry:
    return registry_with(metadata_keys=map(MetadataKey, keys))


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


def test_what_has_no_place_in_a_file_for_torch_is_told() -> None:
    registry = _registry("team")
    for target, told in (("torch-2.13", "4 have no place in a file for torch-2.13"), ("torch-2.3", "5 have")):
        file = io.BytesIO()
        with pytest.warns(
            GraphwireWarning, match=rf"\(team\) of 'model' are not all written: {told}"
        ) as caught:
            graphwire.save(_noted("text"), file, target=target, registry=registry)
        assert len(caught) == 1
        loaded = graphwire.loads(file.getvalue(), registry=registry)
        assert [node.name for node in loaded.graph.nodes if "team" in node.meta] == ["linear"]


def test_what_nobody_declares_is_not_kept() -> None:
    with pytest.warns(GraphwireWarning, match=r"not saved: meta\['team'\] of p_weight") as caught:
        data = graphwire.dumps(program := _noted("text"))
    assert len(caught) == 1
    for held in (program.graph_module, *program.graph.nodes):
        del held.meta["team"]
    assert data == graphwire.dumps(program)


def test_what_a_node_has_beside_its_metadata_is_named() -> None:
    program = export(nn.Linear(2, 3), (torch.ones(1, 2),))
    *_, given, called, _ = program.graph.nodes
    given.args, called.type = (None,), torch.Tensor
    with pytest.warns(GraphwireWarning, match="not saved: the default value of input, the type of linear"):
        graphwire.dumps(program)


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    "value", [(1, 2), {1: "x"}, {"deep": [{"er": ()}]}, Level.LOW, OrderedDict(a=1)], ids=repr
)
@pytest.mark.parametrize("of_graph", [True, False])
def test_custom_data_that_json_reads_as_something_else_is_named(value: Any, of_graph: bool) -> None:
    program = export(nn.Linear(2, 3), (torch.ones(1, 2),))
    holder = program.graph_module if of_graph else [*program.graph.nodes][-2]
    holder.meta["custom"] = {"note": value}
    with pytest.warns(GraphwireWarning, match=r"not saved: that values in meta\['custom'\] are tuples"):
        graphwire.dumps(program)
    holder.meta["custom"] = {"note": [1.5, float("nan"), None, True, "x", {"y": -0.0}]}
    graphwire.dumps(program)  # and no warning, which would be an error


def test_what_no_plugin_here_declares_is_kept_as_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a load and save without the plugin, which the file names."""
    put_distribution(tmp_path, "gw-team", "1.5", "[graphwire]\nteam = gw_team\n", gw_team=_TEAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = graphwire.Registry.discover()
    program = _noted((1, "text"))
    data = graphwire.dumps(program, registry=installed)

    message = "'team' are not loaded: no plugin in force declares the key.*It comes with gw-team 1.5"
    with pytest.warns(GraphwireWarning, match=message):
        loaded = graphwire.loads(data)
    with pytest.warns(GraphwireWarning, match=message):
        module = graphwire.load_module(io.BytesIO(data))
    assert "graphwire.meta.team" in module.meta
    assert not any("team" in node.meta for node in loaded.graph.nodes)
    assert graphwire.dumps(loaded) == data
    converted = io.BytesIO()
    graphwire.convert(data, converted, format="cbor")
    for file in (graphwire.dumps(loaded), converted.getvalue()):
        again = graphwire.loads(file, registry=installed)
        assert [node.meta["team"] for node in again.graph.nodes] == [(1, "text")] * 5
        told = graphwire.inspect(io.BytesIO(file), registry=installed).methods[0].summary.metadata
        assert [(each.key, each.values, each.plugin) for each in told] == [("team", 6, "gw-team 1.5")]
        assert told[0].rows[0] == ("", "1 text")
    assert graphwire.inspect(io.BytesIO(data)).methods[0].summary.metadata[0].rows == []
    assert graphwire.content_hash(data) == graphwire.content_hash(
        export(nn.Linear(2, 3), (torch.ones(1, 2),))
    )
    assert graphwire.diff(data, export(nn.Linear(2, 3), (torch.ones(1, 2),))).changes == []


def test_a_section_that_fails_is_told_in_its_place() -> None:
    failing = MetadataKey("team", section=lambda values: [(name, 1 // 0) for name in values])
    registry = registry_with(metadata_keys=[failing])
    data = graphwire.dumps(_noted(1), registry=registry)
    (told,) = graphwire.inspect(io.BytesIO(data), registry=registry).methods[0].summary.metadata
    assert "`section` of the metadata key 'team'" in told.rows[0][1]
    assert "ZeroDivisionError" in told.rows[0][1]


_TEAM = """
from graphwire import hookimpl
from graphwire.hooks import MetadataKey

def section(values):
    return [(name, " ".join(map(str, value))) for name, value in sorted(values.items())]

@hookimpl
def graphwire_metadata_keys():
    return [MetadataKey("team", section)]
"""


def test_two_plugins_may_declare_one_key() -> None:
    registry = _registry("team").extended(Plugin(metadata_keys=map(MetadataKey, ("team", "other"))))
    assert [*registry.metadata_keys][-2:] == ["team", "other"]


def test_a_value_that_is_no_data_is_refused_with_its_node() -> None:
    with pytest.raises(EncodeError, match=r"graph\.p_weight.*meta\['team'\]"):
        graphwire.dumps(_noted(object()), registry=_registry("team"))


@pytest.mark.parametrize("key", sorted(OWN_METADATA))
def test_a_key_that_is_kept_in_a_way_of_its_own_cannot_be_declared(key: str) -> None:
    with pytest.raises(PluginError, match="kept without being declared"):
        _registry(key)
