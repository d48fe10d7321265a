"""The content tree of a graph: nodes in canonical order, values named by position.

    {"inputs": [ARGUMENT…], "nodes": [NODE…], "outputs": [ARGUMENT…], "single": true, "values": [VALUE…]}

A node is `{"inputs": [[PARAMETER, ARGUMENT]…], "operator": NAME, "outputs": [ARGUMENT…], "results": NAME, "tuple": true}`, a
value `[NAME, KIND, …]`. Keys that do not apply are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from graphwire import schema
from graphwire.analysis.canonical.node_order import Effect, Step, effect_of, node_order
from graphwire.analysis.canonical.symbol_names import content_bytes, content_float, digest, treespec_content

# ------------------------------------------------------------------------------------------- content trees of arguments
# one form for each meaning, although the schema may have several variants for it.
#
# Literals are themselves: None, bool, int, float, text. Anything else is a list that begins with its kind:
#
#     ["list", …]   ["mapping", [KEY, VALUE], …]   ["slice", START, STOP, STEP]   ["complex", REAL, IMAG]
#     ["dtype", NAME]   ["layout", NAME]   ["memory format", NAME]   ["constant", NAME]   ["treespec", CONTENT]
#     [KIND, …]   a literal of another kind: `kind` from the row of its variant, then its text or its record's fields
#     ["value", NAME]   ["results", NAME]   ["object", CLASS, NAME]   ["graph", CONTENT]
#
# The forms in the last line are references. Their name or content is filled in later, in place.


class References(NamedTuple):
    """The references found in arguments, in order. Each comes with the list whose last item is to be filled in."""

    values: list[tuple[list[Any], str]]
    """References to values and objects by name, and to nodes by the key that `results_of` returns."""
    graphs: list[tuple[list[Any], schema.Graph]]


Content: TypeAlias = Callable[[Any, References], Any]


def argument_content(argument: schema.Argument, found: References) -> Any:
    """Return the content of an argument. Adds its references to `found`; they are None until they are filled in."""
    if argument.as_tensor is not None:
        return _value(argument.as_tensor.name, found)
    for variant, content in _VARIANTS:
        held = getattr(argument, variant)
        if held is not None:
            return content(held, found)
    return ["nothing"]


def layout_content(layout: schema.Layout, name: str | None = None) -> str:
    """Return torch's name of a layout, including layouts without a number in the schema."""
    return name or schema.LAYOUT_NAMES.get(layout, "unknown")


def _value(name: str, found: References) -> list[Any]:
    place = ["value", None]
    found.values.append((place, name))
    return place


def _tensor(argument: schema.TensorArgument, found: References) -> Any:
    return _value(argument.name, found)


def _optional_tensor(argument: schema.OptionalTensorArgument, found: References) -> Any:
    return None if argument.as_tensor is None else _value(argument.as_tensor.name, found)


def _sym_int_argument(argument: schema.SymIntArgument, found: References) -> Any:
    return argument.as_int if argument.as_name is None else _value(argument.as_name, found)


def _sym_float_argument(argument: schema.SymFloatArgument, found: References) -> Any:
    if argument.as_name is not None:
        return _value(argument.as_name, found)
    return None if argument.as_float is None else content_float(argument.as_float)


def _sym_bool_argument(argument: schema.SymBoolArgument, found: References) -> Any:
    return argument.as_bool if argument.as_name is None else _value(argument.as_name, found)


def _object(argument: schema.CustomObjArgument, found: References) -> Any:
    place = ["object", argument.class_fqn, None]
    found.values.append((place, argument.name))
    return place


def _results(node: str, found: References) -> Any:
    place = ["results", None]
    found.values.append((place, schema.results_of(node)))
    return place


def _graph(argument: schema.GraphArgument, found: References) -> Any:
    place = ["graph", None]
    found.graphs.append((place, argument.graph))
    return place


def _sequence(value: schema.SequenceValue, found: References) -> Any:
    # `map` adds no Python frame, so values can nest 50 % deeper before the recursion limit.
    return ["list", *map(argument_content, value.items, repeat(found))]


def _mapping(entries: list[schema.MappingEntry], found: References) -> Any:
    pairs = [[argument_content(each.key, found), argument_content(each.value, found)] for each in entries]
    return ["mapping", *pairs]


def _text_mapping(entries: dict[str, schema.Argument], found: References) -> Any:
    return ["mapping", *[[key, argument_content(value, found)] for key, value in entries.items()]]


def _slice(value: schema.SliceValue, found: References) -> Any:
    return ["slice", *map(argument_content, (value.start, value.stop, value.step), repeat(found))]


def _complex(value: schema.ComplexValue, _found: References) -> Any:
    return ["complex", content_float(value.real), content_float(value.imag)]


def _treespec(value: str | schema.TreespecArgument, _found: References) -> Any:
    return ["treespec", treespec_content(value if isinstance(value, str) else value.spec)]


def _listed(content: Content) -> Content:
    return lambda items, found: ["list", *[content(item, found) for item in items]]


def _kind(kind: str, name: Callable[[Any], Any]) -> Content:
    return lambda value, _found: [kind, name(value)]


def _literal(kind: str) -> Content:
    """Return a function that gives a literal unchanged if `kind` is empty, and otherwise its kind with its text or fields."""
    if not kind:
        return lambda value, _found: value
    return lambda value, _found: [kind, *(astuple(value) if isinstance(value, Struct) else (value,))]


_CONTENT: Final[dict[str, Content]] = {
    "as_tensor": _tensor,
    "as_sym_int": _sym_int_argument,
    "as_none": lambda _value, _found: None,
    "as_float": lambda value, _found: content_float(value),
    "as_scalar_type": _kind("dtype", lambda value: schema.DTYPE_NAMES.get(value, "unknown")),
    "as_graph": _graph,
    "as_memory_format": _kind(
        "memory format", lambda value: schema.MEMORY_FORMAT_NAMES.get(value, "unknown")
    ),
    "as_layout": _kind("layout", layout_content),
    "as_sym_bool": _sym_bool_argument,
    "as_custom_obj": _object,
    "as_sym_float": _sym_float_argument,
    "as_optional_tensor": _optional_tensor,
    "as_complex": _complex,
    "as_string_to_argument": _text_mapping,
    "as_sequence": _sequence,
    "as_mapping": _mapping,
    "as_slice": _slice,
    "as_constant": _kind("constant", lambda value: value if isinstance(value, str) else value.name),
    "as_treespec": _treespec,
    "as_results": _results,
}
"""The content function of each variant that is neither a plain literal nor a list of another variant's values."""

ARGUMENT_CONTENT: Final[dict[str, Content]] = schema.by_variant(
    {
        **{variant: _literal(row.kind) for variant, row in schema.VARIANTS.items() if not row.items},
        **_CONTENT,
    },
    _listed,
)
"""The content function of each argument variant, the frequent variants first."""

_VARIANTS: Final = tuple(
    (variant, content) for variant, content in ARGUMENT_CONTENT.items() if variant != "as_tensor"
)


ExpressionContent = Callable[[str], Any]
"""A function that returns the content of an expression's text, with the new names of its symbols."""


class ArrangedGraph(NamedTuple):
    """A graph with the canonical order of its nodes and the canonical names of its values."""

    graph: schema.Graph
    """The original graph."""
    names: dict[str, str]
    """The new name of each value, in order. If all results of a node are read together, also its name, under `results_of`."""
    order: list[int]
    """The original indices of the nodes, in canonical order."""
    effect: Effect
    """The greatest of the nodes' effects."""
    content: dict[str, Any]
    """The content tree. Before `add_known_values` it lacks values, and has a digest in place of each subgraph."""
    inside: list[list[tuple[list[Any], ArrangedGraph]]]
    """For each node, in original order, its subgraphs: each with the list in the content whose last item it becomes."""
    nameless: list[tuple[list[Any], str]]
    """References to objects that are not values, in order: constants that have no input."""


def arrange_graph(graph: schema.Graph, input_names: Sequence[str | None] = ()) -> ArrangedGraph:
    """Return the canonical order and names of a graph, with its content except for values and subgraphs.

    Args:
        graph: a valid graph, with inputs and outputs in their final order.
        input_names: names of the inputs by position, used for literals if the graph has no `input_names`.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
    """
    outside = References([], [])
    inputs = [argument_content(argument, outside) for argument in graph.inputs]
    given = [name for _, name in outside.values]
    outputs = [argument_content(argument, outside) for argument in graph.outputs]
    taken = outside.values[len(given) :]
    drafts = list(map(_draft, graph.nodes))
    steps = _steps(graph, drafts, taken)
    order = node_order(given, steps, [name for _, name in taken])
    names = _value_names(graph, input_names, [steps[index] for index in order])
    nameless = _fill_names(names, [*(drafts[index].found for index in order), outside])
    nodes = []
    for index in order:
        draft, node = drafts[index], graph.nodes[index]
        content: dict[str, Any] = {"inputs": draft.inputs, "operator": node.target, "outputs": draft.outputs}
        if node.name is not None and (name := names.get(schema.results_of(node.name))) is not None:
            content["results"] = name
        if draft.is_tuple:
            content["tuple"] = True
        nodes.append(content)
    whole: dict[str, Any] = {"inputs": inputs, "nodes": nodes, "outputs": outputs}
    if graph.is_single_tensor_return:
        whole["single"] = True
    effect = max((step.effect for step in steps), default=Effect.PURE)
    return ArrangedGraph(graph, names, order, effect, whole, [draft.inside for draft in drafts], nameless)


def steps_of(graph: schema.Graph) -> list[Step]:
    """Return the step of each node: the facts that the canonical order depends on."""
    outside = References([], [])
    for argument in graph.outputs:
        argument_content(argument, outside)
    return _steps(graph, list(map(_draft, graph.nodes)), outside.values)


class _Draft(NamedTuple):
    """The content of a node's arguments, before its values are named."""

    inputs: list[list[Any]]
    outputs: list[Any]
    is_tuple: bool
    """Whether the only result is returned as a tuple of one."""
    found: References
    """The references in the inputs, then those in the outputs."""
    uses: int
    """The number of references in the inputs."""
    inside: list[tuple[list[Any], ArrangedGraph]]


def _draft(node: schema.Node) -> _Draft:
    found = References([], [])
    named = node.inputs
    if len(named) > 1 and named[-1].name:
        named = sorted(named, key=lambda each: each.name)  # inputs without a name stay first, in their order
    inputs = [[each.name, argument_content(each.arg, found)] for each in named]
    uses = len(found.values)
    outputs = [argument_content(output, found) for output in node.outputs]
    is_tuple = node.is_hop_single_tensor_return is False and len(outputs) == 1 and len(found.values) > uses
    inside = []
    for place, graph in found.graphs:
        form = arrange_graph(graph)
        place[-1] = digest(content_bytes(form.content))
        inside.append((place, form))
    return _Draft(inputs, outputs, is_tuple, found, uses, inside)


def _steps(
    graph: schema.Graph, drafts: Sequence[_Draft], taken: Iterable[tuple[list[Any], str]]
) -> list[Step]:
    """Return the step of each node.

    Args:
        taken: the references in the outputs of the graph.
    """
    every = (pair for pairs in (*(draft.found.values for draft in drafts), taken) for pair in pairs)
    read_whole = {name for place, name in every if place[0] == "results"}
    steps = []
    for node, draft in zip(graph.nodes, drafts, strict=True):
        references = [name for _, name in draft.found.values]
        makes = references[draft.uses :]
        if read_whole and node.name is not None and schema.results_of(node.name) in read_whole:
            makes.append(schema.results_of(node.name))
        shape = content_bytes([draft.inputs, draft.is_tuple, len(makes)])
        effect = effect_of(node, [each.effect for _, each in draft.inside])
        steps.append(Step(node.target, shape, tuple(references[: draft.uses]), tuple(makes), effect))
    return steps


def _value_names(
    graph: schema.Graph, input_names: Sequence[str | None], steps: Iterable[Step]
) -> dict[str, str]:
    given = graph.input_names or input_names
    names: dict[str, str] = {}
    for index, argument in enumerate(graph.inputs):
        names.update((name, f"in_{index}") for name in schema.names_in(argument))
        literal = given[index] if index < len(given) else None
        if literal is not None:
            names.setdefault(literal, f"in_{index}")
    made = (name for step in steps for name in step.makes)
    for index, name in enumerate(made):
        names.setdefault(name, f"v_{index}")
    return names


def _fill_names(names: Mapping[str, str], every: Iterable[References]) -> list[tuple[list[Any], str]]:
    """Fill the new names into references. Returns the references to objects without a new name."""
    nameless = []
    for found in every:
        for place, name in found.values:
            new = names.get(name)
            place[-1] = name.removeprefix(schema.results_of("")) if new is None else new
            if new is None and place[0] == "object":
                nameless.append((place, name))
    return nameless


# --------------------------------------------------------------------------------------------------------- values


def walk(form: ArrangedGraph) -> Iterator[ArrangedGraph]:
    """Yield a graph, then the graphs inside it, in canonical order of their nodes."""
    yield form
    for index in form.order:
        for _, inner in form.inside[index]:
            yield from walk(inner)


def expressions_of(form: ArrangedGraph) -> Iterator[str]:
    """Yield the text of every expression in a graph's values, in canonical order of the values."""
    graph = form.graph
    numbers = (graph.sym_int_values, graph.sym_float_values, graph.sym_bool_values)
    for name in form.names:
        meta = graph.tensor_values.get(name)
        values: Iterable[schema.SymInt | schema.SymFloat | schema.SymBool | None]
        if meta is not None:
            values = (*meta.sizes, *meta.strides, meta.storage_offset)
        else:
            values = [table.get(name) for table in numbers]
        for value in values:
            if value is not None and value.as_expr is not None:
                yield value.as_expr.expr_str


def add_known_values(
    form: ArrangedGraph, expression: ExpressionContent, known: dict[int, msgspec.Raw]
) -> None:
    """Add the facts about values to the content of a graph, and the content of subgraphs to that of its nodes.

    Args:
        known: a cache of the content of tensors by the id of their metas. This function adds to it.
    """
    graph = form.graph
    values: list[list[Any]] = []
    for old, new in form.names.items():
        if (meta := graph.tensor_values.get(old)) is not None:
            content = known.get(id(meta))
            if content is None:
                content = known[id(meta)] = msgspec.Raw(content_bytes(tensor_content(meta, expression)))
            values.append([new, "tensor", content])
        if (number := graph.sym_int_values.get(old)) is not None:
            values.append([new, "int", _sym_int(number, expression)])
        if (real := graph.sym_float_values.get(old)) is not None:
            values.append([new, "float", _sym_float(real, expression)])
        if (truth := graph.sym_bool_values.get(old)) is not None:
            values.append([new, "bool", _sym_bool(truth, expression)])
        if (held := graph.custom_obj_values.get(old)) is not None:
            values.append([new, "object", held.class_fqn])
    form.content["values"] = values
    for inside in form.inside:
        for place, inner in inside:
            add_known_values(inner, expression, known)
            place[-1] = inner.content


def tensor_content(meta: schema.TensorMeta, expression: ExpressionContent) -> dict[str, Any]:
    """Return the content of a tensor's metadata."""
    return {
        "device": [meta.device.type, meta.device.index],
        "dtype": meta.dtype_text,
        "layout": layout_content(meta.layout, meta.layout_name),
        "offset": _sym_int(meta.storage_offset, expression),
        "requires_grad": meta.requires_grad,
        "sizes": [_sym_int(size, expression) for size in meta.sizes],
        "strides": [_sym_int(stride, expression) for stride in meta.strides],
    }


def _sym_int(value: schema.SymInt, expression: ExpressionContent) -> Any:
    return value.as_int if value.as_expr is None else expression(value.as_expr.expr_str)


def _sym_float(value: schema.SymFloat, expression: ExpressionContent) -> Any:
    if value.as_expr is not None:
        number = expression(value.as_expr.expr_str)
        return float(number) if type(number) is int and abs(number) < 1 << 53 else number
    return None if value.as_float is None else content_float(value.as_float)


def _sym_bool(value: schema.SymBool, expression: ExpressionContent) -> Any:
    return value.as_bool if value.as_expr is None else expression(value.as_expr.expr_str)
