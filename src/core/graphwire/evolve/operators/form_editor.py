"""The editor for nodes in documents of older schemas; the changes in `evolve.operators.operators` use it.

Its methods have the names of those of `editor.NodeEditor`. Arguments and values are trees of the document's version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

from graphwire.errors import OpsetError
from graphwire.evolve.documents import (
    Node,
    Record,
    Refuse,
    Where,
    arguments_of,
    free_name,
    value_names,
    without,
)


class GraphValues:
    """The tensor values of one graph while its nodes are edited; the graph itself is not changed."""

    def __init__(self, graph: Record) -> None:
        self._graph = graph
        self._added: Record = {}
        self._dropped: set[str] = set()

    def meta(self, name: str) -> Record:
        """Return the description of a tensor of the graph."""
        meta: Record = self._added.get(name) or self._graph["tensor_values"][name]
        return meta

    def uses(self, name: str) -> bool:
        """Report whether a node of the graph, or its outputs, refer to a value by its name."""
        return name in self._used

    def make_tensor(self, stem: str, meta: Record) -> str:
        """Add a tensor value and return its name: `stem`, with a number if that is taken."""
        nodes = (node.get("name") for node in self._graph["nodes"])
        name = free_name(stem, value_names(self._graph) | {*self._added, *nodes})
        self._added[name] = meta
        return name

    def drop_tensor(self, name: str) -> None:
        """Delete a tensor that no node makes any more."""
        self._dropped.add(name)

    def added_to(self, nodes: list[Node]) -> Record:
        """Return the graph with other nodes and the values that they make."""
        graph = {**self._graph, "nodes": nodes}
        if self._added or self._dropped:
            values = {**graph["tensor_values"], **self._added}
            graph["tensor_values"] = without(values, *self._dropped)
        return graph

    @cached_property
    def _used(self) -> set[str]:
        given = [argument for node in self._graph["nodes"] for argument in arguments_of(node)]
        return set(_names_in([*given, *self._graph["outputs"]]))


def _names_in(value: Any) -> Iterator[str]:
    """Return the names of values in arguments."""
    if isinstance(value, dict):
        yield from (held for key in ("name", "as_name") if isinstance(held := value.get(key), str))
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        yield from _names_in(each)


class FormEditor:
    """One node of a document and its edits. The walk makes it; a change must not keep it."""

    def __init__(self, values: GraphValues, node: Node, where: Where, refuse: Refuse) -> None:
        self.values = values
        self.node = dict(node)
        """A copy of the node; its fields may be assigned."""
        self._where = where
        self._refuse = refuse
        self._target = node["target"]
        self._before: list[Node] = []
        self._after: list[Node] = []

    @property
    def target(self) -> str:
        """The serialized name of the node's operator."""
        target: str = self.node["target"]
        return target

    @property
    def nodes(self) -> list[Node]:
        """The nodes that replace the edited one."""
        return [*self._before, self.node, *self._after]

    # -------------------------------------------------------------------------------------------------- arguments

    @property
    def arguments(self) -> list[Record]:
        """The arguments, in order."""
        return arguments_of(self.node)

    def argument(self, parameter: str) -> Record:
        """Return an argument by its parameter's name; an empty record where it is not given."""
        found = (named["arg"] for named in self.node["inputs"] if named["name"] == parameter)
        return next(found, {})

    def call(self, *arguments: Record) -> None:
        """Replace the arguments by positional ones, of the same kind as those of the node."""
        kind = {key: value for key, value in self.node["inputs"][0].items() if key == "kind"}
        self.node["inputs"] = [{"name": "", "arg": argument, **kind} for argument in arguments]

    def rename(self, parameter: str, new: str) -> None:
        """Rename an argument; do nothing where it is not given."""
        self.node["inputs"] = [
            {**named, "name": new} if named["name"] == parameter else named for named in self.node["inputs"]
        ]

    # ------------------------------------------------------------------------------------------------------ nodes

    def retarget(self, target: str) -> None:
        """Let the node call another operator."""
        self.node["target"] = target

    def emit(self, target: str, inputs: Mapping[str, Any], name: str, *, after: bool = False) -> None:
        """Add a node that makes the tensor `name`, before this one or after it, with this one's metadata."""
        node = {
            "target": target,
            "inputs": [{"name": parameter, "arg": arg, "kind": 1} for parameter, arg in inputs.items()],
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": dict(self.node["metadata"]),
        }
        (self._after if after else self._before).append(node)

    # --------------------------------------------------------------------------------------------------- refusing

    def refuse(self, reason: str = "") -> NoReturn:
        """Report that the older form cannot express this node, and leave the node unchanged.

        Raises:
            OpsetError: always; the walk reports it with its place.
        """
        raise OpsetError(reason or f"{self.target.rpartition('.')[2]} with these arguments")

    def report(self, construct: str, step: str = "") -> None:
        """Report a construct that the older release does not support, in the node or at a place inside it."""
        self._refuse(self._where.at(step), construct)

    def apply(self, function: Callable[[FormEditor], None]) -> None:
        """Apply a function to the node, unless the node already calls another operator. For the walk."""
        if self.target != self._target:
            return
        try:
            function(self)
        except OpsetError as refusal:
            self.report(refusal.problem)
