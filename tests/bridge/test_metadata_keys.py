"""What plugins declare of the metadata of nodes and graphs is kept, exactly; nothing else is."""

from __future__ import annotations

import enum
import functools
import io
import operator
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from given_plugins import Plugin, put_distribution, registry_with
from hypothesis import given, strategies as st
from inside.registry import OWN_METADATA
from inside.schema import decode_value, encode_value
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import DecodeError, EncodeError, GraphwireWarning, PluginError
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


class Access(enum.Flag):
    """Bits without names between those that have some, and a name of two."""

    NONE, READ, WRITE, BOTH, HIDDEN = 0, 1, 2, 3, 16


class Number(enum.IntFlag):
    """Without a name for none; it takes any number."""

    ONE, TWO, EIGHT = 1, 2, 8


class Strange(enum.IntFlag):
    """Names as texts that combine others."""

    ONE, TWO = 1, 2
    locals()["ONE|TWO"], locals()["TWO|ONE"] = 4, 8


@given(kind=st.sampled_from([Access, Number, Strange]), value=st.integers(-1, 40))
def test_a_combination_of_flags_comes_back_or_is_refused(kind: type[enum.Flag], value: int) -> None:
    try:
        member = kind(value)
    except ValueError:  # a strict class
        return
    names = {each.name for each in member}
    known = functools.reduce(operator.or_, [kind[each] for each in names if each], kind(0))
    try:
        tree = encode_value({member: (member,)})
    except EncodeError:
        assert known is not member or kind is Strange
        return
    assert [*decode_value(tree)] == [member]
    assert decode_value(tree)[member][0] is member


@pytest.mark.parametrize(
    "name", ["WRITE|READ", "READ|", "|READ", "READ|READ", "READ|BOTH", "|", "A", "READ | WRITE"]
)
def test_another_text_is_no_combination(name: str) -> None:
    with pytest.raises(DecodeError, match="has no member"):
        decode_value({"enum": f"{__name__}:Access", "name": name})


_ran: list[object] = []


class _Loud(int):
    def __new__(cls, value: int) -> Self:
        _ran.append(cls)
        return super().__new__(cls, value)


class _LoudMeta(enum.EnumMeta):
    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        _ran.append(cls)
        return super().__call__(*args, **keywords)


class OwnMissing(enum.Flag):
    ONE, TWO = 1, 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        _ran.append(value)
        return super()._missing_(value)


class OwnOr(enum.IntFlag):
    ONE, TWO = 1, 2

    def __or__(self, other: object) -> Any:
        _ran.append(other)
        return super().__or__(other)  # type: ignore[operator]


class OwnIteration(enum.Flag):
    ONE, TWO = 1, 2

    def __iter__(self) -> Any:
        _ran.append(self)
        return super().__iter__()


class OwnNumbers(_Loud, enum.Flag):
    ONE, TWO = 1, 2


class OwnClass(enum.Flag, metaclass=_LoudMeta):
    ONE, TWO = 1, 2


class OwnName(enum.Flag):
    ONE, TWO = 1, 2

    @property
    def name(self) -> Any:
        _ran.append(self.value)
        return "ONE"


@pytest.mark.parametrize("kind", [OwnMissing, OwnOr, OwnIteration, OwnNumbers, OwnClass, OwnName])
@pytest.mark.parametrize("name", ["ONE|TWO", "", "TWO"])
def test_no_code_of_a_class_that_a_file_names_is_run(kind: type[enum.Flag], name: str) -> None:
    _ran.clear()
    with suppress(DecodeError):
        decode_value({"enum": f"{__name__}:{kind.__name__}", "name": name})
    assert _ran == []


def test_a_program_keeps_flags_among_inputs_and_keys() -> None:
    registry = registry_with(metadata_keys=[MetadataKey("team")])
    flags = Number.ONE | Number.EIGHT
    program = export(_Flagged(), (torch.ones(2), flags))
    program.graph_module.meta["team"] = {flags: Access.READ | Access.HIDDEN}
    loaded = graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)
    assert loaded.example_inputs[0][1] is flags
    assert loaded.graph_module.meta["team"] == {flags: Access.READ | Access.HIDDEN}
    assert loaded.module()(torch.ones(2), flags).tolist() == [9.0, 9.0]


class _Flagged(nn.Module):
    def forward(self, x: torch.Tensor, flags: Number) -> torch.Tensor:
        return x * int(flags)


def test_a_section_that_fails_is_told_in_its_place() -> None:
    failing = MetadataKey("team", section=lambda values: [(name, 1 // 0) for name in values])
    registry = registry_with(metadata_keys=[failing])
    data = graphwire.dumps(_noted(1), registry=registry)
    (told,) = graphwire.inspect(io.BytesIO(data), registry=registry).methods[0].summary.metadata
    assert "`section` of the metadata key 'team'" in told.rows[0][1]
    assert "ZeroDivisionError" in told.rows[0][1]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("a",)], "a row is a tuple, not a pair"),
        (["ab"], "a row is 'ab', not"),
        (repeat(("a", "b")), "more than 10,000"),
    ],
    ids=["one text", "no pair", "without end"],
)
def test_rows_that_are_none_are_told_with_the_plugin(rows: Iterable[Any], told: str) -> None:
    registry = registry_with(metadata_keys=[MetadataKey("team", section=lambda values: rows)])
    data = graphwire.dumps(_noted(1), registry=registry)
    (found,) = graphwire.inspect(io.BytesIO(data), registry=registry).methods[0].summary.metadata
    assert told in found.rows[0][1]
    assert "GRAPHWIRE_DISABLE_PLUGINS" in found.rows[0][1]


class _Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: (x + 2).relu(), (x,))


@pytest.mark.parametrize("target", [None, "torch", "torch-2.5"])
def test_values_in_subgraphs_have_names_of_their_own(target: str | None) -> None:
    registry = registry_with(metadata_keys=[MetadataKey("team", section=lambda values: [*values.items()])])
    program = export(_Branches(), (torch.ones(2),))
    branches = [module for _, module in program.graph_module.named_children()]
    calls = [node for module in branches for node in module.graph.nodes if node.op == "call_function"]
    for index, node in enumerate(calls):
        node.meta["team"] = index
    data = graphwire.dumps(program, registry=registry, target=target)
    (found,) = graphwire.inspect(io.BytesIO(data), registry=registry).methods[0].summary.metadata
    names = [
        f"{place}/{name}"
        for place, name in [("true_graph_0", "add"), ("false_graph_0", "add"), ("false_graph_0", "relu")]
    ]
    assert found.rows == [*zip(names, "012", strict=True)]
    assert found.values == 3


_TEAM = """
from graphwire import hookimpl
from graphwire.hooks import MetadataKey
from graphwire.schema.texts.treespec import decode_value, encode_value

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
