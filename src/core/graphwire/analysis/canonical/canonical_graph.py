"""The canonical form of one graph as records: nodes in canonical order, values and subgraphs named by position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import astuple

from graphwire.analysis.canonical.graph_content import ArrangedGraph
from graphwire.schema import (
    ARMS,
    Argument,
    CustomObjArgument,
    Graph,
    GraphArgument,
    NamedArgument,
    Node,
    Renaming,
    arm_of,
    results_of,
    rewritten,
)

Value = TypeVar("Value")


def canonical_graph(form: ArrangedGraph) -> Graph:
    """Return the canonical form of a graph. Symbols keep their names. The result shares the records of values, and the
    arguments that do not change, with the original graph."""
    graph, names = form.graph, form.names
    inside = {id(inner.graph): inner for each in form.inside for _, inner in each}
    subgraphs: dict[str, str] = {}

    def named(held: GraphArgument) -> GraphArgument:
        name = subgraphs.setdefault(held.name, f"graph_{len(subgraphs)}")
        return GraphArgument(name, canonical_graph(inside[id(held.graph)]))

    renaming = Renaming(
        lambda name: names.get(name, name), named, lambda name: names.get(results_of(name), name)
    )
    return Graph(
        inputs=[canonical_argument(argument, renaming) for argument in graph.inputs],
        nodes=[_node(graph.nodes[index], names, renaming) for index in form.order],
        outputs=[canonical_argument(argument, renaming) for argument in graph.outputs],
        tensor_values=_table(graph.tensor_values, names),
        sym_int_values=_table(graph.sym_int_values, names),
        sym_bool_values=_table(graph.sym_bool_values, names),
        is_single_tensor_return=graph.is_single_tensor_return,
        custom_obj_values={
            name: CustomObjArgument(names.get(value.name, value.name), value.class_fqn)
            for name, value in _table(graph.custom_obj_values, names).items()
        },
        sym_float_values=_table(graph.sym_float_values, names),
    )


def _table(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the table with the new names, in their order, without values that the graph does not have."""
    return {new: values[old] for old, new in names.items() if old in values}


# ------------------------------------------------------------------------------------------------ nodes, arguments


def _node(node: Node, names: Mapping[str, str], renaming: Renaming) -> Node:
    return Node(
        node.target,
        [
            NamedArgument(named.name, canonical_argument(named.arg, renaming), named.kind)
            for named in node.inputs
        ],
        [rewritten(argument, renaming) for argument in node.outputs],
        {},
        is_hop_single_tensor_return=node.is_hop_single_tensor_return,
        name=names.get(results_of(node.name)) if node.name is not None else None,
        propagate=node.propagate,
    )


def canonical_argument(argument: Argument, renaming: Renaming) -> Argument:
    """Return the argument with its references renamed, in the canonical one of the arms that can encode it."""
    if argument.as_tensor is not None:
        return rewritten(argument, renaming)
    return rewritten(_simplest(argument), renaming)


def _simplest(argument: Argument) -> Argument:
    arm = arm_of(argument)
    if arm in _LITERALS:
        one = getattr(argument, arm)
        return argument if one.as_name is not None else Argument(**{_LITERALS[arm]: astuple(one)[1]})
    if (single := ARMS[arm].items if arm else "") in _LITERALS:
        many = getattr(argument, arm)
        if any(one.as_name is not None for one in many):
            return argument
        literals: dict[str, Any] = {f"{_LITERALS[single]}s": [astuple(one)[1] for one in many]}
        argument = Argument(**literals)
    if (optional := argument.as_optional_tensor) is not None:
        tensor = optional.as_tensor
        return Argument(as_none=True) if tensor is None else Argument(as_tensor=tensor)
    if (optionals := argument.as_optional_tensors) is not None:
        tensors = [each.as_tensor for each in optionals if each.as_tensor is not None]
        argument = argument if len(tensors) != len(optionals) else Argument(as_tensors=tensors)
    if arm in _LISTS and not getattr(argument, arm_of(argument)):
        return Argument(as_tensors=[])
    return argument


_LITERALS = {"as_sym_int": "as_int", "as_sym_float": "as_float", "as_sym_bool": "as_bool"}
"""The literal's arm for each arm of a possibly symbolic number."""

_LISTS = frozenset(arm for arm, row in ARMS.items() if row.items)
"""The list arms. An empty one always means the empty list, which is encoded as `as_tensors`."""
