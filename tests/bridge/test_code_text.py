"""Code that graphwire writes in place of torch is torch's, and what torch writes in another way is left to torch."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from inside.bridge import code_text
from programs import decoder
from torch.fx import Graph
from torch_construction import assert_code_is_torchs, assert_made_as_by_torch

import graphwire

ADD = torch.ops.aten.add.Tensor


def graph_of(*args: Any, names: tuple[str, ...] = ("x", "y"), target: Any = ADD, **kwargs: Any) -> Graph:
    """A graph that calls `target` on two inputs with such names, and on other arguments."""
    graph = Graph()
    inputs = [graph.create_node("placeholder", name, name=name) for name in names]
    graph.output(graph.create_node("call_function", target, (*inputs, *args), kwargs))
    return graph


def renamed(*names: str) -> Graph:
    graph = graph_of()
    for node, name in zip(graph.nodes, names, strict=False):
        node.name = name
    return graph


WRITTEN: dict[str, Callable[[], Graph]] = {
    "inputs": graph_of,
    "names of builtins": lambda: renamed("input", "len"),
    "names of what code imports": lambda: renamed("torch", "device"),
    "two nodes of one name": lambda: renamed("x", "x"),
    "names with numbers": lambda: renamed("x_2", "x_1"),
    "a name that is no identifier": lambda: renamed("1 + 1", "für"),
    "literals": lambda: graph_of(1, -2.5, float("inf"), float("nan"), "a\nb'", None, True, -0.0, "\ud800"),
    "literals of torch": lambda: graph_of(
        torch.int8, torch.device("cuda", 1), torch.strided, torch.channels_last
    ),
    "containers": lambda: graph_of([], (), [1, (2,)], {}, {"a": [1], 2: slice(None, 3)}, key=(1, [2])),
    "an operator of Python": lambda: graph_of(target=operator.floordiv),
    "an element": lambda: graph_of(target=operator.getitem),
    "a function of torch": lambda: graph_of(target=torch.sym_max),
    "a traced function": lambda: torch.fx.symbolic_trace(lambda x, y: torch.add(x, y)).graph,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_text_is_that_of_torch(name: str) -> None:
    graph = WRITTEN[name]()
    written = code_text.python_code(graph)
    assert written is not None
    assert written == graph.python_code("self")


def marked(key: str) -> Graph:
    graph = graph_of()
    graph.find_nodes(op="call_function", target=ADD)[0].meta[key] = [0]
    return graph


class Pair(NamedTuple):
    """A tuple whose text names its class."""

    first: int
    second: int


LEFT: dict[str, Callable[[], Graph]] = {
    "an empty graph": Graph,
    "a type that is no literal": lambda: graph_of(range(3)),
    "a complex number": lambda: graph_of(2j),
    "arguments in boxes": lambda: marked("boxed_arg_indices"),
    "a wrapped function": lambda: marked("is_wrapped"),
    "a named tuple": lambda: graph_of(Pair(1, 2)),
    "an operator": lambda: graph_of({"key": ADD}),
    "a function of nobody": lambda: graph_of(target=len),
    "an operator with a keyword in its name": lambda: graph_of(target=getattr(torch.ops.aten.random, "from")),
    "an operator that changes its operand": lambda: graph_of(target=operator.iadd),
    "a keyword as an argument": lambda: graph_of(**{"from": 1}),
    "a keyword as an input": lambda: graph_of(names=("class", "y")),
    "one input twice": lambda: graph_of(names=("x", "x")),
    "an input called self": lambda: graph_of(names=("self", "y")),
    "an element of a literal": lambda: graph_of(0, names=(), target=operator.getitem),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_torch_writes_in_a_way_of_its_own_or_python_rejects_is_left_to_torch(name: str) -> None:
    assert code_text.python_code(LEFT[name]()) is None


@pytest.mark.parametrize("name", [*WRITTEN, *LEFT])
def test_a_graph_that_calls_only_torch_reads_no_other_name(name: str) -> None:
    graph = (WRITTEN | LEFT)[name]()
    if not code_text._calls_only_torch(graph):
        assert name not in {"inputs", "names of builtins", "literals", "literals of torch"}
        return
    try:
        code = ast.parse(graph.python_code("self").src)
    except SyntaxError:  # a name that is a keyword: the code cannot run
        return
    names = [each for each in ast.walk(code) if isinstance(each, ast.Name)]
    made = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    made |= {node.target for node in graph.find_nodes(op="placeholder")}
    assert {each.id for each in names} <= made | code_text._WRITTEN


@pytest.mark.parametrize("name", ["FX_GRAPH_SHOW_STRIDE", "FX_GRAPH_SHOW_DEVICE", "FX_GRAPH_SHOW_META"])
def test_settings_that_change_the_text_leave_it_to_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert code_text.python_code(graph_of()) is None


def test_a_release_that_writes_another_text_writes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(torch.fx.graph.magic_methods, "neg", "(-{})")
        code_text._is_torchs_text.cache_clear()
        assert code_text.python_code(graph_of()) is not None
        patch.setattr(Graph, "python_code", lambda *_args, **_options: code_text.PythonCode("", {}, {}))
        code_text._is_torchs_text.cache_clear()
        assert code_text.python_code(graph_of()) is None
    code_text._is_torchs_text.cache_clear()
    assert code_text.python_code(graph_of()) is not None


def test_torch_writes_no_code_of_an_ordinary_program(monkeypatch: pytest.MonkeyPatch) -> None:
    data = graphwire.dumps(decoder(1).program)
    assert_made_as_by_torch(lambda: graphwire.loads(data), monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(Graph, "python_code", None)
        loaded = graphwire.loads(data)
    assert_code_is_torchs(loaded)
