"""Rows of the table `nodes`: every call of every graph of a program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from graphwire.errors import GraphwireError
from graphwire.schema import Graph, Node, Program, SymInt, named_subgraphs_in, names_in
from graphwire.schema.texts.infix import format_infix
from graphwire.schema.texts.operations import parse_expression
from graphwire_fleet.operator_names import split_target
from graphwire_fleet.reading.arguments import arguments_of
from graphwire_fleet.work import Row


def node_rows(program: Program) -> Iterator[Row]:
    """Yield a row for each node of a graph, and after each graph those of its subgraphs."""
    shapes = _Shapes()
    pending = deque([("", program.graph_module.graph)])
    while pending:
        place, graph = pending.popleft()
        for index, node in enumerate(graph.nodes):
            for named in node.inputs:
                for held in named_subgraphs_in(named.arg):
                    pending.append((f"{place}/{held.name}" if place else held.name, held.graph))
            operator, overload = split_target(node.target)
            module, module_type = _module_of(node.metadata.get("nn_module_stack", ""))
            yield {
                "graph": place,
                "index": index,
                "name": node.name or _first_result(node),
                "target": node.target,
                "operator": operator,
                "overload": overload,
                "arguments": arguments_of(node),
                "outputs": [_output(graph, name, shapes) for each in node.outputs for name in names_in(each)],
                "module": module,
                "module_type": module_type,
            }


def _first_result(node: Node) -> str:
    return next((name for each in node.outputs for name in names_in(each)), "")


def _output(graph: Graph, name: str, shapes: _Shapes) -> dict[str, Any]:
    meta = graph.tensor_values.get(name)
    if meta is None:
        return {"name": name}
    index = "" if meta.device.index is None else f":{meta.device.index}"
    return {
        "name": name,
        "dtype": meta.dtype_text,
        "shape": shapes.text(meta.sizes),
        "device": f"{meta.device.type}{index}",
    }


class _Shapes:
    """Writes shapes as text, such as `[s77, 128]`. Each distinct expression is parsed once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def text(self, sizes: list[SymInt]) -> str:
        return f"[{', '.join(map(self._size, sizes))}]"

    def _size(self, size: SymInt) -> str:
        if size.as_expr is None:
            return str(size.as_int)
        text = size.as_expr.expr_str
        if text not in self._texts:
            try:
                self._texts[text] = format_infix(parse_expression(text))
            except GraphwireError:
                self._texts[text] = "?"
        return self._texts[text]


def _module_of(stack: str) -> tuple[str, str]:
    """Return the path and the class of the innermost module of a stack `KEY,PATH,CLASS;…`."""
    path, comma, kind = stack.rpartition(";")[2].partition(",")[2].rpartition(",")
    return (path.partition("@")[0], kind) if comma else ("", "")
