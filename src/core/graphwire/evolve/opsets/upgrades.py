"""Walks over a graph and its subgraphs and applies an upgrader to each node of its operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.opsets.changes import EditNode
from graphwire.evolve.opsets.editor import NodeEditor
from graphwire.evolve.opsets.graph_names import rename_in_module
from graphwire.evolve.opsets.rewriting import GraphRewrite
from graphwire.schema import Graph, Node, Program


class TouchedNode(NamedTuple):
    """A node that a change rewrites."""

    place: str
    """Its place before the change, such as `graph_module.graph.nodes[7]`."""
    name: str
    target: str
    """Its operator before the change."""


class Rewritten(NamedTuple):
    """The result of editing a program's nodes."""

    program: Program
    """The very same program where nothing differs."""
    nodes: tuple[TouchedNode, ...]
    """The nodes that an upgrader received."""
    problems: tuple[Problem, ...]
    """The refusals; a refused node stays as it was."""


def rewrite_program(program: Program, functions: Mapping[str, EditNode]) -> Rewritten:
    """Edit each node of certain operators, in subgraphs too.

    Args:
        functions: the function that edits a node, by the serialized name of its operator.
    """
    module = program.graph_module
    specs = (spec.constant_input or spec.user_input for spec in module.signature.input_specs)
    literals = [spec.name for spec in specs if spec is not None and spec.name]
    problems: list[Problem] = []
    nodes: list[TouchedNode] = []

    def note(place: str, node: Node) -> None:
        nodes.append(TouchedNode(place, node.name or "", node.target))

    graph, names = rewrite_graph(module.graph, functions, "graph_module.graph", problems, note, literals)
    if graph is not module.graph:
        module = rename_in_module(replace(module, graph=graph), names)
        program = replace(program, graph_module=module)
    return Rewritten(program, tuple(nodes), tuple(problems))


def rewrite_graph(
    graph: Graph,
    functions: Mapping[str, EditNode],
    place: str,
    problems: list[Problem],
    touched: Callable[[str, Node], None],
    reserved: Iterable[str] = (),
) -> tuple[Graph, Mapping[str, str]]:
    """Edit each node of certain operators in a graph and its subgraphs.

    Args:
        functions: the function that edits a node, by the serialized name of its operator.
        place: the graph's own place.
        problems: receives the refusals; a refused node stays as it was.
        touched: receives each node before its rewrite, with its place.
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
                function = functions.get(inner.target)
                if function is None:
                    rewrite.keep(inner)
                    continue
                touched(where, inner)
                rewrite.put(_edited(rewrite, inner, function, where, problems), inner)
            known[id(each)] = (each, *rewrite.finish(here, problems))
        return known[id(each)][1:]

    return visit(place, graph)


def _edited(
    rewrite: GraphRewrite, node: Node, function: EditNode, place: str, problems: list[Problem]
) -> list[Node]:
    editor = NodeEditor(rewrite, node, place)
    try:
        function(editor)
        return list(editor.finished())
    except OpsetError as error:
        problems.append(Problem(place, "refused", f"{node.target}: {error.problem}"))
    except Exception as error:  # noqa: BLE001 - third-party code: report its failure with its place, like a refusal
        problems.append(Problem(place, "failed", f"{node.target}: {type(error).__name__}: {error}"))
    return [node]
