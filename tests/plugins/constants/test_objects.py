"""Constants that consist of other tensors, or are objects: what their codecs keep, and what they refuse."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from graphwire.errors import DecodeError, EncodeError, UnknownTypeError
from graphwire.testing import assert_same_values
from graphwire_plugins.constants import JaggedTensors, PlainSubclasses, QuantizedTensors, TensorSubclasses
from graphwire_plugins.object_codecs import ScriptObjects, decode_data, encode_data


class Mode(enum.Enum):
    """An enum that lives in this process."""

    FAST = "fast"


@dataclasses.dataclass(frozen=True)
class Layout:
    """A dataclass that this process declares."""

    rows: int
    names: tuple[str, ...]


class Range(NamedTuple):
    """A namedtuple that this process declares."""

    low: int
    high: int


class Undeclared:
    """A class that nobody declares."""


VALUES: dict[str, Any] = {
    "numbers": [1, -(2**70), 0.1, float("inf"), True, None, 1 + 2j],
    "text and bytes": ("", "text", b"\x00\xff"),
    "containers": {"a": [(), {1: {2.5: None}}], (1, "b"): {3, 4}, None: frozenset({5})},
    "torch's own": [
        torch.float8_e4m3fn,
        torch.device("cuda:1"),
        torch.strided,
        torch.channels_last,
        torch.Size([2]),
    ],
    "an enum": Mode.FAST,
    "a dataclass": Layout(2, ("a", "b")),
    "a namedtuple": Range(1, 2),
    "a class": Layout,
}


@pytest.fixture
def declared() -> Any:
    """This module's classes, declared to torch as it asks for: alone, or with a name."""
    with torch.serialization.safe_globals([Layout, (Range, f"{__name__}.Range")]):
        yield


@pytest.mark.parametrize("name", VALUES)
def test_data_comes_back_with_its_types(name: str, declared: Any) -> None:
    tensors: list[Any] = []
    again = decode_data(encode_data(VALUES[name], tensors), tensors)
    assert again == VALUES[name]
    assert repr(again) == repr(VALUES[name])


def test_tensors_in_data_are_found_by_position() -> None:
    first, second = torch.ones(2), torch.zeros(3)
    tensors: list[Any] = []
    tree = encode_data({"a": first, "b": (second, first)}, tensors)
    again = decode_data(tree, tensors)
    assert again["a"] is first
    assert again["b"][0] is second


def test_what_nobody_declares_is_refused_with_the_line_that_declares_it() -> None:
    with pytest.raises(EncodeError, match="Undeclared is not data") as caught:
        encode_data([Undeclared()], [])
    assert "add_safe_globals" in str(caught.value)
    with pytest.raises(UnknownTypeError, match=r"'os\.system' is not declared"):
        decode_data({"object": "os.system", "state": ["true"]}, [])
    with pytest.raises(UnknownTypeError):
        decode_data({"declared": "builtins.eval"}, [])


@pytest.mark.parametrize(
    "tree",
    [
        {"tensor": 0},
        {"tensor": -1},
        {"tensor": True, "more": 1},
        {"dtype": "ones"},
        {"dtype": "__builtins__"},
        {"device": "nowhere"},
        {"layout": "float32"},
        {"tuple": 3},
        {"dict": [[1]]},
        {"complex": ["a", "b"]},
        {},
    ],
)
def test_trees_that_are_no_data_are_refused(tree: Any) -> None:
    with pytest.raises(DecodeError):
        decode_data(tree, [])


def test_a_subclass_that_this_process_does_not_have_is_named() -> None:
    tree, tensors = TensorSubclasses().encode(TwoTensor(torch.ones(1), torch.ones(1)))
    for name in ("somewhere.Else", "torch.Tensor", "os.system"):
        with pytest.raises(UnknownTypeError, match=name):
            TensorSubclasses().decode({**tree, "class": name}, tensors)  # type: ignore[dict-item]


class Annotated(torch.nn.Parameter):
    """A parameter with attributes."""

    axes: tuple[str, ...]


def test_a_subclass_with_elements_of_its_own_comes_back_over_the_same_memory() -> None:
    codec, value = PlainSubclasses(), Annotated(torch.arange(3.0))
    value.axes = ("rows",)
    assert codec.owns(value)
    again = codec.decode(*codec.encode(value))
    assert type(again) is Annotated
    assert isinstance(again, torch.nn.Parameter)
    assert (again.axes, again.requires_grad) == (("rows",), True)
    assert again.data_ptr() == value.data_ptr()
    assert not any(codec.owns(other) for other in (torch.ones(3), torch.nn.Parameter(torch.ones(3))))


def test_an_attribute_that_is_no_data_is_refused() -> None:
    value = Annotated(torch.arange(3.0))
    value.load = lambda tensor: tensor  # type: ignore[attr-defined]
    with pytest.raises(EncodeError, match="is not data"):
        PlainSubclasses().encode(value)


@pytest.mark.parametrize(
    "change",
    [
        {"class": "torch.testing._internal.two_tensor.TwoTensor"},
        {"class": None},
        {"state": [1]},
        {"state": {"dict": [[1, 2]]}},
    ],
)
def test_a_subclass_over_elements_that_is_described_wrongly_is_refused(change: dict[str, Any]) -> None:
    tree, tensors = PlainSubclasses().encode(Annotated(torch.ones(1)))
    with pytest.raises(DecodeError):
        PlainSubclasses().decode({**tree, **change}, tensors)  # type: ignore[dict-item]


def test_a_jagged_tensor_with_gaps_comes_back() -> None:
    offsets, lengths = torch.tensor([0, 2, 5]), torch.tensor([1, 3])
    value = torch.nested.nested_tensor_from_jagged(torch.arange(10.0).reshape(5, 2), offsets, lengths)
    again = JaggedTensors().decode(*JaggedTensors().encode(value))
    assert_same_values(
        (again.values(), again.offsets(), again.lengths()), (value.values(), value.offsets(), value.lengths())
    )


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 2, 9], [-1, 2, 5]])
def test_offsets_beyond_the_elements_are_refused(offsets: list[int]) -> None:
    value = torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor([0, 2, 5]))
    tree, (values, _) = JaggedTensors().encode(value)
    with pytest.raises(DecodeError, match="do not lie within its elements"):
        JaggedTensors().decode(tree, [values, torch.tensor(offsets)])


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantized_tensors_keep_their_scheme() -> None:
    codec = QuantizedTensors()
    for value in (
        torch.quantize_per_tensor(torch.arange(4.0), 0.5, 3, torch.quint8),
        torch.quantize_per_channel(
            torch.ones(2, 2),
            torch.tensor([0.5, 0.1], dtype=torch.float64),
            torch.tensor([0, 1]),
            1,
            torch.qint8,
        ),
    ):
        again = codec.decode(*codec.encode(value))
        assert again.qscheme() == value.qscheme()
        assert_same_values(again, value)
    with pytest.raises(DecodeError):
        codec.decode({"scheme": "per_tensor", "scale": "x", "zero_point": 0}, [torch.ones(1)])


@pytest.mark.parametrize("name", ["__torch__.Nothing", "os.system", "__torch__.torch.classes.none.Such"])
def test_a_script_class_that_torch_does_not_have_is_named(name: str) -> None:
    with pytest.raises(DecodeError, match=name):
        ScriptObjects().decode({"class": name, "state": [1]}, [])
