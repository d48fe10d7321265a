"""The state of one graph during a rewrite: its new nodes, tables and names. Torch-free, linear in the graph's size."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.opsets.plain_values import Value, defined_values, map_argument
from graphwire.schema import VALUE_TABLES, Graph, NamedArgument, Node

_RESERVED = frozenset(
    [*keyword.kwlist, *dir(builtins), *"self torch device inf nan NoneType fx_pytree pytree".split()]
)
"""Names with a meaning in the code that torch generates from a graph (`torch/fx/graph.py`)."""


class GraphRewrite:
    """The result of one walk over a graph so far. Records of the old graph are shared, never changed."""

    def __init__(self, graph: Graph, reserved: Iterable[str]) -> None:
        self._graph = graph
        self._reserved = reserved
        self._nodes: list[Node] = []
        self._changed = False
        self._tables: dict[str, dict[str, Any]] = {}
        self._names: set[str] | None = None
        self._next: dict[str, int] = {}
        self._new_names: dict[str, str] = {}
        self._lost: dict[str, Value] = {}
        """Values that no node makes any more, by name."""
        self._rewritten: set[str] = set()
        """The names of values whose nodes were rewritten."""

    # ------------------------------------------------------------------------------------------------------- nodes

    def renamed(self, node: Node, change: Callable[[str, Graph], Graph], place: str) -> Node:
        """Rename the values that a node uses and change its subgraphs; return the same node where nothing differs."""
        inputs: list[NamedArgument] | None = None
        for index, named in enumerate(node.inputs):
            argument = map_argument(named.arg, self._new_names, change, f"{place}.inputs[{index}].arg")
            if argument is not named.arg:
                inputs = list(node.inputs) if inputs is None else inputs
                inputs[index] = replace(named, arg=argument)
        return node if inputs is None else replace(node, inputs=inputs)

    def keep(self, node: Node) -> None:
        """Append a node unchanged."""
        # Before the first change, the nodes so far are those of the old graph, one for one.
        self._changed = self._changed or node is not self._graph.nodes[len(self._nodes)]
        self._nodes.append(node)

    def put(self, nodes: Sequence[Node], old: Node) -> None:
        """Append nodes in place of `old`."""
        self._changed = True
        self._nodes += nodes
        made = {value.name for node in nodes for output in node.outputs for value in defined_values(output)}
        for output in old.outputs:
            values = list(defined_values(output))
            self._rewritten.update(value.name for value in values)
            self._lost.update((value.name, value) for value in values if value.name not in made)

    def finish(self, place: str, problems: list[Problem]) -> tuple[Graph, Mapping[str, str]]:
        """Return the new graph, and the new names of values that others replaced.

        Args:
            place: the graph's own place.
            problems: receives each use of a value that no node makes any more.
        """
        if not self._changed:
            return self._graph, {}
        graph = self._graph
        outputs = [
            map_argument(output, self._new_names, lambda _, below: below, f"{place}.outputs[{index}]")
            for index, output in enumerate(graph.outputs)
        ]
        for value in self._lost.values():
            self.forget(value)
        if missing := self._lost.keys() - self._new_names.keys():
            self._report_uses(missing, outputs, place, problems)
        metadata = {k: v for k, v in graph.value_metadata.items() if k not in self._lost}
        compositions = {k: v for k, v in graph.compositions.items() if k not in self._rewritten}
        changed = {"nodes": self._nodes, "outputs": outputs, **self._tables}
        graph = replace(graph, value_metadata=metadata, compositions=compositions, **changed)
        return graph, self._new_names

    def _report_uses(
        self, missing: Iterable[str], outputs: Sequence[Any], place: str, problems: list[Problem]
    ) -> None:
        """Report each use of values that no node makes any more: rename those values; an argument that changes uses one."""
        rename = {name: f"{name}_" for name in missing}
        uses = [
            (f"{place}.nodes ({node.name or node.target})", named.arg)
            for node in self._nodes
            for named in node.inputs
        ]
        uses += [(f"{place}.outputs", output) for output in outputs]
        for here, argument in uses:
            if map_argument(argument, rename, lambda _, below: below, here) is not argument:
                message = f"it uses one of {', '.join(sorted(rename))}, which an upgrader removed"
                problems.append(Problem(here, "removed", message))

    # ------------------------------------------------------------------------------------------------------- values

    def known(self, value: Value) -> Any:
        """Return the graph's description of a value; None if it has none."""
        return self._table(value.kind).get(value.name)

    def declare(self, value: Value, known: Any) -> None:
        """Set the description of a value."""
        self._own_table(value.kind)[value.name] = known

    def forget(self, value: Value) -> None:
        """Delete the description of a value."""
        if value.name in self._table(value.kind):
            del self._own_table(value.kind)[value.name]

    def _table(self, kind: str) -> dict[str, Any]:
        field = VALUE_TABLES[kind]
        table: dict[str, Any] = self._tables.get(field, getattr(self._graph, field))
        return table

    def _own_table(self, kind: str) -> dict[str, Any]:
        field = VALUE_TABLES[kind]
        if field not in self._tables:
            self._tables[field] = dict(getattr(self._graph, field))
        return self._tables[field]

    # -------------------------------------------------------------------------------------------------------- names

    def rename(self, value: Value, by: Value) -> None:
        """Let later nodes use `by` where they used `value`.

        Raises:
            OpsetError: the values are of different kinds.
        """
        if value.kind != by.kind:
            raise OpsetError(
                f"{value.name!r} is a {value.kind} value, which a {by.kind} value cannot replace"
            )
        if value.name != by.name:
            self._new_names[value.name] = by.name

    def fresh(self, stem: str) -> str:
        """Return an unused name: `stem`, or the first of `stem_1`, `stem_2` …"""
        if self._names is None:
            self._names = _names_of(self._graph) | set(self._reserved)
        name, number = stem, self._next.get(stem, 0)
        while name in self._names or name in _RESERVED:
            number += 1
            name = f"{stem}_{number}"
        self._next[stem] = number
        self._names.add(name)
        return name


def _names_of(graph: Graph) -> set[str]:
    """Return every name in use in the graph: of values, nodes, and the attributes they read."""
    names = {*graph.value_metadata, *(graph.input_names or ())}
    for field in VALUE_TABLES.values():
        names.update(getattr(graph, field))
    for argument in graph.inputs:
        names.update(value.name for value in defined_values(argument))
    for node in graph.nodes:
        if node.name is not None:
            names.add(node.name)
        for output in node.outputs:
            names.update(value.name for value in defined_values(output))
        for named in node.inputs:
            if named.arg.as_graph is not None:
                names |= {named.arg.as_graph.name, named.arg.as_graph.node or named.arg.as_graph.name}
    return names
