"""A provider that fails when it is asked, or answers with what is none: an error of ours that says whose it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphwire
from graphwire.errors import (
    DecodeError,
    EncodeError,
    FormatError,
    GraphwireError,
    PluginError,
    UnknownOperatorError,
)
from graphwire.hooks import Registry


def fails(*_: Any) -> Any:
    raise RuntimeError("of the plugin")


def made(**members: Any) -> Any:
    """An object with these members; functions are its methods."""
    return type("Provider", (), {k: staticmethod(v) if callable(v) else v for k, v in members.items()})()


FORMAT = {
    "name": "failing",
    "suffix": ".failing",
    "media_type": "application/x",
    "encode": lambda tree: b"x",
    "decode": fails,
    "matches": lambda head: False,
}
HANDLER = {
    "namespace": "failing",
    "prefixes": ("torch.ops.gw_failing.",),
    "opset_version": 0,
    "convention": "schema",
    "name_of": lambda target: None,
    "resolve": lambda name: None,
}
CODEC = {
    "name": "failing",
    "owns": lambda value: isinstance(value, torch.Tensor) and value.is_sparse,
    "encode": lambda value: ({}, []),
    "decode": fails,
}


def registry(hook: str, members: dict[str, Any]) -> Registry:
    plugin = type("Plugin", (), {hook: graphwire.hookimpl(lambda self: [made(**members)])})
    # pluggy looks for the hook by its function's name.
    getattr(plugin, hook).__name__ = hook
    return Registry.discover().extended(plugin())


@torch.library.custom_op("gw_failing::relu", mutates_args=())
def relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@relu.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return relu(x)


@pytest.fixture(scope="module")
def program() -> Any:
    program = torch.export.export(Model(), (torch.ones(2),))
    program.constants["sparse"] = torch.ones(2, 2).to_sparse()
    return program


def saves(program: Any, registry: Registry) -> Any:
    return graphwire.dumps(program, registry=registry)


def loads(program: Any, registry: Registry) -> Any:
    return graphwire.loads(graphwire.dumps(program), registry=registry)


def comes_back(program: Any, registry: Registry) -> Any:
    return graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)


def loads_with(program: Any, registry: Registry) -> Any:
    record, payloads = graphwire.to_schema(program)
    record.encoded_values["sparse"].codec = "failing"
    return graphwire.from_schema(record, payloads, registry=registry)


def in_format(program: Any, registry: Registry) -> Any:
    return graphwire.loads(graphwire.dumps(program, format="failing", registry=registry), registry=registry)


def detected(program: Any, registry: Registry) -> Any:
    document = graphwire.encode(graphwire.to_schema(program)[0])
    return graphwire.decode(document, registry=registry)


FORMATS, HANDLERS, CODECS = (
    "graphwire_wire_formats",
    "graphwire_op_handlers",
    "graphwire_constant_codecs",
)
CASES: list[tuple[str, dict[str, Any], Callable[[Any, Registry], Any], type[GraphwireError], str]] = [
    (FORMATS, FORMAT | {"encode": fails}, in_format, FormatError, "failing .*of the plugin"),
    (FORMATS, FORMAT | {"encode": lambda tree: "text"}, in_format, FormatError, "failing returns a str"),
    (FORMATS, FORMAT, in_format, FormatError, "not a failing document .of the plugin"),
    (FORMATS, FORMAT | {"decode": lambda data: {1}}, in_format, FormatError, "a set is not a type"),
    (FORMATS, FORMAT | {"suffix": "x.y"}, saves, PluginError, "`suffix` is 'x.y', not a dot"),
    (HANDLERS, HANDLER | {"resolve": fails}, loads, UnknownOperatorError, "`resolve` .*'failing' of plugin `Plugin` fails"),
    (HANDLERS, HANDLER | {"resolve": lambda name: "text"}, loads, PluginError, "returns 'text' for .*, which has no schema"),
    (HANDLERS, HANDLER | {"convention": "own"}, loads, PluginError, "'own', not schema, symbolic or generic"),
    (CODECS, CODEC | {"encode": fails}, saves, EncodeError, "sparse: the constant codec failing fails"),
    (CODECS, CODEC | {"encode": lambda value: 3}, saves, EncodeError, "the constant codec failing fails"),
    (CODECS, CODEC, saves, EncodeError, "the constant codec failing fails: RuntimeError: of the plugin"),
    (CODECS, CODEC, loads_with, DecodeError, "the constant codec failing fails: RuntimeError: of the plugin"),
]  # fmt: skip


@pytest.mark.parametrize(("hook", "members", "act", "kind", "match"), CASES)
def test_the_error_says_whose_it_is(
    hook: str,
    members: dict[str, Any],
    act: Callable[[Any, Registry], Any],
    kind: type[GraphwireError],
    match: str,
    program: Any,
) -> None:
    with pytest.raises(kind, match=match):
        act(program, registry(hook, members))


@pytest.mark.parametrize(
    ("hook", "members", "act"),
    [
        (FORMATS, FORMAT | {"matches": fails}, detected),
        (HANDLERS, HANDLER | {"prefixes": ("torch.ops.other.",), "name_of": fails}, comes_back),
        (HANDLERS, HANDLER | {"prefixes": ("torch.ops.other.",), "resolve": fails}, comes_back),
    ],
)
def test_others_are_not_disturbed(
    hook: str, members: dict[str, Any], act: Callable[[Any, Registry], Any], program: Any
) -> None:
    assert act(program, registry(hook, members)) is not None
