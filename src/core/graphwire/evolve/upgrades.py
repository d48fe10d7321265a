"""The walk over a graph that hands an upgrader each node it is for, in subgraphs too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.editor import NodeEditor
from graphwire.evolve.rewriting import GraphRewrite
from graphwire.schema.graph import Graph, Node

__all__ = ["Upgrade", "rewrite_graph"]

Upgrade: TypeAlias = Callable[[NodeEditor], None]
"""What rewrites one node."""


def rewrite_graph(
    graph: Graph,
    upgrades: Mapping[str, Upgrade],
    place: str,
    problems: list[Problem],
    touched: Callable[[str, Node], None],
    reserved: Iterable[str] = (),
) -> tuple[Graph, Mapping[str, str]]:
    """A graph in which each node of certain operators was rewritten, in subgraphs too.

    Args:
        upgrades: what rewrites a node, by the serialized name of its operator.
        place: the graph's own place.
        problems: gets what was refused; such a node stays as it was.
        touched: told of each node that is rewritten, before it is, with its place.
        reserved: names beside the graph's own that a new value must not have.

    Returns:
        The graph, the very same one where nothing differs, and the new names of values that others replaced.
    """
    known: dict[int, tuple[Graph, Graph, Mapping[str, str]]] = {}

    def visit(here: str, each: Graph) -> tuple[Graph, Mapping[str, str]]:
        # A subgraph that several nodes call is one record: it is rewritten once, and stays one.
        if id(each) not in known:
            rewrite = GraphRewrite(each, reserved if each is graph else ())
            for index, node in enumerate(each.nodes):
                where = f"{here}.nodes[{index}]"
                inner = rewrite.renamed(node, lambda there, below: visit(there, below)[0], where)
                upgrade = upgrades.get(inner.target)
                if upgrade is None:
                    rewrite.keep(inner)
                    continue
                touched(where, inner)
                rewrite.put(_upgraded(rewrite, inner, upgrade, where, problems), inner)
            known[id(each)] = (each, *rewrite.finish(here, problems))
        return known[id(each)][1:]

    return visit(place, graph)


def _upgraded(
    rewrite: GraphRewrite, node: Node, upgrade: Upgrade, place: str, problems: list[Problem]
) -> list[Node]:
    editor = NodeEditor(rewrite, node, place)
    try:
        upgrade(editor)
        return list(editor.finished())
    except OpsetError as error:
        problems.append(Problem(place, "refused", f"{node.target}: {error.problem}"))
    except Exception as error:  # noqa: BLE001 - a stranger's code: its failure is told with its place, like a refusal
        problems.append(Problem(place, "failed", f"{node.target}: {type(error).__name__}: {error}"))
    return [node]
