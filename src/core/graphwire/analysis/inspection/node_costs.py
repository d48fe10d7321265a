"""The nodes of a program by name, and the bytes that each call of a node takes and returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from graphwire.schema import (
    ITEM_SIZES,
    Graph,
    Node,
    Program,
    SymInt,
    TensorMeta,
    named_subgraphs_in,
    names_in,
)


class NamedNode(NamedTuple):
    """A node with its name in the program."""

    name: str
    """Its own name, or that of its first result; inside a subgraph `SUBGRAPH/NODE`, as deep as needed."""
    node: Node
    graph: Graph
    """The graph that it belongs to."""


def named_nodes(program: Program) -> Iterator[NamedNode]:
    """Yield the nodes of all graphs of a program. A subgraph that several nodes share under one name comes once."""
    pending = [("", program.graph_module.graph)]
    begun: set[tuple[str, int]] = set()
    for path, graph in pending:  # grows while it is walked
        for node in graph.nodes:
            name = node.name or next((each for out in node.outputs for each in names_in(out)), "")
            yield NamedNode(path + name, node, graph)
            for named in node.inputs:
                if named.arg.as_tensor is not None:
                    continue
                for held in named_subgraphs_in(named.arg):
                    inside = (f"{path}{held.name}/", id(held.graph))
                    if inside not in begun:
                        begun.add(inside)
                        pending.append((inside[0], held.graph))


def bytes_of_nodes(program: Program) -> dict[str, int | None]:
    """Return for each node the size of its tensor inputs and results, at the sizes of the example inputs.

    A tensor that a node gets twice counts twice. None if a size is unknown before the program runs."""
    sizes: dict[tuple[int, str], int | None] = {}
    found: dict[str, int | None] = {}
    for name, node, graph in named_nodes(program):
        total: int | None = 0
        arguments = (*(named.arg for named in node.inputs), *node.outputs)
        for value in (each for argument in arguments for each in names_in(argument)):
            meta = graph.tensor_values.get(value)
            if meta is None:
                continue
            key = (id(graph), value)
            if key not in sizes:
                sizes[key] = tensor_bytes(meta)
            size = sizes[key]
            total = None if total is None or size is None else total + size
        found[name] = total
    return found


def tensor_bytes(meta: TensorMeta) -> int | None:
    """Return the size of a tensor's elements in bytes, at the sizes of the example inputs; None if it is unknown."""
    total = ITEM_SIZES.get(meta.dtype_text)
    for size in meta.sizes:
        number = known_size(size)
        total = None if total is None or number is None else total * number
    return total


def known_size(size: SymInt) -> int | None:
    """Return a size, or its value on the example inputs; None if it is unknown."""
    if size.as_expr is None:
        return size.as_int
    return None if size.as_expr.hint is None else size.as_expr.hint.as_int
