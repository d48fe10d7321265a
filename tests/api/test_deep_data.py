"""Whatever users keep in a program, however deep it is or however much of it is shared: a save works, and loads, or raises an
error of graphwire with its place and a remedy, leaves the old file, and nothing beside it."""

from __future__ import annotations

import copy
import functools
import operator
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.wire import check_expanded_size
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import GraphwireError

X = torch.ones(2, 3)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x * self.weight, x])


@functools.cache
def _exported() -> ExportedProgram:
    return export(Model(), (X,), dynamic_shapes=({0: Dim("n", min=2)},))


def _call(program: ExportedProgram) -> torch.fx.Node:
    return next(node for node in program.graph.nodes if node.target is torch.ops.aten.cat.default)


Make = Callable[[Any], Any]
"""Puts a value into as many containers."""


def _argument(program: ExportedProgram, make: Make) -> None:
    _call(program).args = (make(_call(program).all_input_nodes[0]),)


def _meta(key: str, leaf: Any) -> Callable[[ExportedProgram, Make], None]:
    return lambda program, make: _call(program).meta.update({key: make(leaf)})


def _of_module(key: str) -> Callable[[ExportedProgram, Make], None]:
    return lambda program, make: program.graph_module.meta.update({key: make(3)})


def _examples(program: ExportedProgram, make: Make) -> None:
    program._example_inputs = ((make(X),), {})


def _output(program: ExportedProgram, make: Make) -> None:
    program.graph.output_node().args = (make(_call(program)),)


def _input_spec(program: ExportedProgram, make: Make) -> None:
    signature = program.module_call_graph[0].signature
    assert signature is not None
    signature.in_spec = pytree.tree_structure(((make(0),), {}))


def _module_stack(program: ExportedProgram, make: Make) -> None:
    _call(program).meta["nn_module_stack"] = {"k": (make("path"), "kind")}


def _long_module_stack(program: ExportedProgram) -> None:
    path = ".".join(["inner"] * 10_000)
    stack = {f"k{index}": (path[: 6 * index], torch.nn.Module) for index in range(200)}
    _call(program).meta["nn_module_stack"] = stack


def _size(program: ExportedProgram) -> None:
    """A size that many operations make, one of the other."""
    x = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == "x")
    size = x.meta["val"].shape[0]
    with x.meta["val"].fake_mode:
        for _ in range(30):
            size = (size * 2 + 1) // 3
        _call(program).meta["val"] = torch.empty(size, 3)


UNFOLDED = frozenset({_argument, _output, _input_spec})
"""Places that torch itself writes shared containers out in, when it is given them."""

PLACES: dict[str, Callable[[ExportedProgram, Make], None]] = {
    "an argument of a node": _argument,
    "the output": _output,
    "the structure of the inputs": _input_spec,
    "the example inputs": _examples,
    "what is stated of a node": lambda p, make: _call(p).meta.update(val=make(_call(p).meta["val"])),
    "custom metadata": _meta("custom", 3),
    "custom metadata of the module": _of_module("custom"),
    "source functions": _meta("source_fn_stack", ("a", torch.add)),
    "where a node is from": _meta("from_node", 3),
    "a module stack": _module_stack,
}
WRAPS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda inner: [inner],
    "tuples": lambda inner: (inner,),
    "dicts": lambda inner: {"a": inner},
    "lists, twice": lambda inner: [inner, inner],
    "dicts, twice": lambda inner: {"a": inner, "b": inner},
}


def _assert_saved_or_refused(program: ExportedProgram, folder: Path) -> None:
    path, refused = folder / "program.pt2", None
    path.write_bytes(b"old")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graphwire.save(program, path)
        except GraphwireError as error:
            refused = error
        else:
            graphwire.load(path)
    assert [each.name for each in folder.iterdir()] == ["program.pt2"]
    if refused is not None:
        assert refused.remedy or refused.place, refused.problem
        assert path.read_bytes() == b"old"


@pytest.mark.parametrize("place", PLACES)
def test_deep_data_is_saved_or_refused(place: str, tmp_path: Path) -> None:
    for name, wrap in WRAPS.items():
        shared = name.endswith("twice")
        if shared and PLACES[place] in UNFOLDED:
            continue
        for depth in (32,) if shared else (50, 10_000):
            program = copy.deepcopy(_exported())
            try:
                PLACES[place](program, functools.partial(_wrapped, wrap, depth))
            except RecursionError:  # torch cannot have it
                continue
            _assert_saved_or_refused(program, tmp_path)


def _wrapped(wrap: Callable[[Any], Any], depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


@pytest.mark.parametrize("edit", [_long_module_stack, _size])
def test_long_data_is_saved_or_refused(edit: Callable[[ExportedProgram], None], tmp_path: Path) -> None:
    program = copy.deepcopy(_exported())
    edit(program)
    _assert_saved_or_refused(program, tmp_path)


@pytest.mark.parametrize("spare", [40, 60, 80, 120, 200, 400])
def test_a_save_with_little_of_the_stack_left_works_or_is_refused(spare: int, tmp_path: Path) -> None:
    program = copy.deepcopy(_exported())
    _call(program).meta["custom"] = {"a": [[[[1]]]]}
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    limit = sys.getrecursionlimit()
    path = tmp_path / "program.pt2"
    path.write_bytes(b"old")
    refused: BaseException | None = None
    try:
        sys.setrecursionlimit(depth + spare)
        graphwire.save(program, path)
    except (GraphwireError, RecursionError) as error:
        refused = error
    finally:
        sys.setrecursionlimit(limit)
    assert [each.name for each in tmp_path.iterdir()] == ["program.pt2"]
    if refused is None:
        graphwire.load(path)
    else:
        assert isinstance(refused, GraphwireError), refused
        assert path.read_bytes() == b"old"


def test_subgraphs_that_share_subgraphs_are_counted_as_they_are_written() -> None:
    """As nested regions that are compiled once each: a document has each wherever it is called."""

    class Regions(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    sizes = []
    for depth in (1, 2, 60):
        program = export(Regions(), (X,))
        leaf = program.graph_module.true_graph_0
        for _ in range(depth):
            leaf = _twice(leaf)
        program.graph_module.true_graph_0 = leaf
        if depth == 60:
            with pytest.raises(GraphwireError, match="nodes, if each shared subgraph counts once per use"):
                graphwire.dumps(program)
        else:
            sizes.append(len(graphwire.dumps(program)))
    assert sizes == sorted(sizes)


def _twice(inner: Any) -> torch.fx.GraphModule:
    """A branch that calls one subgraph on either side of a condition."""
    (x,) = inner.graph.find_nodes(op="placeholder")
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    given.meta = dict(x.meta)
    read = graph.get_attr("inner")
    made = graph.call_function(torch.ops.higher_order.cond, (True, read, read, (given,)))
    result = inner.graph.output_node().args[0][0].meta["val"]
    made.meta["val"] = (result,)
    element = graph.call_function(operator.getitem, (made, 0))
    element.meta["val"] = result
    graph.output((element,))
    root = torch.nn.Module()
    root.inner = inner
    return torch.fx.GraphModule(root, graph)


def test_what_is_shared_is_measured_once() -> None:
    value: Any = [1]
    for _ in range(20):
        value = [value, value, {"a": (value,)}]
    with pytest.raises(GraphwireError, match="written out"):
        check_expanded_size(value, "it")
    circle: list[Any] = [1]
    circle.append(circle)
    check_expanded_size(circle, "it")  # the encoder tells
    check_expanded_size([[1] * 1000] * 1000, "it")


class _Counted(list[Any]):
    """A list that counts how often it is walked through."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


def test_what_occurs_many_times_is_measured_once() -> None:
    shared = _Counted([1] * 1000)
    check_expanded_size([shared] * 1000, "it")
    assert 0 < shared.walks <= 4
