"""Makes the nodes of a graph as `Graph.create_node` does, three times as fast."""

from __future__ import annotations

from typing import Any

from torch.fx import graph as fx_graph
from torch.fx.graph import Graph
from torch.fx.node import Node


class NodeMaker:
    """Adds nodes to a graph, at its point of insertion.

    torch's method searches the arguments of each node for symbolic numbers, takes each name apart with a regular expression, and
    computes the hash of each target in Python. Here a target is looked up by its identity.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        namespace = graph._graph_namespace
        self._used = namespace._used_names
        self._counts = namespace._base_count
        self._names: dict[Any, str] = namespace._obj_to_name
        self._rows: dict[Any, dict[Node, None]] = {}
        """The rows of the graph's table of nodes, by operation, or by the id of what a node calls."""

    def make(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None
    ) -> Node:
        """Add a node.

        Args:
            op: "call_function", "get_attr" or "placeholder".
            name: the name of the node, if it is an identifier that no other node has and Python allows; otherwise torch chooses a
                similar one. None lets torch choose.
        """
        graph = self._graph
        if (
            name is None
            or name in self._used
            or name in fx_graph._illegal_names
            or not (name.isidentifier() and name.isascii())
        ):
            node = graph.create_node(op, target, name=name)
            node._update_args_kwargs(args, kwargs)  # `create_node` would search them
            return node
        node = Node(graph, name, op, target, args, kwargs)
        self._used.add(name)
        stem, _, number = name.rpartition("_")
        if stem and number.isdecimal():
            self._counts[stem] = int(number)
        else:
            self._counts.setdefault(name, 0)
        self._names[node] = name
        graph._insert(node)
        key = id(target) if op == "call_function" else op
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = graph._find_nodes_lookup_table.table[
                op, target if op == "call_function" else None
            ]
        row[node] = None
        graph._len += 1
        return node
