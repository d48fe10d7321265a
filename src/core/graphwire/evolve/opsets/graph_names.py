"""Walks over a program's graphs, and updates what depends on them: names in the signature, and the list of extensions in use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from graphwire import schema
from graphwire.evolve.opsets.plain_values import subgraphs
from graphwire.schema import Argument, Graph, GraphModule, Node, Program


def walk_nodes(graph: Graph, place: str = "graph_module.graph") -> Iterator[tuple[str, Node]]:
    """Return every node of a graph and of the graphs inside it, each with its place."""
    for index, node in enumerate(graph.nodes):
        here = f"{place}.nodes[{index}]"
        yield here, node
        for position, named in enumerate(node.inputs):
            if named.arg.as_tensor is not None:
                continue
            for below, inner in subgraphs(named.arg):
                yield from walk_nodes(inner, f"{here}.inputs[{position}].arg{below}")


_HOLDERS = ("as_graph", *schema.INSIDE)
"""The arms that can contain graphs."""
_held = attrgetter(*_HOLDERS)
_NOTHING: Final = (None,) * len(_HOLDERS)


def graphs_in(graph: Graph) -> Iterator[Graph]:
    """Return a graph and every graph inside it."""
    graphs = [graph]
    for each in graphs:  # grows while it is walked
        yield each
        for node in each.nodes:
            for named in node.inputs:
                argument = named.arg
                if argument.as_tensor is None and _held(argument) != _NOTHING:
                    graphs += schema.subgraphs_in(argument)


def uses_operator(graph: Graph, targets: Collection[str]) -> bool:
    """Report whether a graph, or a graph inside it, calls one of some operators, given by their serialized names."""
    return any(node.target in targets for each in graphs_in(graph) for node in each.nodes)


def rename_in_module(module: GraphModule, names: Mapping[str, str]) -> GraphModule:
    """Apply the new names of replaced values to the signature and module calls of a graph module."""
    if not names:
        return module
    entries = []
    for entry in module.module_call_graph:
        if (call := entry.signature) is not None:
            inputs = [schema.renamed_argument(argument, names) for argument in call.inputs]
            outputs = [schema.renamed_argument(argument, names) for argument in call.outputs]
            entry = replace(entry, signature=replace(call, inputs=inputs, outputs=outputs))  # noqa: PLW2901
        entries.append(entry)
    return replace(module, signature=schema.with_outputs(module.signature, names), module_call_graph=entries)


_OF_NODES = {*(row.feature for row in schema.ARMS.values() if row.feature), "propagate"}
_OF_NODES -= {"dtypes", "layouts", "results"}
"""The extensions whose use shows in arguments and nodes alone. For the others, a reader cannot tell what uses them."""


def requirements_after(old: Program, new: Program) -> list[str]:
    """Return the extensions that a program requires after its graph was rewritten."""
    if new is old:
        return old.requires
    used = set(old.requires) - _OF_NODES
    for _, node in walk_nodes(new.graph_module.graph):
        if node.propagate:
            used.add("propagate")
        for argument in (*(named.arg for named in node.inputs), *node.outputs):
            used.update(schema.features_of(argument))
    for argument in _arguments_elsewhere(new):
        used.update(schema.features_of(argument))
    metas = new.graph_module.graph.tensor_values.values()
    if any(meta.dtype_name is not None for meta in metas):
        used.add("dtypes")
    if any(meta.layout_name is not None for meta in metas):
        used.add("layouts")
    return sorted(used)


def _arguments_elsewhere(program: Program) -> Iterator[Argument]:
    """Return the arguments of a program outside the nodes of its graphs."""
    module = program.graph_module
    for entry in module.module_call_graph:
        if entry.signature is not None:
            yield from (*entry.signature.inputs, *entry.signature.outputs)
    if program.example_inputs is not None:
        yield from program.example_inputs.leaves
    for graph in graphs_in(module.graph):
        yield from (*graph.inputs, *graph.outputs)
