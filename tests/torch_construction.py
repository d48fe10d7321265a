"""What torch itself would make of a loaded program: its nodes by `Graph.create_node`, and its code by `Graph.python_code`."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch
from inside.bridge import NodeMaker, code_text
from torch.export import ExportedProgram
from torch.fx import GraphModule


def assert_code_is_torchs(program: ExportedProgram) -> None:
    """Assert that each graph of a program has the code that torch writes, or an empty graph's where Python rejects that."""
    for module in _graph_modules(program):
        code = module.graph.python_code("self")
        try:
            compile(code.src, "generated", "exec", dont_inherit=True)
        except SyntaxError:
            code = torch.fx.Graph().python_code("self")
        assert module.code == code.src
        assert module._lineno_map == code._lineno_map
        assert getattr(module, "_prologue_start", None) == getattr(code, "_prologue_start", None)
        made = module.forward.__func__
        for name, value in code.globals.items():
            assert made.__globals__[name] is value
        assert made.__globals__.keys() - {"__builtins__"} == code.globals.keys()


def assert_made_as_by_torch(load: Callable[[], ExportedProgram], monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a load makes the nodes, names, tables, code and functions that it would make through torch alone."""
    ours = [_described(module) for module in _graph_modules(load())]
    with monkeypatch.context() as patch:
        patch.setattr(NodeMaker, "make", _make_by_torch)
        patch.setattr(code_text, "python_code", lambda _graph: None)
        theirs = [_described(module) for module in _graph_modules(load())]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for part, expected in other.items():
            assert one[part] == expected, (part, one[part], expected)


def _make_by_torch(
    self: NodeMaker, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None
) -> torch.fx.Node:
    node = self._graph.create_node(op, target, name=name)
    node.args, node.kwargs = args, kwargs
    return node


def _graph_modules(program: ExportedProgram) -> list[GraphModule]:
    return [module for module in program.graph_module.modules() if isinstance(module, GraphModule)]


def _described(module: GraphModule) -> dict[str, Any]:
    """Everything that a graph module has of its graph, with numbers of nodes in place of the nodes."""
    graph = module.graph
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    names, table = graph._graph_namespace, graph._find_nodes_lookup_table.table
    return {
        "text": str(graph),
        "nodes": [
            (
                node.name,
                node.op,
                str(node.target),
                repr(node.args),
                repr(node.kwargs),
                type(node.args),
                type(node.kwargs),
            )
            for node in graph.nodes
        ],
        "metadata": [list(node.meta) for node in graph.nodes],
        "users": [[numbers[user] for user in node.users] for node in graph.nodes],
        "length": len(graph.nodes),
        "names of nodes": [(numbers[node], name) for node, name in names._obj_to_name.items()],
        "used names": names._used_names,
        "counts": names._base_count,
        "table": [(op, str(target), [numbers[node] for node in row]) for (op, target), row in table.items()],
        "own names": sorted(vars(module)),
        "names of the class": sorted(vars(type(module))),
        "code": (module.code, module._lineno_map, getattr(module, "_prologue_start", None)),
        "function": _instructions(module.forward.__func__.__code__),
        "globals": sorted(module.forward.__func__.__globals__),
    }


def _instructions(code: CodeType) -> list[Any]:
    return [
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_flags,
        list(code.co_lines()),
    ]
