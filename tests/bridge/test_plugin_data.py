"""Every way by which data of a plugin enters a document refuses what is no data: by the plugin's name, with the place, and
with nothing written."""

from __future__ import annotations

import collections
import enum
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from given_plugins import registry_with
from inside.registry import HOOKS
from nightly import one_in
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import EncodeError, FormatError
from graphwire.hooks import MetadataKey
from graphwire.schema import (
    Argument,
    ArgumentKind,
    CustomObjArgument,
    Device,
    NamedArgument,
    ScalarType,
    SymIntArgument,
)


class _Level(enum.IntEnum):
    HIGH = 3


_Pair = collections.namedtuple("_Pair", "a b")


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


def _shared() -> list[Any]:
    shared: list[Any] = []
    for _ in range(64):
        shared = [shared, shared]
    return shared


NO_DATA: dict[str, Any] = {
    "a set": {1, 2},
    "a named tuple": _Pair(1, 2),
    "a size": torch.Size([1]),
    "a float of a class of its own": type("float64", (float,), {})(1.0),
    "a number of a class of its own": type("Own", (int,), {})(3),
    "a key that is no text": {(1, 2): {3}},
    "a number that is too long": 10**5000,
    "a cycle": _cycle(),
    "lists far too deep": _deep(),
    "a generator": (each for each in "abc"),
    "a bytearray": bytearray(b"x"),
    "a memoryview": memoryview(b"x"),
    "an object": object(),
    "a tensor": torch.ones(1),
    "a type": int,
}
IN_TREES = NO_DATA | {
    "a tuple": (1, 2),
    "an int enum": _Level.HIGH,
    "a complex number": 1j,
    "a key that is a number": {1: 2},
}
OWN_SCALARS = {
    **{name: IN_TREES[name] for name in ("an int enum", "a float of a class of its own")},
    "a number of a class of its own": NO_DATA["a number of a class of its own"],
    "a member of an enumeration of the schema": ScalarType.FLOAT,
    "a flag": enum.IntFlag("_Flag", "A").A,
    "a text enum": enum.StrEnum("_Name", "A").A,
    "a text of a class of its own": type("Text", (str,), {})("a"),
}


class _Codec:
    """Owns a tensor subclass, and writes what a test says."""

    name = "entry"

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def owns(self, value: Any) -> bool:
        return type(value) in (TwoTensor, torch.Generator)

    def encode(self, value: Any) -> Any:
        return self._tree, [value.a, value.b] if isinstance(value, TwoTensor) else []

    def decode(self, tree: Any, tensors: Any) -> Any:
        return TwoTensor(*tensors) if tensors else torch.Generator()


class _InGraph(_Codec):
    """Writes it of values without elements alone."""

    def encode(self, value: Any) -> Any:
        fake = not isinstance(value.a, torch.nn.Parameter) and type(value.a) is not torch.Tensor
        return (self._tree if fake else None), [value.a, value.b]


class _Box:
    """A container of one thing."""


pytree.register_pytree_node(
    _Box, lambda box: ([1], None), lambda items, context: _Box(), serialized_type_name="plugin_data.Box"
)


class _Serializer:
    name, version = "plugin_data.Box", 1

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def container(self) -> type:
        return _Box

    def dump_context(self, context: Any) -> Any:
        return 1, self._tree

    def load_context(self, tree: Any, version: int) -> Any:
        return None

    def arity(self, container: type, context: Any) -> int | None:
        return 1


class _Handler:
    namespace, prefixes, opset_version, convention = "entries", ("torch.ops.graphwire_entries.",), 0, "schema"

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs

    def name_of(self, target: Any) -> Any:
        return "torch.ops.graphwire_entries.same.default" if target is _OPERATOR else None

    def resolve(self, name: str) -> Any:
        return _OPERATOR

    def encode_node(self, target: Any, args: Any, kwargs: Any, encode: Any) -> Any:
        return self._inputs(encode(args[0]), encode)

    def decode_node(self, target: Any, inputs: Any, decode: Any) -> Any:
        return None


_LIBRARY = torch.library.Library("graphwire_entries", "DEF")
_LIBRARY.define("same(Tensor self) -> Tensor")
_LIBRARY.impl("same", torch.clone, "CompositeExplicitAutograd")
_OPERATOR = torch.ops.graphwire_entries.same.default


class _Format:
    name, suffix, media_type = "entry_format", ".entry", "application/x-entry"

    def __init__(self, data: Any) -> None:
        self._data = data

    def encode(self, tree: Any) -> Any:
        return self._data

    def decode(self, buffer: Any) -> Any:
        return {}

    def matches(self, head: bytes) -> bool:
        return head.startswith(b"entry")


def _relu() -> Any:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def _with_constant(value: Any, home: str = "constants") -> Any:
    program = _relu()
    getattr(program, home)["kept"] = value
    return program


class _Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.graphwire_entries.same(x)


def _with_meta(home: str, value: Any) -> Any:
    program = _relu()
    node = next(each for each in program.graph.nodes if each.op == "call_function")
    (node if home == "node" else program.graph_module).meta["own_key"] = value
    return program


def _input(value: Argument, name: Any = "self") -> list[NamedArgument]:
    return [NamedArgument(name, value, ArgumentKind.POSITIONAL)]


def _two() -> Any:
    return TwoTensor(torch.ones(2), torch.ones(2))


class Entry(NamedTuple):
    """Where data of a plugin enters a document."""

    hook: str
    """The hook's kind."""
    provider: Callable[[Any], Any]
    """What the hook gives, for something that is no data."""
    program: Callable[[Any], Any]
    table: dict[str, Any]
    """What is no data there."""
    named: str
    """What the error says."""


def _node(
    inputs: Callable[[Any, Any, Any], Any],
    table: dict[str, Any] | None = None,
    named: str = "'entries'|graphwire_entries",
) -> Entry:
    return Entry(
        "op_handler",
        lambda bad: _Handler(lambda x, encode: inputs(bad, x, encode)),
        lambda bad: torch.export.export(_Same(), (torch.ones(2),)),
        IN_TREES if table is None else table,
        named,
    )


_SHARED = {"lists that share lists": _shared()}
_UNSAID = ("a set", "a cycle", "lists far too deep", "a generator", "an object", "a bytearray")
ENTRIES = {
    "a constant's tree": Entry(
        "constant_codec",
        _Codec,
        lambda bad: _with_constant(_two()),
        IN_TREES | {"half a character": "\ud800"},
        "codec entry",
    ),
    "a weight's tree": Entry(
        "constant_codec",
        lambda bad: _Codec([bad]),
        lambda bad: _with_constant(_two(), "state_dict"),
        IN_TREES,
        "codec entry",
    ),
    "an object's tree": Entry(
        "constant_codec",
        lambda bad: _Codec({"a": bad}),
        lambda bad: _with_constant(torch.Generator()),
        IN_TREES,
        "codec entry",
    ),
    "the tree of a value in the graph": Entry(
        "constant_codec",
        lambda bad: _InGraph({"a": [bad]}),
        lambda bad: torch.export.export(torch.nn.ReLU(), (_two(),)),
        IN_TREES | {"the key of a size": {"graphwire.integer": 0}},
        "codec entry",
    ),
    "a context": Entry(
        "treespec_serializer",
        lambda bad: _Serializer([bad]),
        lambda bad: _box_program(),
        IN_TREES,
        r"plugin_data\.Box",
    ),
    "metadata of a node": Entry(
        "metadata_key",
        lambda bad: MetadataKey("own_key"),
        lambda bad: _with_meta("node", bad),
        NO_DATA | _SHARED,
        "own_key|nested too deeply",
    ),
    "metadata of a module": Entry(
        "metadata_key",
        lambda bad: MetadataKey("own_key"),
        lambda bad: _with_meta("module", [bad]),
        NO_DATA,
        "own_key|nested too deeply",
    ),
    "the inputs of a node": _node(lambda bad, x, encode: bad),
    "an argument": _node(lambda bad, x, encode: _input(bad)),
    "a number": _node(lambda bad, x, encode: _input(Argument(as_int=bad)), IN_TREES | OWN_SCALARS),
    "a float": _node(lambda bad, x, encode: _input(Argument(as_float=bad)), OWN_SCALARS),
    "a truth value": _node(lambda bad, x, encode: _input(Argument(as_bool=bad)), OWN_SCALARS),
    "a number of a list": _node(lambda bad, x, encode: _input(Argument(as_ints=[1, bad])), OWN_SCALARS),
    "a symbolic number": _node(
        lambda bad, x, encode: _input(Argument(as_sym_int=SymIntArgument(as_int=bad))), OWN_SCALARS
    ),
    "a device's number": _node(
        lambda bad, x, encode: _input(Argument(as_device=Device("cpu", bad))), OWN_SCALARS
    ),
    "a number in a mapping": _node(
        lambda bad, x, encode: _input(Argument(as_string_to_argument={"a": Argument(as_int=bad)})),
        OWN_SCALARS,
    ),
    "how an input is passed": _node(lambda bad, x, encode: [NamedArgument("self", x, bad)], OWN_SCALARS),
    "a text": _node(lambda bad, x, encode: _input(Argument(as_string=bad)), IN_TREES | OWN_SCALARS),
    "an object's name": _node(
        lambda bad, x, encode: _input(Argument(as_custom_obj=CustomObjArgument(bad, "c")))
    ),
    "a mapping": _node(lambda bad, x, encode: _input(Argument(as_string_to_argument={"a": bad}))),
    "an input's name": _node(lambda bad, x, encode: _input(x, name=bad)),
    "what is to be encoded": _node(
        lambda bad, x, encode: _input(encode(bad)), {name: NO_DATA[name] for name in _UNSAID}, ""
    ),
    "a document": Entry(
        "wire_format",
        _Format,
        lambda bad: _relu(),
        {k: v for k, v in IN_TREES.items() if k not in ("a bytearray", "a memoryview")},
        "entry_format",
    ),
}


def _box_program() -> Any:
    program = _relu()
    signature = program.module_call_graph[0].signature
    signature.out_spec = pytree.TreeSpec(_Box, None, [pytree.LeafSpec()])
    return program


def test_every_hook_that_gives_data_has_an_entry() -> None:
    # What an upgrader writes is checked as it writes it (tests/evolve/test_editor.py), and what a store returns by the rules of
    # a load (tests/api/test_weights.py). A command gives no data to a document.
    assert {entry.hook for entry in ENTRIES.values()} | {"command", "opset_upgrader", "weight_store"} == {
        hook.kind for hook in HOOKS
    }


@pytest.mark.parametrize("name", one_in(3, ENTRIES))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_no_data_is_refused_where_it_enters(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    options: dict[str, Any] = {"format": "entry_format"} if entry.hook == "wire_format" else {}
    for what, bad in entry.table.items():
        registry, program = registry_with(**{f"{entry.hook}s": [entry.provider(bad)]}), entry.program(bad)
        try:
            graphwire.save(program, tmp_path / "kept.pt2", registry=registry, **options)
        except (EncodeError, FormatError) as error:
            told = error
        else:
            pytest.fail(f"{what} passes")
        assert re.search(entry.named, str(told)), (what, told)
        assert options or (isinstance(told, EncodeError) and told.place), (what, told)
        assert list(tmp_path.iterdir()) == [], what
