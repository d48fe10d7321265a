"""What plugins put into a file: torch's own reader reads it, or the file and `supports` say that it does not."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import torch
from documents_for_torch import obstacles_and_file, read_by_torch
from given_plugins import Plugin
from inside.registry import interfaces
from inside.schema import to_tree
from this_torch import RELEASE
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import GraphwireWarning, TargetError
from graphwire.hooks import MetadataKey, OpsetStep
from graphwire.schema import Argument, ArgumentKind, NamedArgument
from graphwire.testing import assert_same_values

TARGET = f"torch-{RELEASE[0]}.{RELEASE[1]}"
X = torch.arange(4.0).reshape(2, 2)


@torch.library.custom_op("graphwire_hooked::scale", mutates_args=())
def _scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@_scale.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


class _Handler:
    namespace = "graphwire_hooked"
    prefixes = ("torch.ops.graphwire_hooked.",)
    opset_version = 2
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any | None:
        operator = torch.ops.graphwire_hooked.scale.default
        return operator if name == "torch.ops.graphwire_hooked.scale.default" else None


class _OwnForm(_Handler):
    """Writes the factor as text."""

    def encode_node(
        self, target: Any, args: Any, kwargs: Any, encode: Callable[[Any], Argument]
    ) -> list[NamedArgument]:
        factor = Argument(as_string=str(args[1]))
        return [NamedArgument("x", encode(args[0]), ArgumentKind.POSITIONAL), NamedArgument("by", factor)]

    def decode_node(self, target: Any, inputs: Any, decode: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (decode(inputs[0].arg), float(inputs[1].arg.as_string)), {}


def _exported(forward: Callable[..., Any], **attributes: Any) -> ExportedProgram:
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: forward(self, x)})()
    for name, value in attributes.items():
        setattr(model, name, value)
    return export(model, (X,))


def _scaled() -> ExportedProgram:
    return _exported(lambda self, x: torch.ops.graphwire_hooked.scale(x, 2.5))


def _noted() -> ExportedProgram:
    program = _exported(lambda self, x: x + 1)
    for node in program.graph.nodes:
        node.meta["graphwire_hooked"] = ["kept"]
    return program


def _sparse() -> ExportedProgram:
    return _exported(lambda self, x: torch.sparse.mm(self.matrix, x), matrix=torch.eye(2).to_sparse())


class Case(NamedTuple):
    """A program with what a hook provides."""

    make: Callable[[], ExportedProgram]
    plugin: Any = None
    format: str = "json"
    is_read: bool = True
    """Whether torch's own reader reads what a target writes, or in the format given."""


CASES: dict[str, list[Case]] = {
    "graphwire_wire_formats": [Case(_scaled), Case(_scaled, format="msgpack", is_read=False)],
    "graphwire_op_handlers": [
        Case(_scaled, Plugin(op_handlers=[_Handler()])),
        Case(_scaled, Plugin(op_handlers=[_OwnForm()]), is_read=False),
    ],
    "graphwire_opset_upgraders": [
        Case(
            _scaled,
            Plugin(
                op_handlers=[_Handler()],
                opset_upgraders=[OpsetStep("graphwire_hooked", 1, 2)],
            ),
        )
    ],
    "graphwire_treespec_serializers": [
        Case(lambda: _exported(lambda self, x: {"a": x + 1})),
        Case(lambda: _exported(lambda self, x: {(1, 2): x + 1}), is_read=False),
        Case(lambda: _exported(lambda self, x: x.topk(1)), is_read=False),
    ],
    "graphwire_constant_codecs": [Case(_sparse, is_read=False)],
    "graphwire_metadata_keys": [Case(_noted, Plugin(metadata_keys=[MetadataKey("graphwire_hooked")]))],
    "graphwire_weight_stores": [
        Case(_scaled)
    ],  # weights outside of the file are asked for, and torch reads none
    "graphwire_commands": [Case(_scaled)],  # files are what they are without them
}
"""Programs for each hook."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_hook_has_a_case() -> None:
    hooks = {
        name
        for name, _ in inspect.getmembers(interfaces, inspect.isfunction)
        if name.startswith("graphwire_")
    }
    assert set(CASES) == hooks


@pytest.mark.skipif(RELEASE < (2, 12), reason="an older torch does not read what is written by default")
@pytest.mark.parametrize(
    "case",
    [case for cases in CASES.values() for case in cases],
    ids=[name for name, cases in CASES.items() for _ in cases],
)
def test_what_a_hook_provides_is_read_by_torch_or_said_not_to_be(case: Case) -> None:
    program = case.make()
    registry = graphwire.Registry.discover()
    registry = registry if case.plugin is None else registry.extended(case.plugin)
    record, _ = graphwire.to_schema(program, registry=registry)
    data = graphwire.dumps(program, format=case.format, registry=registry)
    with graphwire.open(data, registry=registry) as archive:
        noted = archive.program.readable_from
    assert noted == ("torch-2.9" if case.is_read else "graphwire-0.1")
    expected = program.module()(X)
    theirs = read_by_torch(data)
    assert (theirs is not None and _computes(theirs, expected)) is case.is_read
    if case.format != "json":
        return
    obstacles = graphwire.supports(program, TARGET, registry=registry)
    assert (not obstacles) is case.is_read
    if case.is_read:
        loses = case.make is _noted  # inputs and outputs of torch's schema have no metadata
        with pytest.warns(GraphwireWarning, match="metadata keys") if loses else nullcontext():
            data = graphwire.dumps(program, target=TARGET, registry=registry)
        written = read_by_torch(data)
        assert written is not None
        assert _computes(written, expected)
        return
    assert {each.first for each in obstacles} == {"graphwire"}
    with pytest.raises(TargetError):
        graphwire.dumps(program, target=TARGET, registry=registry)
    forced = read_by_torch(obstacles_and_file(to_tree(record), TARGET)[1])
    assert forced is None or not _computes(forced, expected)


def _computes(program: ExportedProgram, expected: Any) -> bool:
    try:
        assert_same_values(program.module()(X), expected)
    except Exception:
        return False
    return True
