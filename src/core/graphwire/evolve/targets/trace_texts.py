"""Converts stack traces from rows of a table, as in files of the first graphwire versions, to text on each node."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from graphwire.evolve.opsets import map_argument
from graphwire.schema import Graph, NamedArgument, Node, Program, ValueMetadata
from graphwire.schema.trees import WHY_OMITTED, TraceTexts

Owner = TypeVar("Owner", Node, ValueMetadata)


def with_trace_texts(program: Program, left_out: list[str]) -> Program:
    """Replace the table of stack frames of a program by texts; return the very same program if it has no table.

    Args:
        left_out: receives the reason when stack traces are left out.
    """
    module = program.graph_module
    if not module.stack_frames:
        return program
    traces = TraceTexts(module.stack_frames)
    graph = _graph(module.graph, traces)
    if traces.omitted:
        left_out.append(WHY_OMITTED.format(traces.omitted))
    return replace(program, graph_module=replace(module, graph=graph, stack_frames=[]))


def _graph(graph: Graph, traces: TraceTexts) -> Graph:
    output = graph.output_metadata
    return replace(
        graph,
        nodes=[_node(node, traces) for node in graph.nodes],
        value_metadata={name: _texted(each, traces) for name, each in graph.value_metadata.items()},
        output_metadata=None if output is None else _texted(output, traces),
    )


def _node(node: Node, traces: TraceTexts) -> Node:
    inputs = [_input(named, traces) for named in node.inputs]
    return replace(_texted(node, traces), inputs=inputs)


def _input(named: NamedArgument, traces: TraceTexts) -> NamedArgument:
    argument = map_argument(named.arg, {}, lambda _, graph: _graph(graph, traces), "")
    return named if argument is named.arg else replace(named, arg=argument)


def _texted(owner: Owner, traces: TraceTexts) -> Owner:
    """Replace the trace of a node, or of a value's description, by text. A text that is already there wins, as in a load."""
    if owner.stack is None:
        return owner
    text = None if "stack_trace" in owner.metadata else traces.of(owner.stack)
    metadata = {**owner.metadata, "stack_trace": text} if text else owner.metadata
    return replace(owner, metadata=metadata, stack=None)
