"""Whatever somebody puts into an attribute of a program, a save keeps it or says what is wrong with it, and where."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attribute_differences import lost_attributes
from hypothesis import given, settings, strategies as st
from inside.api import DEFECT
from inside.bridge import edited_attributes_named
from named_losses import forget_named
from nightly import by_day
from small_programs import SMALL_PROGRAMS
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.utils._pytree import TreeSpec

import graphwire
from graphwire.errors import EncodeError, GraphwireError, GraphwireWarning

Edit = Callable[[ExportedProgram, Any], None]


class _Everything(nn.Module):
    """Parameters, a buffer that changes, a constant, literals, symbols, a condition and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.count = nn.Buffer(torch.ones(4))
        self.fixed = torch.ones(4)

    def forward(self, x: Tensor, n: int) -> Any:
        self.count.add_(1)
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        part, _ = torch.split(y, [2, 2], 1)
        return {"y": self.inner(y) + self.fixed + self.count, "part": part}, x.size(0) * 2


_PROGRAM = export(_Everything(), (torch.ones(3, 4), 3), dynamic_shapes={"x": {0: Dim.AUTO}, "n": None})


class _Stubborn:
    """An object that fails at whatever it is asked."""

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def _fail(self, *_: Any) -> Any:
        raise ZeroDivisionError

    __eq__ = __bool__ = __len__ = __iter__ = __repr__ = __str__ = _fail


@dataclasses.dataclass(frozen=True)
class _Holder:
    held: Any


def _shared(make: Callable[[Any], Any]) -> Any:
    """Sixty levels, each of which holds the next twice."""
    value: Any = 0
    for _ in range(60):
        value = make(value)
    return value


_NEST = _shared(lambda each: (each, each))
_JUNK = {
    "None": None,
    "an integer": 5,
    "a long integer": 10**5000,
    "a text": "x",
    "a surrogate": "\ud800",
    "a float": float("nan"),
    "bytes": b"x",
    "a list": [1],
    "a list of None": [None],
    "a dict": {1: 2},
    "a dict of objects": {"a": object()},
    "a dict of nothing": {None: None},
    "a tuple": (1, 2),
    "an object": object(),
    "a stubborn object": _Stubborn(),
    "a tensor": torch.ones(2),
    "a type": int,
    "a function": lambda: 0,
    "shared tuples": _NEST,
    "shared lists": _shared(lambda each: [each, each]),
    "shared dicts": _shared(lambda each: {"a": each, "b": each}),
    "shared objects": _shared(lambda each: _Holder((each, each))),
    "pairs of shared tuples": [("a", _NEST)],
    "entries of shared tuples": {"a": ("b", _NEST)},
}

_NESTS = {id(value) for name, value in _JUNK.items() if "shared" in name and name != "shared objects"}


def _attribute(owner: Callable[[ExportedProgram], Any], name: str) -> Edit:
    return lambda program, value: object.__setattr__(owner(program), name, value)


def _item(owner: Callable[[ExportedProgram], Any], key: Any) -> Edit:
    def edit(program: ExportedProgram, value: Any) -> None:
        owner(program)[key] = value

    return edit


def _new_key(owner: Callable[[ExportedProgram], Any]) -> Edit:
    def edit(program: ExportedProgram, value: Any) -> None:
        if not isinstance(value, (tuple, _Holder)):  # one that is shared cannot be hashed in a lifetime
            owner(program)[value] = next(iter(owner(program).values()))

    return edit


def _edits() -> Iterator[tuple[str, Edit]]:
    """A way to edit each attribute of a program that is read."""
    for name in ("graph_module", "graph_signature", "state_dict", "range_constraints", "module_call_graph", "example_inputs",
                 "constants", "verifiers", "guards_code"):  # fmt: skip
        yield name, _attribute(lambda program: program, f"_{name}")
    for name in ("state_dict", "constants", "range_constraints"):
        yield f"a key of {name}", _new_key(lambda program, name=name: getattr(program, name))
        for key in getattr(_PROGRAM, name):
            yield f"{name}[{key}]", _item(lambda program, name=name: getattr(program, name), key)
    yield "a verifier", _attribute(lambda program: program, "_verifiers")
    yield "a guard", lambda program, value: setattr(program, "_guards_code", [value])
    yield "an example input", lambda program, value: setattr(program, "_example_inputs", ((value,), {}))
    yield from _signature_edits()
    yield from _call_edits()
    for bound in ("lower", "upper"):
        yield (
            f"range.{bound}",
            _attribute(lambda program: next(iter(program.range_constraints.values())), bound),
        )
    for module in ("", "true_graph_0"):
        owner = lambda program, module=module: program.graph_module.get_submodule(module)  # noqa: E731
        yield f"{module}.meta", _attribute(owner, "meta")
        for key in ("custom", "inline_constraints", "val"):
            yield f"{module}.meta[{key}]", _item(lambda program, owner=owner: owner(program).meta, key)
        yield from _node_edits(module, owner)


def _signature_edits() -> Iterator[tuple[str, Edit]]:
    for side in ("input_specs", "output_specs"):
        yield side, _attribute(lambda program: program.graph_signature, side)
        for index, spec in enumerate(getattr(_PROGRAM.graph_signature, side)):
            specs = lambda program, side=side: getattr(program.graph_signature, side)  # noqa: E731
            yield f"{side}[{index}]", _item(specs, index)
            for name in vars(spec):
                yield f"{side}[{index}].{name}", _attribute(lambda p, specs=specs, i=index: specs(p)[i], name)
            for name in vars(spec.arg):
                yield (
                    f"{side}[{index}].arg.{name}",
                    _attribute(lambda p, specs=specs, i=index: specs(p)[i].arg, name),
                )


def _call_edits() -> Iterator[tuple[str, Edit]]:
    for index, call in enumerate(_PROGRAM.module_call_graph):
        yield f"calls[{index}]", _item(lambda program: program.module_call_graph, index)
        entry = lambda program, index=index: program.module_call_graph[index]  # noqa: E731
        yield f"calls[{index}].fqn", _attribute(entry, "fqn")
        yield f"calls[{index}].signature", _attribute(entry, "signature")
        for name in vars(call.signature) if call.signature else ():
            yield f"calls[{index}].{name}", _attribute(lambda p, entry=entry: entry(p).signature, name)
    first = lambda program: program.module_call_graph[0].signature  # noqa: E731
    yield "calls[0].inputs[0]", _item(lambda program: first(program).inputs, 0)
    # Their names differ between releases.
    for name in (each for each in TreeSpec.__annotations__ if not each.startswith("num_")):
        yield f"calls[0].in_spec.{name}", _attribute(lambda program: first(program).in_spec, name)


_META = ("val", "stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node", "unbacked_bindings",
         "tensor_meta", "seq_nr", "somebodys_own")  # fmt: skip


def _of_node(node: Callable[[ExportedProgram], Any], name: str) -> Edit:
    def edit(program: ExportedProgram, value: Any) -> None:
        if name == "meta" or id(value) not in _NESTS:  # torch walks them itself
            setattr(node(program), name, value)

    return edit


def _node_edits(module: str, owner: Callable[[ExportedProgram], Any]) -> Iterator[tuple[str, Edit]]:
    kinds = {
        node.op: index for index, node in enumerate(_PROGRAM.graph_module.get_submodule(module).graph.nodes)
    }
    for op, index in kinds.items():
        node = lambda program, index=index: list(owner(program).graph.nodes)[index]  # noqa: E731
        for name in ("target", "name", "meta", "args", "kwargs"):
            yield f"{module}.{op}.{name}", _of_node(node, name)
        for key in _META:
            yield f"{module}.{op}.meta[{key}]", _item(lambda program, node=node: node(program).meta, key)


_EDITS = dict(_edits())


@pytest.mark.parametrize("kind", _JUNK)
@settings(max_examples=by_day(5, by_night=50), deadline=None)
@given(data=st.data())
def test_junk_in_an_attribute_is_kept_named_or_refused(kind: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(sorted(_EDITS)))
    _check(place, kind)


def _copied() -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(_PROGRAM)


def _saved(program: ExportedProgram) -> tuple[bytes, str]:
    """A program's file, or why there is none."""
    try:
        return graphwire.dumps(program), ""
    except GraphwireError as error:
        return b"", str(error)


def _check(place: str, kind: str) -> None:
    program = _copied()
    try:
        _EDITS[place](program, _JUNK[kind])
    except Exception:  # torch itself does not let it in
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        data, refused = _saved(program)
        named = [str(each.message) for each in told if each.category is GraphwireWarning]
        loaded = graphwire.loads(data) if data else None
    assert DEFECT not in refused
    if loaded is not None:
        forget_named(named, program, loaded)
        assert lost_attributes(program, loaded) == [], named


@pytest.mark.parametrize(
    "name", ["range_constraints", ".meta[inline_constraints]", "module_call_graph", "input_specs[0].arg.name"]
)
def test_the_attribute_is_named(name: str) -> None:
    program = _copied()
    _EDITS[name](program, 5)
    with pytest.raises(EncodeError, match="torch") as caught:
        graphwire.dumps(program)
    assert (
        name.strip(".").replace("meta[inline_constraints]", "graph_module.meta['inline_constraints']")
        in caught.value.place
    )
    assert caught.value.remedy


@pytest.mark.parametrize("name", SMALL_PROGRAMS)
def test_a_program_that_nobody_edited_is_not_blamed(name: str) -> None:
    """Whatever release of torch made it."""
    program = SMALL_PROGRAMS[name]().program
    with pytest.raises(ZeroDivisionError), edited_attributes_named(program):
        raise ZeroDivisionError


def test_what_an_object_of_the_caller_raises_is_said_of_it() -> None:
    program = _copied()
    program.graph_module.meta["custom"] = {"a": _Stubborn()}
    with pytest.raises(EncodeError) as caught:
        graphwire.dumps(program)
    assert DEFECT not in str(caught.value)
