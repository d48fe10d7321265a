"""Whatever `save` accepts, `load` gives back in every format, and `verify` finds nothing: of programs with random weights and
constants, under random plugins, well-behaved or not."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from hypothesis import HealthCheck, event, given, settings, strategies as st
from nightly import by_day, one_in
from torch.testing._internal.two_tensor import TwoTensor

import graphwire
from graphwire.errors import DecodeError, EncodeError, FormatError
from graphwire.hooks import MetadataKey, default_registry
from graphwire.testing import assert_same_values

FORMATS = sorted(default_registry().wire_formats)
_DENSE = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])


class Labelled(torch.Tensor):
    """A subclass that holds its elements, and attributes."""


class Note:
    """An object that a codec of a test owns."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


class Count(torch.Tensor):
    """A tensor that its sizes alone describe."""

    @staticmethod
    def __new__(cls, rows: int) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (rows, 2))

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.detach.default:
            return Count(args[0].shape[0])
        full = [torch.zeros(each.shape) if isinstance(each, Count) else each for each in args]
        return function(*full, **(kwargs or {}))


def _labelled(note: Any) -> Any:
    value = torch.ones(2).as_subclass(Labelled)
    value.note = note  # type: ignore[attr-defined]
    return value


def _marked() -> Any:
    value = torch.nn.Parameter(torch.ones(2))
    value.no_decay = True  # type: ignore[attr-defined]
    return value


def _quantized() -> Any:
    return torch._empty_affine_quantized([2], scale=0.5, zero_point=3, dtype=torch.quint8).fill_(1)


BASE = torch.arange(24.0)
VALUES: tuple[Callable[[], Any], ...] = (
    lambda: torch.nn.Parameter(torch.ones(2)),
    lambda: torch.nn.Parameter(torch.ones(2), requires_grad=False),
    _marked,
    lambda: torch.ones(2, requires_grad=True),
    lambda: torch.nn.Buffer(torch.ones(2)),
    lambda: torch.nn.Buffer(torch.ones(2), persistent=False),
    lambda: BASE[3:9],
    lambda: BASE.view(4, 6).t(),
    lambda: torch.nn.Parameter(BASE[2:4]),
    lambda: torch.ones(1).expand(3, 2),
    lambda: torch.ones(2, dtype=torch.complex64).conj(),
    lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
    lambda: torch.tensor(True),
    lambda: torch.ones(0),
    lambda: torch.ones(3, 0, 2),
    lambda: torch.tensor(2.5),
    lambda: torch.tensor([math.inf, math.nan]),
    lambda: torch.ones(2, 3, device="meta"),
    lambda: torch.nn.Parameter(torch.ones(2, device="meta")),
    lambda: torch.ones(2, dtype=torch.bfloat16),
    lambda: torch.ones(2).to(torch.float8_e4m3fn),
    lambda: _DENSE.to_sparse(),
    lambda: _DENSE.to_sparse().requires_grad_(),
    lambda: torch.nn.Parameter(_DENSE.to_sparse()),
    lambda: _DENSE.to_sparse_csr(),
    lambda: _DENSE.to_sparse().to("meta"),
    lambda: torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.ones(2), (1,)),
    lambda: torch.sparse_coo_tensor(torch.zeros(0, 1, dtype=torch.int64), torch.ones(1), ()),
    _quantized,
    lambda: torch.nn.Parameter(_quantized(), requires_grad=False),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
    lambda: TwoTensor(torch.ones(2), torch.zeros(2)),
    lambda: TwoTensor(BASE[:2], BASE[:2]),
    lambda: TwoTensor(TwoTensor(BASE[:2], BASE[:2]), torch.ones(2)),
    lambda: TwoTensor(_labelled(1), torch.ones(2)),
    lambda: torch.nn.Parameter(TwoTensor(torch.ones(2), torch.ones(2))),
    lambda: torch.nn.Parameter(TwoTensor(torch.ones(2), torch.ones(2)), requires_grad=False),
    lambda: _labelled({"a": (1, torch.float32), "t": torch.ones(2)}),
    lambda: _labelled(object()),
    lambda: _labelled({1, 2.5, None}),
    lambda: _labelled({"deep": [[[[(((1,),),)]]]]}),
    lambda: Count(0),
    lambda: Count(3).requires_grad_(),
    lambda: torch.nn.Parameter(Count(2)),
    lambda: Note(None),
    lambda: Note({"a": [1, math.inf, "\u00e4", b"x", -(2**70)]}),
    lambda: Note((1, 2)),
    lambda: Note({1, 2}),
    lambda: object(),
    lambda: 3,
    lambda: None,
)
NAMES = ("a", "a.b", "a#0", "a#1", "weight", "b", "b#0", "x")


class _Codec:
    name = "random"

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def owns(self, value: Any) -> bool:
        if self._fault == "owns raises":
            raise ZeroDivisionError("of the plugin")
        return type(value) in (Count, Note, Boxed) or (
            self._fault == "greedy" and isinstance(value, torch.Tensor)
        )

    def encode(self, value: Any) -> Any:
        if self._fault == "encode raises":
            raise ZeroDivisionError("of the plugin")
        if isinstance(value, Boxed):
            return ["boxed", None], [value.value]
        if isinstance(value, Note):
            return ["note", value.tree], []
        tree = ["count", value.shape[0]]
        return tree, (torch.ones(1) for _ in range(1)) if self._fault == "a generator of parts" else []

    def decode(self, tree: Any, tensors: Any) -> Any:
        kind, value = tree
        if self._fault == "eats its tree":
            tree.clear()
        if kind == "boxed":
            return Boxed(tensors[0])
        if self._fault == "decode raises":
            raise KeyError("of the plugin")
        if self._fault == "another kind":
            return torch.ones(value, 2) if kind == "note" else Note(value)
        return Count(value) if kind == "count" else Note(value)


FAULTS = (
    *("none",) * 6,
    *(
        "owns raises",
        "encode raises",
        "decode raises",
        "greedy",
        "a generator of parts",
        "eats its tree",
        "another kind",
    ),
)


REGISTRIES = {
    fault: registry_with(constant_codecs=[_Codec(fault)], metadata_keys=[MetadataKey("own_key")])
    for fault in FAULTS
}
METADATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just(torch.Size([1])),
    lambda each: (
        st.lists(each, max_size=3)
        | st.tuples(each, each)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(st.booleans()), each, max_size=3)
    ),
    max_leaves=8,
)
slow = settings(
    deadline=None,
    max_examples=by_day(12, by_night=settings().max_examples // 2),
    suppress_health_check=[HealthCheck.too_slow],
)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("table", torch.ones(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.table + torch.tensor([1.0, 2.0])


EXPORTED = torch.export.export(Model(), (torch.ones(2),))


class Boxed:
    """An object that consists of another value."""

    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(("home", "name"), [("_state_dict", "a"), ("_constants", "weight")])
@pytest.mark.parametrize("format", one_in(3, FORMATS))
@pytest.mark.filterwarnings("ignore")
def test_every_value_is_loaded_or_refused(format: str, home: str, name: str) -> None:
    """Each alone, under a name of its own or, among the constants, under that of a parameter."""
    for make in VALUES:
        program = copy.deepcopy(EXPORTED)
        getattr(program, home)[name] = make()
        try:
            written = graphwire.dumps(program, format=format, registry=REGISTRIES["none"])
        except (EncodeError, FormatError):
            continue
        assert graphwire.verify(written, registry=REGISTRIES["none"]) == []
        _assert_same(graphwire.loads(written, registry=REGISTRIES["none"]), program)
        if getattr(make(), "is_quantized", False) and home == "_state_dict":
            with pytest.raises(DecodeError, match="no quantized tensors without elements"):
                graphwire.loads(written, weights=None, registry=REGISTRIES["none"])
            continue
        bare = graphwire.loads(written, weights=None, registry=REGISTRIES["none"])
        for (one, value), (other, full) in zip(_held(bare), _held(program), strict=True):
            assert (one, type(value)) == (other, type(full))


def test_a_constant_is_the_same_object_as_a_constant_and_not_as_the_weight_of_its_name() -> None:
    program, count = copy.deepcopy(EXPORTED), Count(0)
    program._state_dict["a"] = torch.nn.Parameter(torch.ones(2))
    program._constants.update({"a": count, "a.b": count})
    for format in FORMATS:
        written = graphwire.dumps(program, format=format, registry=REGISTRIES["none"])
        loaded = graphwire.loads(written, registry=REGISTRIES["none"])
        _assert_same(loaded, program)
        assert loaded.constants["a"] is loaded.constants["a.b"]


def test_order_and_values_of_parts_without_tensors_are_kept() -> None:
    program, pair = copy.deepcopy(EXPORTED), TwoTensor(torch.ones(2), torch.ones(2))
    first, seven = Count(2), "abcdefg"
    values = (first, torch.ones(1), pair, pair, torch.ones(3), first, torch.ones(1))
    program.state_dict.update(zip(seven, values, strict=True))
    program._constants.update({f"of_{name}": value for name, value in zip(seven, values, strict=True)})
    program._constants.update(x=Boxed(Count(1)), y=torch.ones(1), z=Boxed(pair))
    loaded = graphwire.loads(
        graphwire.dumps(program, registry=REGISTRIES["none"]), registry=REGISTRIES["none"]
    )
    _assert_same(loaded, program)
    assert loaded.constants["z"].value is loaded.state_dict["c"]
    assert type(loaded.constants["x"].value) is Count


@pytest.mark.filterwarnings("ignore")
def test_parts_have_no_name_that_another_value_has() -> None:
    for homes in itertools.product(("_state_dict", "_constants"), repeat=3):
        program = copy.deepcopy(EXPORTED)
        for home, name in zip(homes, ("a", "a#1", "a#0"), strict=True):
            getattr(program, home)[name] = TwoTensor(torch.ones(2), torch.zeros(2))
        loaded = graphwire.loads(graphwire.dumps(program))
        _assert_same(loaded, program)


@pytest.mark.skipif(
    settings().max_examples <= 100, reason="many programs, each in every format: `make test-nightly`"
)
@slow
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_what_is_accepted_is_loaded(data: st.DataObject) -> None:
    program = copy.deepcopy(EXPORTED)
    values = [make() for make in data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4))]
    places = st.tuples(
        st.sampled_from(("_state_dict", "_constants")), st.sampled_from(NAMES), st.sampled_from(values)
    )
    for home, name, value in data.draw(st.lists(places, min_size=1, max_size=6)):
        held = getattr(program, home)
        if data.draw(st.booleans()):
            held.pop(name, None)  # comes last again
        held[name] = value
    if data.draw(st.booleans()):
        node = next(each for each in program.graph.nodes if each.op == "call_function")
        node.meta["own_key"] = program.graph_module.meta["own_key"] = data.draw(METADATA)
    registry = REGISTRIES[data.draw(st.sampled_from(FAULTS))]
    for format in FORMATS:
        try:
            written = graphwire.dumps(program, format=format, registry=registry)
        except (EncodeError, FormatError):
            event("refused")
            continue
        event("accepted")
        assert graphwire.verify(written, registry=registry) == []
        loaded = graphwire.loads(written, registry=registry)
        _assert_same(loaded, program)
        # Nothing is worn by the way: what was loaded is saved, too.
        again = graphwire.loads(graphwire.dumps(loaded, format=format, registry=registry), registry=registry)
        _assert_same(again, program)


def _assert_same(loaded: Any, program: Any) -> None:
    for home in ("state_dict", "constants"):
        assert [*getattr(loaded, home)] == [*getattr(program, home)]
    for (name, one), (_, other) in zip(_held(loaded), _held(program), strict=True):
        assert type(one) is type(other), name
        if isinstance(other, Boxed):
            continue
        if isinstance(other, Note):
            assert repr(one.tree) == repr(other.tree)
            continue
        assert isinstance(one, torch.nn.Parameter) == isinstance(other, torch.nn.Parameter), name
        assert (one.requires_grad, one.dtype, one.layout) == (other.requires_grad, other.dtype, other.layout)
        assert other.is_nested or one.shape == other.shape  # whose lengths have a symbol of their own
        if type(other) in (torch.Tensor, torch.nn.Parameter) and not other.is_meta and not other.is_nested:
            assert_same_values(one, other)
    # What was one object is one again, and nothing else is.
    assert _same(_held(loaded)) == _same(_held(program))
    for one, other in zip(loaded.graph.nodes, program.graph.nodes, strict=True):
        assert repr(one.meta.get("own_key")) == repr(other.meta.get("own_key"))


def _held(program: Any) -> list[tuple[str, Any]]:
    return [*program.state_dict.items(), *program.constants.items()]


def _same(held: list[tuple[str, Any]]) -> list[int]:
    return [next(index for index, (_, other) in enumerate(held) if other is one) for _, one in held]
