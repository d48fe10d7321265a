"""What nodes of a module that runs say of their values: made at the first look.

`node.meta["val"]`, the fake tensor or symbol that describes a value, is for whoever edits a program. A module that runs needs
none, and to make them takes most of a load. So the metadata of its nodes is a dict that lets the whole program be decoded when
somebody first reads what only that tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, SupportsIndex

import torch

from graphwire.bridge.torch_compat.modes import modes_set_aside
from graphwire.errors import DecodeError
from graphwire.process import one_build_at_a_time, paused_gc

_TOLD = frozenset(("val", "unbacked_bindings"))
"""The keys of `node.meta` that only a whole program has."""

Load = Callable[[], torch.export.ExportedProgram]


class _Program:
    """The metadata of the nodes of a program, by the path of the graph's module, and name."""

    def __init__(self, load: Load) -> None:
        self._load: Load | None = load
        self._metas: dict[str, dict[str, Mapping[str, Any]]] = {}

    def meta(self, path: str, name: str) -> Mapping[str, Any]:
        with one_build_at_a_time():
            if self._load is not None:
                with paused_gc(), modes_set_aside():
                    modules = dict(self._load().graph_module.named_modules())
                graphs = {
                    key: each for key, each in modules.items() if isinstance(each, torch.fx.GraphModule)
                }
                self._metas = {
                    key: {node.name: node.meta for node in each.graph.nodes} for key, each in graphs.items()
                }
                self._load = None
        return self._metas.get(path, {}).get(name, {})


class _Graph:
    """The metadata of the nodes of one graph."""

    def __init__(self, program: _Program, path: str) -> None:
        self._program = program
        self._path = path

    def meta(self, name: str) -> Mapping[str, Any]:
        return self._program.meta(self._path, name)


class _Meta(dict[str, Any]):
    """The metadata of a node, completed at the first look at what it lacks."""

    __slots__ = ("_graph", "_had_token", "_name")

    def __init__(self, known: Any, graph: _Graph, name: str, had_token: bool) -> None:
        super().__init__(known)
        self._graph: _Graph | None = graph
        self._name = name
        self._had_token = had_token

    def __missing__(self, key: str) -> Any:
        if key in _TOLD and self._complete():
            return self[key]
        raise KeyError(key)

    def __copy__(self) -> dict[str, Any]:
        known = dict.items(self)
        return dict(known) if self._graph is None else _Meta(known, self._graph, self._name, self._had_token)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        self._complete()
        return dict, (list(dict.items(self)),)

    def _complete(self) -> bool:
        """Add what was dropped; return False if it is here already."""
        if (graph := self._graph) is None:
            return False
        for key, value in graph.meta(self._name).items():
            if key in _TOLD:
                if key == "val" and self._had_token:  # The program's node returns a token before its results.
                    value = value[1] if len(value) == 2 else value[1:]  # noqa: PLW2901
                dict.setdefault(self, key, value)
        self._graph = None
        return True


def _looking_at_key(method: Callable[..., Any]) -> Callable[..., Any]:
    def look(meta: _Meta, key: Any, *rest: Any) -> Any:
        if key in _TOLD:
            meta._complete()
        return method(meta, key, *rest)

    return look


def _looking(method: Callable[..., Any]) -> Callable[..., Any]:
    def look(meta: _Meta, *rest: Any, **named: Any) -> Any:
        meta._complete()
        return method(meta, *rest, **named)

    return look


for _name in ("__contains__", "__setitem__", "__delitem__", "get", "pop", "setdefault"):
    setattr(_Meta, _name, _looking_at_key(getattr(dict, _name)))
for _name in (
    *("__iter__", "__reversed__", "__len__", "__eq__", "__ne__", "__repr__", "__or__", "__ror__", "__ior__"),
    *("keys", "items", "values", "popitem", "update", "clear", "copy"),
):
    setattr(_Meta, _name, _looking(getattr(dict, _name)))


def nodes_of(graph: torch.fx.Graph, root: torch.nn.Module) -> dict[str, dict[str, torch.fx.Node]]:
    """Return the nodes of a decoded graph and of the graphs inside it, by the path of the graph's module, and name.

    Raises:
        DecodeError: two nodes of a graph have one name, as torch's verifier says of an exported program.
    """
    modules = {path: each for path, each in root.named_modules() if isinstance(each, torch.fx.GraphModule)}
    found: dict[str, dict[str, torch.fx.Node]] = {}
    for path, each in {"": graph, **{path: module.graph for path, module in modules.items()}}.items():
        found[path] = {node.name: node for node in each.nodes}
        if len(found[path]) < len(each.nodes):
            raise DecodeError("two nodes of a graph have one name", place=path or "graph")
    return found


def describe_at_first_look(
    nodes: Mapping[str, Mapping[str, torch.fx.Node]], had_token: Collection[torch.fx.Node], load: Load
) -> None:
    """Let the metadata of nodes be completed at the first look.

    Args:
        nodes: what `nodes_of` returned before nodes were renamed.
        had_token: the nodes whose calls had an effect token in the program.
        load: decodes the program.
    """
    program = _Program(load)
    for path, named in nodes.items():
        graph = _Graph(program, path)
        for name, node in named.items():
            # Not by an assignment, which would also remove the node from the graph's tables and add it again.
            object.__setattr__(node, "meta", _Meta(node.meta, graph, name, node in had_token))
