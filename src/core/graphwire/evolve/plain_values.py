"""Converts arguments to plain values and back; upgraders read and write plain values instead of unions of variants.

A value of the graph is a `Value`, a literal is a Python literal, element types and devices are records of `schema.values`.
An argument without a plain form (a subgraph, an operator, a complex number …) stays the `Argument` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from graphwire import schema


class Value(msgspec.Struct, frozen=True):
    """A reference to a value of a graph, by its name."""

    name: str
    kind: str = "tensor"
    """A key of `schema.VALUE_TABLES`."""
    class_fqn: str = ""
    """The class of a `custom_obj`."""


_SYMBOLIC = {
    "sym_int": schema.SymIntArgument,
    "sym_float": schema.SymFloatArgument,
    "sym_bool": schema.SymBoolArgument,
}


# -------------------------------------------------------------------------------------------------------- reading


def decode_value(argument: schema.Argument) -> Any:
    """Return the plain value of an argument: lists as lists, tuples of a general sequence as tuples."""
    if not (variant := schema.variant_of(argument)):
        return argument
    content = getattr(argument, variant)
    if (decode := _DECODERS.get(variant)) is not None:
        return decode(content)
    decode = _DECODERS.get(schema.VARIANTS[variant].items)
    return argument if decode is None else [decode(item) for item in content]


def _decode_symbolic(kind: str) -> Callable[[Any], Any]:
    def decode(content: Any) -> Any:
        if content.as_name is not None:
            return Value(content.as_name, kind)
        literal = getattr(content, content.__struct_fields__[1])
        return schema.decode_float(literal) if kind == "sym_float" else literal

    return decode


def _decode_optional(content: schema.OptionalTensorArgument) -> Value | None:
    return None if content.as_tensor is None else Value(content.as_tensor.name)


def _decode_sequence(content: schema.SequenceValue) -> Any:
    items = [decode_value(item) for item in content.items]
    return tuple(items) if content.kind == "tuple" else items


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "as_none": lambda _: None,
    "as_tensor": lambda content: Value(content.name),
    "as_float": schema.decode_float,
    **dict.fromkeys(
        ("as_int", "as_string", "as_bool", "as_scalar_type", "as_memory_format", "as_layout", "as_device"),
        lambda content: content,
    ),
    "as_sym_int": _decode_symbolic("sym_int"),
    "as_sym_float": _decode_symbolic("sym_float"),
    "as_sym_bool": _decode_symbolic("sym_bool"),
    "as_optional_tensor": _decode_optional,
    "as_custom_obj": lambda content: Value(content.name, "custom_obj", content.class_fqn),
    "as_sequence": _decode_sequence,
    "as_string_to_argument": lambda content: {key: decode_value(item) for key, item in content.items()},
}
"""The decoder of each variant that has a plain value. Lists of such variants have one, too; lists of lists do not."""


# -------------------------------------------------------------------------------------------------------- writing


def encode_value(value: Any) -> schema.Argument:
    """Return the argument that represents a plain value, in a variant that torch's own reader supports where there is one.

    Raises:
        TypeError: no variant represents the value.
    """
    if isinstance(value, schema.Argument):
        return value
    if isinstance(value, Value):
        return _encode_reference(value)
    if isinstance(value, (list, tuple)):
        return _encode_sequence(value)
    encode = _ENCODERS.get(type(value))
    if encode is None:
        raise TypeError(f"no argument can represent a {type(value).__name__} ({value!r:.80})")
    return encode(value)


_ENCODERS: dict[type, Callable[[Any], schema.Argument]] = {
    type(None): lambda _: schema.Argument(as_none=True),
    bool: lambda value: schema.Argument(as_bool=value),
    int: lambda value: schema.Argument(as_int=value),
    float: lambda value: schema.Argument(as_float=schema.encode_float(value)),
    str: lambda value: schema.Argument(as_string=value),
    dict: lambda value: schema.Argument(as_string_to_argument={k: encode_value(v) for k, v in value.items()}),
    schema.ScalarType: lambda value: schema.Argument(as_scalar_type=value),
    schema.MemoryFormat: lambda value: schema.Argument(as_memory_format=value),
    schema.Layout: lambda value: schema.Argument(as_layout=value),
    schema.Device: lambda value: schema.Argument(as_device=value),
}


def _encode_reference(value: Value) -> schema.Argument:
    if value.kind == "tensor":
        return schema.Argument(as_tensor=schema.TensorArgument(value.name))
    if value.kind == "custom_obj":
        return schema.Argument(as_custom_obj=schema.CustomObjArgument(value.name, value.class_fqn))
    return _argument(value.kind, _symbolic(value.kind, value))


def _encode_sequence(values: Sequence[Any]) -> schema.Argument:
    kinds = {item.kind if isinstance(item, Value) else type(item) for item in values}
    if not kinds or kinds == {"tensor"}:
        return schema.Argument(as_tensors=[schema.TensorArgument(item.name) for item in values])
    if kinds == {"tensor", type(None)}:
        return schema.Argument(as_optional_tensors=[_optional(item) for item in values])
    for literal, plural in ((bool, "bools"), (int, "ints"), (float, "floats"), (str, "strings")):
        if kinds == {literal}:
            items = [schema.encode_float(item) for item in values] if literal is float else list(values)
            return _argument(plural, items)
    for literal, kind in ((int, "sym_int"), (float, "sym_float"), (bool, "sym_bool")):
        if kinds <= {literal, kind}:
            return _argument(f"{kind}s", [_symbolic(kind, item) for item in values])
    elements = [encode_value(item) for item in values]
    return schema.Argument(
        as_sequence=schema.SequenceValue("tuple" if isinstance(values, tuple) else "list", elements)
    )


def _argument(kind: str, content: Any) -> schema.Argument:
    return schema.Argument(**{f"as_{kind}": content})


def _optional(value: Value | None) -> schema.OptionalTensorArgument:
    if value is None:
        return schema.OptionalTensorArgument(as_none=True)
    return schema.OptionalTensorArgument(as_tensor=schema.TensorArgument(value.name))


def _symbolic(kind: str, value: Any) -> Any:
    record = _SYMBOLIC[kind]
    if isinstance(value, Value):
        return record(as_name=value.name)
    literal: Any = schema.encode_float(value) if kind == "sym_float" else value
    return record(**{record.__struct_fields__[1]: literal})


# -------------------------------------------------------------------------------------------------------- walking


def defined_values(argument: schema.Argument) -> Iterator[Value]:
    """Return the values that an output of a node, or an input of a graph, defines."""
    plain = decode_value(argument)
    if isinstance(plain, Value):
        yield plain
    elif isinstance(plain, list) and argument.as_sequence is None:  # of one kind
        yield from (each for each in plain if isinstance(each, Value))
    else:
        for _, item in schema.arguments_in(argument):
            yield from defined_values(item)


def subgraphs(argument: schema.Argument) -> Iterator[tuple[str, schema.Graph]]:
    """Return the graphs inside an argument, each with its place in it."""
    if argument.as_graph is not None:
        yield ".as_graph.graph", argument.as_graph.graph
    for step, item in schema.arguments_in(argument):
        for below, graph in subgraphs(item):
            yield f".{schema.variant_of(argument)}{schema.step_text(step)}{below}", graph


def map_argument(
    argument: schema.Argument,
    rename: Mapping[str, str],
    change: Callable[[str, schema.Graph], schema.Graph],
    place: str,
) -> schema.Argument:
    """Rename the references in an argument and change its graphs; return the very same object where nothing differs.

    Args:
        rename: new names of values, by old name.
        change: receives a graph's place and the graph; returns the graph to put there.
        place: the argument's own place.
    """
    places = (place + below for below, _ in subgraphs(argument))

    def changed(held: schema.GraphArgument) -> schema.GraphArgument:
        graph = change(next(places), held.graph)
        return held if graph is held.graph else replace(held, graph=graph)

    return schema.rewritten(argument, schema.Renaming(lambda name: rename.get(name, name), changed))


# ------------------------------------------------------ walks over a program's graphs, and updates what depends on them
# names in the signature, and the list of extensions in use.


def walk_nodes(graph: schema.Graph, place: str = "graph_module.graph") -> Iterator[tuple[str, schema.Node]]:
    """Return every node of a graph and of the graphs inside it, each with its place."""
    for index, node in enumerate(graph.nodes):
        here = f"{place}.nodes[{index}]"
        yield here, node
        for position, named in enumerate(node.inputs):
            if named.arg.as_tensor is not None:
                continue
            for below, inner in subgraphs(named.arg):
                yield from walk_nodes(inner, f"{here}.inputs[{position}].arg{below}")


def uses_operator(graph: schema.Graph, targets: frozenset[str]) -> bool:
    """Report whether a graph, or a graph inside it, calls one of some operators, given by their serialized names."""
    return any(
        not targets.isdisjoint([node.target for node in each.nodes]) for each in schema.graphs_in(graph)
    )


def rename_in_module(module: schema.GraphModule, names: Mapping[str, str]) -> schema.GraphModule:
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


_OF_NODES = {*(row.feature for row in schema.VARIANTS.values() if row.feature), "propagate"}
_OF_NODES -= {"dtypes", "layouts", "results"}
"""The extensions whose use shows in arguments and nodes alone. For the others, a reader cannot tell what uses them."""


def requirements_after(old: schema.Program, new: schema.Program) -> list[str]:
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


def _arguments_elsewhere(program: schema.Program) -> Iterator[schema.Argument]:
    """Return the arguments of a program outside the nodes of its graphs."""
    module = program.graph_module
    for entry in module.module_call_graph:
        if entry.signature is not None:
            yield from (*entry.signature.inputs, *entry.signature.outputs)
    if program.example_inputs is not None:
        yield from program.example_inputs.leaves
    for graph in schema.graphs_in(module.graph):
        yield from (*graph.inputs, *graph.outputs)
