"""What a rewrite of a node may do to its graph's values: make some, under names that are free, and drop others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from graphwire.evolve.trees import Node, Record
from graphwire.evolve.values import TABLES

__all__ = ["NewValues"]


class NewValues:
    """The tensor values of one graph while its nodes are rewritten; the graph itself stays as it is."""

    def __init__(self, graph: Record) -> None:
        self._graph = graph
        self._added: Record = {}
        self._dropped: set[str] = set()
        self._used: set[str] | None = None

    def meta(self, name: str) -> Record:
        """What is known of a tensor of the graph."""
        meta: Record = self._added.get(name) or self._graph["tensor_values"][name]
        return meta

    def uses(self, name: str) -> bool:
        """Whether a node of the graph, or its outputs, refer to a value by its name."""
        if self._used is None:
            given = [named["arg"] for node in self._graph["nodes"] for named in node["inputs"]]
            self._used = set(_names_in([*given, *self._graph["outputs"]]))
        return name in self._used

    def make_tensor(self, stem: str, meta: Record) -> str:
        """The free name, `stem` or with a number, of a new tensor value."""
        taken = self._taken()
        names = itertools.chain((stem,), (f"{stem}_{index}" for index in itertools.count(1)))
        name = next(each for each in names if each not in taken)
        self._added[name] = meta
        return name

    def drop_tensor(self, name: str) -> None:
        """Forget a tensor that nothing makes any more."""
        self._dropped.add(name)

    def added_to(self, nodes: list[Node]) -> Record:
        """The graph with other nodes, and the values that they make."""
        graph = {**self._graph, "nodes": nodes}
        if self._added or self._dropped:
            values = {**graph["tensor_values"], **self._added}
            graph["tensor_values"] = {k: v for k, v in values.items() if k not in self._dropped}
        return graph

    def _taken(self) -> set[str]:
        taken = {name for table in TABLES.values() for name in self._graph.get(table) or ()}
        return taken | set(self._added) | {str(node.get("name")) for node in self._graph["nodes"]}


def _names_in(value: Any) -> Iterator[str]:
    """The names of values in arguments."""
    if isinstance(value, dict):
        yield from (held for key in ("name", "as_name") if isinstance(held := value.get(key), str))
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        yield from _names_in(each)
