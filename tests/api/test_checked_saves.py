"""A save is checked as it is made: what a load would refuse is an error now, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with

import graphwire
from graphwire.errors import EncodeError
from graphwire.hooks import Registry
from graphwire.schema import Argument, GraphArgument, NamedArgument, SymIntArgument, TensorArgument

_LIBRARY = torch.library.Library("graphwire_saves", "DEF")
_LIBRARY.define("same(Tensor self) -> Tensor")
_LIBRARY.impl("same", torch.clone, "CompositeExplicitAutograd")


class _Handler:
    """A handler of one operator that writes what a test says."""

    namespace = "own"
    prefixes = ("torch.ops.graphwire_saves.",)
    opset_version = 0
    convention = "schema"

    def __init__(self, inputs: Any, name: Any = "torch.ops.graphwire_saves.same.default") -> None:
        self._inputs, self._name = inputs, name

    def name_of(self, target: Any) -> Any:
        return self._name if target is torch.ops.graphwire_saves.same.default else None

    def resolve(self, name: str) -> Any:
        return torch.ops.graphwire_saves.same.default

    def encode_node(self, target: Any, args: Any, kwargs: Any, encode: Any) -> Any:
        return self._inputs

    def decode_node(self, target: Any, inputs: Any, decode: Any) -> Any:
        return None


def _registry(handler: Any) -> Registry:
    return registry_with(op_handlers=[handler])


def _argument(**variants: Any) -> list[NamedArgument]:
    return [NamedArgument("self", Argument(**variants))]


X = TensorArgument("x")
BROKEN: dict[str, Any] = {
    "no variant": _argument(),
    "two variants": _argument(as_tensor=X, as_int=3),
    "a value that nothing makes": _argument(as_tensor=TensorArgument("nobody")),
    "a value of another kind": _argument(as_sym_int=SymIntArgument(as_name="x")),
    "a name that is no argument's": [NamedArgument("not a name", Argument(as_tensor=X))],
    "a name twice": _argument(as_tensor=X) * 2,
    "a device that cannot be": _argument(as_device=graphwire.schema.Device("no where", 0)),
    "a constant that is a path": _argument(as_constant="../../etc"),
    "no records": ["x"],
    "no list": 3,
    "an argument that is none": [NamedArgument("self", "x")],  # type: ignore[arg-type]
    "an integer that is none": _argument(as_int="3"),
    "a set of integers": _argument(as_ints={1, 2}),
    "a text that is none": _argument(as_string=3),
    "a graph that is none": _argument(as_graph=GraphArgument("g", None)),  # type: ignore[arg-type]
    "an input name that is none": [NamedArgument(3, Argument(as_tensor=X))],  # type: ignore[arg-type]
    "a mapping that is none": _argument(as_string_to_argument={1: Argument(as_int=3)}),
}


@pytest.fixture(scope="module")
def program() -> Any:
    class Same(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.graphwire_saves.same(x)

    return torch.export.export(Same(), (torch.ones(2),))


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("format", ["json", "cbor"])
def test_records_that_a_load_refuses_are_not_written(
    name: str, format: str, program: Any, tmp_path: Path
) -> None:
    file = tmp_path / "kept.pt2"
    file.write_bytes(b"before")
    with pytest.raises(EncodeError) as caught:
        graphwire.save(program, file, format=format, registry=_registry(_Handler(BROKEN[name])))
    assert caught.value.remedy
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_the_error_says_at_which_node(program: Any) -> None:
    handler = _Handler(BROKEN["a value that nothing makes"])
    with pytest.raises(EncodeError, match=r"nodes\[0\].*'nobody'.*torch\.ops\.graphwire_saves\.same"):
        graphwire.dumps(program, registry=_registry(handler))


def test_a_weight_that_is_not_there_is_told_at_save() -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    del program.state_dict["bias"]
    with pytest.raises(EncodeError, match="bias"):
        graphwire.to_schema(program)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "", "__class__", "a..b", "x" * 5000, "\ud800"])
@pytest.mark.parametrize("home", ["state_dict", "constants"])
def test_a_name_that_no_attribute_has_is_told_at_save(name: str, home: str) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    getattr(program, home)[name] = torch.ones(1)
    with pytest.raises(EncodeError, match=r"not an attribute path|names nothing|4,096|surrogate"):
        graphwire.dumps(program)
