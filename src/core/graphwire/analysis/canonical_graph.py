"""The canonical form of one graph: its nodes in their stable order, its values and subgraphs named by their place."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from graphwire.analysis.effects import Effect, effect_of
from graphwire.analysis.node_order import Step, node_order
from graphwire.analysis.references import Renaming, names_in, results_of, rewritten
from graphwire.schema.graph import (
    Argument,
    CustomObjArgument,
    Graph,
    GraphArgument,
    NamedArgument,
    Node,
    OptionalTensorArgument,
)

__all__ = [
    "CanonicalGraph",
    "canonical_argument",
    "canonical_graph",
    "nodes_read_whole",
    "step_of",
    "subgraphs_of",
]

Value = TypeVar("Value")


class CanonicalGraph(NamedTuple):
    """A graph in canonical form, and what was found on the way there."""

    graph: Graph
    """New from top to bottom, except for the records of values. Symbols have the names that they had."""
    names: dict[str, str]
    """The new name of each value."""
    order: list[int]
    """The indices that the nodes had."""
    effect: Effect
    """The greatest of the nodes' effects."""
    digest: str
    """Of everything in it but what is known of its values: operators, arguments, and how they are connected."""


def canonical_graph(graph: Graph, input_names: Sequence[str | None] = ()) -> CanonicalGraph:
    """The canonical form of a graph.

    Args:
        graph: valid, its inputs and outputs in their final order.
        input_names: names of the inputs that are literals, by position, where the graph does not say them.

    Raises:
        SchemaError: nodes wait for each other's results.
    """
    inside = [[canonical_graph(held.graph) for held in subgraphs_of(node)] for node in graph.nodes]
    inputs = [name for argument in graph.inputs for name in names_in(argument)]
    outputs = [name for argument in graph.outputs for name in names_in(argument)]
    whole = nodes_read_whole(graph)
    steps = [step_of(node, forms, whole) for node, forms in zip(graph.nodes, inside, strict=True)]
    order = node_order(inputs, steps, outputs)
    names = _value_names(graph, input_names, [steps[index] for index in order])
    subgraphs: dict[str, str] = {}

    def renaming(forms: Iterable[CanonicalGraph] = ()) -> Renaming:
        pending = iter(forms)

        def named(held: GraphArgument) -> GraphArgument:
            name = subgraphs.setdefault(held.name, f"graph_{len(subgraphs)}")
            return GraphArgument(name, next(pending).graph)

        return Renaming(
            lambda name: names.get(name, name), named, lambda name: names.get(results_of(name), name)
        )

    nodes = [_node(graph.nodes[index], names, renaming(inside[index])) for index in order]
    form = Graph(
        inputs=[canonical_argument(argument, renaming()) for argument in graph.inputs],
        outputs=[canonical_argument(argument, renaming()) for argument in graph.outputs],
        nodes=nodes,
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
    effect = max((step.effect for step in steps), default=Effect.PURE)
    return CanonicalGraph(form, names, order, effect, _structure(form, [steps[index] for index in order]))


def subgraphs_of(node: Node) -> list[GraphArgument]:
    """The subgraphs among a node's arguments, not those inside them."""
    found: list[GraphArgument] = []

    def note(held: GraphArgument) -> GraphArgument:
        found.append(held)
        return held

    for named in node.inputs:
        if named.arg.as_tensor is None:
            rewritten(named.arg, Renaming(str, note))
    return found


def nodes_read_whole(graph: Graph) -> frozenset[str]:
    """The names of the nodes all of whose results are read together."""
    read = [named.arg for node in graph.nodes for named in node.inputs if named.arg.as_tensor is None]
    found: set[str] = set()

    def note(name: str) -> str:
        found.add(name)
        return name

    for argument in (*read, *graph.outputs):
        rewritten(argument, Renaming(str, lambda held: held, note))
    return frozenset(found)


def step_of(node: Node, forms: Sequence[CanonicalGraph], read_whole: Collection[str]) -> Step:
    """What the order of nodes depends on of this one.

    Args:
        forms: of its subgraphs, in order.
        read_whole: what `nodes_read_whole` says of the graph.
    """
    pending = iter(forms)
    uses: list[str] = []

    def blank(name: str) -> str:
        uses.append(name)
        return ""

    def digest(_held: GraphArgument) -> GraphArgument:
        return GraphArgument(next(pending).digest, _NO_GRAPH)

    renaming = Renaming(blank, digest, lambda name: blank(results_of(name)))
    inputs = [_named_argument(named, renaming) for named in node.inputs]
    makes = tuple([name for argument in node.outputs for name in names_in(argument)])
    if node.name in read_whole:
        makes = (*makes, results_of(node.name or ""))
    shape = msgspec.json.encode([inputs, node.is_hop_single_tensor_return, len(makes)])
    return Step(node.target, shape, tuple(uses), makes, effect_of(node, (form.effect for form in forms)))


_NO_GRAPH = Graph([], [], [], {}, {}, {})


def _value_names(graph: Graph, input_names: Sequence[str | None], steps: Iterable[Step]) -> dict[str, str]:
    given = graph.input_names or input_names
    names: dict[str, str] = {}
    for index, argument in enumerate(graph.inputs):
        names.update((name, f"in_{index}") for name in names_in(argument))
        literal = given[index] if index < len(given) else None
        if literal is not None:
            names.setdefault(literal, f"in_{index}")
    made = (name for step in steps for name in step.makes)
    for index, name in enumerate(made):
        names.setdefault(name, f"v_{index}")
    return names


def _table(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """What is known of the values that there are, in their order."""
    return {new: values[old] for old, new in names.items() if old in values}


def _structure(form: Graph, steps: Iterable[Step]) -> str:
    """A digest of a canonical graph without what is known of its values, and with digests in place of its subgraphs."""
    interface: list[Any] = [form.inputs, form.outputs, form.is_single_tensor_return]
    found = hashlib.blake2b(msgspec.json.encode(interface), digest_size=16)
    renamed = ([name for named in node.inputs for name in names_in(named.arg)] for node in form.nodes)
    for step, used in zip(steps, renamed, strict=True):
        found.update(msgspec.json.encode([step.operator, step.shape, used]))
    return found.hexdigest()


# ------------------------------------------------------------------------------------------------ nodes, arguments


def _node(node: Node, names: Mapping[str, str], renaming: Renaming) -> Node:
    return Node(
        node.target,
        [_named_argument(named, renaming) for named in node.inputs],
        [rewritten(argument, renaming) for argument in node.outputs],
        {},
        is_hop_single_tensor_return=node.is_hop_single_tensor_return,
        name=names.get(results_of(node.name)) if node.name is not None else None,
        propagate=node.propagate,
    )


def _named_argument(named: NamedArgument, renaming: Renaming) -> NamedArgument:
    return NamedArgument(named.name, canonical_argument(named.arg, renaming), named.kind)


def canonical_argument(argument: Argument, renaming: Renaming) -> Argument:
    """The argument with its references renamed, in the one arm of several that could say it."""
    if argument.as_tensor is not None:
        return rewritten(argument, renaming)
    return rewritten(_simplest(argument), renaming)


def _simplest(argument: Argument) -> Argument:
    for arm, single, literal in _SYMBOLIC:
        if (one := getattr(argument, single)) is not None:
            return argument if one.as_name is not None else Argument(**{literal: getattr(one, literal)})
        if (many := getattr(argument, arm)) is not None:
            if any(one.as_name is not None for one in many):
                return argument
            literals: dict[str, Any] = {f"{literal}s": [getattr(one, literal) for one in many]}
            argument = Argument(**literals)
            break
    if (optional := argument.as_optional_tensor) is not None:
        return _optional(optional)
    if (optionals := argument.as_optional_tensors) is not None:
        tensors = [each.as_tensor for each in optionals if each.as_tensor is not None]
        argument = argument if len(tensors) != len(optionals) else Argument(as_tensors=tensors)
    if any(getattr(argument, arm) == [] for arm in _LISTS):
        return Argument(as_tensors=[])
    return argument


def _optional(argument: OptionalTensorArgument) -> Argument:
    return Argument(as_none=True) if argument.as_tensor is None else Argument(as_tensor=argument.as_tensor)


_SYMBOLIC = (
    ("as_sym_ints", "as_sym_int", "as_int"),
    ("as_sym_floats", "as_sym_float", "as_float"),
    ("as_sym_bools", "as_sym_bool", "as_bool"),
)
"""The list arm and the single arm of what may be symbolic, and the arm of a literal."""

_LISTS = (
    "as_ints as_floats as_strings as_bools as_sym_ints as_sym_floats as_sym_bools as_optional_tensors"
    " as_nested_tensors as_int_lists as_float_lists"
).split()
"""The list arms which, empty, all mean the empty list. `as_tensors` stands for them."""
