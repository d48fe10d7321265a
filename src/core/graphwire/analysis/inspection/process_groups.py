"""Which process groups do a program's collectives name? Without torch: from the names and types of arguments.

A collective of torch has the parameter `group_name`, a text, and some have `group_size` beside it. torch itself gives
the names ("0" for all processes), so another job may have other names for the same groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from graphwire.analysis.inspection.load_report import StepReport
from graphwire.errors import DecodeError
from graphwire.schema import Argument, Graph, GraphArgument, NamedArgument, Node, Program, Renaming, rewritten

_NAME, _SIZE = "group_name", "group_size"


class ProcessGroup(msgspec.Struct, frozen=True):
    """A process group that operators of a program name."""

    name: str
    sizes: list[int]
    """The numbers of processes that its operators state: none or one. A program that states several cannot run."""
    operators: dict[str, int]
    """The number of calls of each operator that names the group, by the operator's serialized name."""
    nodes: list[str]
    """The nodes that name it, by name (by target if they have no name)."""
    saved_size: int | None = None
    """How many processes it had where the program was saved; None if that was outside of a job."""


def named_groups(
    graphs: Iterable[Graph],
    saved_sizes: Mapping[str, int] = MappingProxyType({}),
    includes: Callable[[str], bool] = lambda operator: True,
) -> list[ProcessGroup]:
    """Return the process groups that graphs name, in the order of their first use.

    Args:
        graphs: a graph and all graphs inside it.
        saved_sizes: `Program.group_sizes`.
        includes: whether to include an operator, by its serialized name.
    """
    found: dict[str, ProcessGroup] = {}
    for node in (node for graph in graphs for node in graph.nodes):
        for named in node.inputs:
            if named.name != _NAME or (name := named.arg.as_string) is None:
                continue
            operator = _operator_of(node)
            if not includes(operator):
                continue
            group = found.setdefault(name, ProcessGroup(name, [], {}, [], saved_sizes.get(name)))
            group.operators[operator] = group.operators.get(operator, 0) + 1
            group.nodes.append(_name_of(node))
            size = next((each.arg.as_int for each in node.inputs if each.name == _SIZE), None)
            if size is not None and size not in group.sizes:
                group.sizes.append(size)
    return list(found.values())


def _operator_of(node: Node) -> str:
    """Return the operator that a node calls: for a higher-order one (`auto_functionalized`), the operator given to it."""
    given = (each.arg.as_operator for each in node.inputs)
    return next((name for name in given if name is not None), node.target)


def _name_of(node: Node) -> str:
    return node.name or node.target


def with_group_names(
    program: Program, names: Mapping[str, str], steps: list[StepReport] | None = None
) -> Program:
    """Return a program whose collectives name other process groups; the same object if nothing changes.

    All names are replaced at once, so two may be exchanged.

    Args:
        names: the new names, by the names in the program.
        steps: receives each replaced name and its nodes.

    Raises:
        DecodeError: the program does not name one of these groups.
    """
    if not names:
        return program
    module = program.graph_module
    done: dict[int, tuple[Graph, Graph]] = {}
    users: dict[str, list[str]] = {}

    def inside(held: GraphArgument) -> GraphArgument:
        graph = renamed(held.graph)
        return held if graph is held.graph else replace(held, graph=graph)

    renaming = Renaming(str, inside)

    def renamed_input(node: Node, named: NamedArgument) -> NamedArgument:
        if named.name == _NAME and (name := named.arg.as_string) is not None:
            users.setdefault(name, []).append(_name_of(node))
            new = names.get(name, name)
            return named if new == name else replace(named, arg=Argument(as_string=new))
        argument = rewritten(named.arg, renaming)
        return named if argument is named.arg else replace(named, arg=argument)

    def renamed_node(node: Node) -> Node:
        inputs = [renamed_input(node, named) for named in node.inputs]
        return node if all(map(is_, inputs, node.inputs)) else replace(node, inputs=inputs)

    def renamed(graph: Graph) -> Graph:
        if id(graph) not in done:  # several nodes may share a graph
            nodes = list(map(renamed_node, graph.nodes))
            same = all(map(is_, nodes, graph.nodes))
            done[id(graph)] = graph, graph if same else replace(graph, nodes=nodes)
        return done[id(graph)][1]

    graph = renamed(module.graph)
    if unknown := [name for name in names if name not in users]:
        listed = ", ".join(map(repr, users))
        raise DecodeError(
            f"groups= has {', '.join(map(repr, unknown))}, which the program does not name",
            remedy=f"It names {listed}" if users else "It names no process group",
        )
    if steps is not None:
        steps += [
            StepReport(f"process group {old!r} → {new!r}", users[old])
            for old, new in names.items()
            if new != old
        ]
    if graph is module.graph:
        return program
    sizes = {names.get(name, name): size for name, size in program.group_sizes.items()}
    return replace(program, graph_module=replace(module, graph=graph), group_sizes=sizes)
