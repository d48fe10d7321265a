"""Converts arguments of nodes between FX values and the variants of the schema's `Argument`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch.fx.immutable_collections import immutable_dict, immutable_list

from graphwire import schema
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.graph.operators import decode_operator, encode_operator
from graphwire.bridge.tensors import tensor_metas
from graphwire.bridge.tensors.coded_values import codec_for
from graphwire.bridge.torch_compat.private import script_class_name
from graphwire.bridge.torch_compat.pytree import class_name
from graphwire.errors import DecodeError, EncodeError, shown, unless_interrupted

Nodes = Mapping[torch.fx.Node, schema.Argument]
"""The arguments that refer to the values of a graph, by FX node: the scope of an encoder."""

_NONE = schema.Argument(as_none=True)


# ----------------------------------------------------------------------------------------------------- encode


def encode_argument(context: EncodeContext, nodes: Nodes, value: Any) -> schema.Argument:
    """Encode an argument of a node.

    torch's own variants come first, so that torch can read every document that needs no others.

    Args:
        nodes: the values in scope.

    Raises:
        EncodeError: no variant can represent the value.
    """
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(context, nodes, value)
    for kind, encoder in _BASES:
        if isinstance(value, kind):
            return encoder(context, nodes, value)
    return _encode_operator(context, nodes, value)


def _encode_node(context: EncodeContext, nodes: Nodes, node: torch.fx.Node) -> schema.Argument:
    argument = nodes.get(node)
    if argument is None:
        raise EncodeError(f"node {node.name!r} is used before it is defined, or outside of its graph")
    return argument


def _encode_sequence(context: EncodeContext, nodes: Nodes, values: Sequence[Any]) -> schema.Argument:
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        (kind,) = kinds
        encoder = _UNIFORM.get(kind)
        if encoder is not None:
            return encoder(values)
    if not kinds:
        return schema.Argument(as_tensors=[])
    # torch's variants have no nested values; checking twice on each level would take exponential time.
    if not kinds <= _FLAT and any(map(_is_nested, values)):
        return _exact_sequence(context, nodes, "list", values)
    items = [encode_argument(context, nodes, value) for value in values]
    variants = {schema.variant_of(item) for item in items}
    for allowed, combine in _COMBINATIONS:
        if variants <= allowed:
            return combine(items)
    if variants == {"as_ints"} and all(isinstance(value, tuple) for value in values):
        return schema.Argument(as_int_lists=[item.as_ints or [] for item in items])
    if all(isinstance(value, list) for value in values):
        if variants == {"as_floats"}:
            return schema.Argument(as_float_lists=[item.as_floats or [] for item in items])
        if variants == {"as_tensors"}:
            return schema.Argument(as_nested_tensors=[item.as_tensors or [] for item in items])
    return _exact_sequence(context, nodes, "list", values)


_FLAT = frozenset((torch.fx.Node, int, float, bool, str, type(None)))
"""The types of items that are never nested."""


def _is_nested(item: Any) -> bool:
    """Return whether an item of a sequence is more than a flat sequence."""
    return isinstance(item, (dict, slice)) or (
        isinstance(item, (list, tuple)) and any(isinstance(each, _CONTAINERS) for each in item)
    )


_CONTAINERS = (list, tuple, dict, slice)


def _exact_sequence(
    context: EncodeContext, nodes: Nodes, kind: Literal["list", "tuple"], values: Sequence[Any]
) -> schema.Argument:
    context.features.add("sequences")
    return schema.Argument(
        as_sequence=schema.SequenceValue(kind, [encode_exactly(context, nodes, value) for value in values])
    )


def encode_exactly(context: EncodeContext, nodes: Nodes, value: Any) -> schema.Argument:
    """Encode an argument where only its own record can tell a tuple from a list."""
    if not isinstance(value, tuple):
        return encode_argument(context, nodes, value)
    return _exact_sequence(context, nodes, "tuple", value)


def _encode_dict(context: EncodeContext, nodes: Nodes, value: Mapping[Any, Any]) -> schema.Argument:
    if all(type(key) is str for key in value):
        return schema.Argument(
            as_string_to_argument={k: encode_exactly(context, nodes, v) for k, v in value.items()}
        )
    context.features.add("mappings")
    return schema.Argument(
        as_mapping=[
            schema.MappingEntry(encode_exactly(context, nodes, k), encode_exactly(context, nodes, v))
            for k, v in value.items()
        ]
    )


def _encode_dtype(context: EncodeContext, _nodes: Nodes, value: torch.dtype) -> schema.Argument:
    kind = tensor_metas.SCALAR_TYPES.get(value)
    if kind is not None:
        return schema.Argument(as_scalar_type=kind)
    context.features.add("dtypes")
    return schema.Argument(as_dtype_name=tensor_metas.name_in_torch(value))


def _encode_layout(context: EncodeContext, _nodes: Nodes, value: torch.layout) -> schema.Argument:
    kind = tensor_metas.LAYOUT_KINDS.get(value)
    if kind is not None:
        return schema.Argument(as_layout=kind)
    context.features.add("layouts")
    return schema.Argument(as_layout_name=tensor_metas.name_in_torch(value))


def _encode_slice(context: EncodeContext, nodes: Nodes, value: slice) -> schema.Argument:
    context.features.add("slices")
    parts = (encode_exactly(context, nodes, part) for part in (value.start, value.stop, value.step))
    return schema.Argument(as_slice=schema.SliceValue(*parts))


def is_owned_by_codec(context: EncodeContext, value: Any) -> bool:
    """Return whether a constant codec owns a value that is not a tensor. Codecs cannot own types that the schema itself
    represents."""
    return type(value) not in _PLAIN and codec_for(context.registry, value)[0] is not None


_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, list, tuple, dict, slice))


def class_name_of(value: Any) -> str:
    """Return the class name of an object as graphs record it."""
    return script_class_name(value) or class_name(type(value))


def name_object(context: EncodeContext, value: Any) -> str:
    """Return the payload name of an object that is itself an argument of a node."""
    return context.name_constant(value, "object")


def _encode_operator(context: EncodeContext, _nodes: Nodes, value: Any) -> schema.Argument:
    if is_owned_by_codec(context, value):
        return schema.Argument(
            as_custom_obj=schema.CustomObjArgument(name_object(context, value), class_name_of(value))
        )
    try:
        return schema.Argument(as_operator=encode_operator(context, value).name)
    except unless_interrupted(EncodeError, TypeError) as error:
        raise EncodeError(
            f"no argument of the schema can represent {shown(value)}",
            remedy="Pass it as a graph input, or register a constant codec or operator handler for it",
        ) from error


Encoder = Callable[[EncodeContext, Nodes, Any], schema.Argument]
Decoder = Callable[["Scope", Any], Any]


class _Literal(NamedTuple):
    """A variant that holds a literal of one Python type."""

    variant: str
    encode: Callable[[Any], Any]
    decode: Decoder

    def encoder(self) -> Encoder:
        """Return the encoder for arguments of the type."""
        variant, encode, feature = self.variant, self.encode, schema.VARIANTS[self.variant].feature

        def encode_literal(context: EncodeContext, _nodes: Nodes, value: Any) -> schema.Argument:
            if feature:
                context.features.add(feature)
            return schema.Argument(**{variant: encode(value)})

        return encode_literal


_LITERALS: dict[type, _Literal] = {
    complex: _Literal(
        "as_complex",
        lambda value: schema.ComplexValue(schema.encode_float(value.real), schema.encode_float(value.imag)),
        lambda _, a: complex(schema.decode_float(a.real), schema.decode_float(a.imag)),
    ),
    range: _Literal(
        "as_range",
        lambda value: schema.RangeValue(value.start, value.stop, value.step),
        lambda _, a: range(a.start, a.stop, a.step),
    ),
    torch.device: _Literal(
        "as_device", tensor_metas.encode_device, lambda scope, a: tensor_metas.decode_device(scope.context, a)
    ),
    torch.memory_format: _Literal(
        "as_memory_format",
        tensor_metas.MEMORY_FORMAT_KINDS.__getitem__,
        lambda _, a: tensor_metas.MEMORY_FORMATS[a],
    ),
}
"""Types whose values are literals, with their variants. The most frequent types are in the tables below."""

_ENCODERS: dict[type, Encoder] = {
    torch.fx.Node: _encode_node,
    int: lambda _c, _n, value: schema.Argument(as_int=value),
    float: lambda _c, _n, value: schema.Argument(as_float=schema.encode_float(value)),
    bool: lambda _c, _n, value: schema.Argument(as_bool=value),
    str: lambda _c, _n, value: schema.Argument(as_string=value),
    type(None): lambda _c, _n, _value: _NONE,
    list: _encode_sequence,
    tuple: _encode_sequence,
    immutable_list: _encode_sequence,
    dict: _encode_dict,
    immutable_dict: _encode_dict,
    slice: _encode_slice,
    torch.dtype: _encode_dtype,
    torch.layout: _encode_layout,
    **{kind: literal.encoder() for kind, literal in _LITERALS.items()},
}
_BASES: tuple[tuple[type, Encoder], ...] = (
    (tuple, _encode_sequence),
    (list, _encode_sequence),
    (dict, _encode_dict),
)
"""For subclasses, such as `torch.Size` and named tuples."""

_UNIFORM: dict[type, Callable[[Sequence[Any]], schema.Argument]] = {
    bool: lambda values: schema.Argument(as_bools=list(values)),
    int: lambda values: schema.Argument(as_ints=list(values)),
    float: lambda values: schema.Argument(as_floats=[schema.encode_float(value) for value in values]),
    str: lambda values: schema.Argument(as_strings=list(values)),
}


def _combined_numbers(kind: str, record: Any) -> Callable[[list[schema.Argument]], schema.Argument]:
    """Return the function that makes one list of symbolic numbers and literals."""
    listed, symbolic, literal = f"as_sym_{kind}s", f"as_sym_{kind}", f"as_{kind}"

    def combine(items: list[schema.Argument]) -> schema.Argument:
        numbers: Any = [getattr(item, symbolic) or record(None, getattr(item, literal)) for item in items]
        return schema.Argument(**{listed: numbers})

    return combine


def _combined_optionals(items: list[schema.Argument]) -> schema.Argument:
    nothing = schema.OptionalTensorArgument(as_none=True)
    return schema.Argument(
        as_optional_tensors=[
            nothing if item.as_none else schema.OptionalTensorArgument(as_tensor=item.as_tensor)
            for item in items
        ]
    )


_COMBINATIONS: tuple[tuple[frozenset[str], Callable[[list[schema.Argument]], schema.Argument]], ...] = (
    (frozenset({"as_tensor"}), lambda items: schema.Argument(as_tensors=[i.as_tensor for i in items])),  # type: ignore[misc]
    (frozenset({"as_sym_int", "as_int"}), _combined_numbers("int", schema.SymIntArgument)),
    (frozenset({"as_sym_float", "as_float"}), _combined_numbers("float", schema.SymFloatArgument)),
    (frozenset({"as_sym_bool", "as_bool"}), _combined_numbers("bool", schema.SymBoolArgument)),
    (frozenset({"as_tensor", "as_none"}), _combined_optionals),
)
"""The list variants for elements of several Python types: the set of allowed variants, and the function that combines them."""


# ----------------------------------------------------------------------------------------------------- decode


class Scope:
    """What arguments refer to while they are decoded. This one is of example inputs, which have payloads only."""

    context: DecodeContext

    def __init__(self, context: DecodeContext, values: Mapping[str, Any]) -> None:
        self.context = context
        self.values = values
        """FX nodes, or payloads, by the name of their value."""
        self.results: dict[str, torch.fx.Node] = {}
        """FX nodes whose value is a container, by node name."""

    def subgraph(self, argument: schema.GraphArgument) -> Any:
        """Return the node that reads a subgraph."""
        raise DecodeError(f"an example input cannot be {type(argument).__name__}")

    def treespec(self, argument: str | schema.TreespecArgument) -> Any:
        """Return the node that reads a container structure."""
        raise DecodeError("an example input cannot be a container structure")

    def constant(self, argument: str | schema.ConstantArgument) -> Any:
        """Return the node that reads a constant tensor of the graph."""
        raise DecodeError("an example input cannot be a constant of a graph")


def decode_argument(scope: Scope, argument: schema.Argument) -> Any:
    """Decode an argument to its FX value.

    Args:
        scope: the graph that contains the argument.

    Raises:
        DecodeError: it refers to a value that is missing.
    """
    for variant, decoder in _DECODERS:
        content = getattr(argument, variant)
        if content is not None:
            return decoder(scope, content)
    raise DecodeError("an argument has no variant that this version supports")


def _value(scope: Scope, name: str) -> Any:
    try:
        return scope.values[name]
    except KeyError:
        raise DecodeError(f"the value {name!r} is not defined at this point of the graph") from None


def _decode_sym(scope: Scope, argument: Any) -> Any:
    if argument.as_name is not None:
        return _value(scope, argument.as_name)
    literal = getattr(argument, argument.__struct_fields__[1])
    return schema.decode_float(literal) if isinstance(argument, schema.SymFloatArgument) else literal


def _decode_optional(scope: Scope, argument: schema.OptionalTensorArgument) -> Any:
    return None if argument.as_tensor is None else _value(scope, argument.as_tensor.name)


def _decode_custom_object(scope: Scope, argument: schema.CustomObjArgument) -> Any:
    for known in (scope.values, scope.context.constants):
        try:
            return known[argument.name]
        except KeyError:
            continue
    raise DecodeError(f"no input or constant is the object {argument.name!r}")


def _decode_sequence(scope: Scope, sequence: schema.SequenceValue) -> Any:
    items = [decode_argument(scope, item) for item in sequence.items]
    return tuple(items) if sequence.kind == "tuple" else items


def _decode_named(table: Mapping[str, Any], name: str, what: str) -> Any:
    try:
        return table[name]
    except KeyError:
        raise DecodeError(f"this torch has no {what} {name!r}", remedy="Install a newer torch") from None


def _results(scope: Scope, name: str) -> Any:
    try:
        return scope.results[name]
    except KeyError:
        raise DecodeError(f"no earlier node of the graph is {name!r} with several results") from None


def _tensors(scope: Scope, arguments: list[schema.TensorArgument]) -> list[Any]:
    return [_value(scope, argument.name) for argument in arguments]


_OF_VARIANTS: dict[str, Decoder] = {
    **dict.fromkeys(("as_int", "as_bool", "as_string"), lambda _, a: a),
    **dict.fromkeys(("as_ints", "as_bools", "as_strings"), lambda _, a: list(a)),
    **dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), _decode_sym),
    **dict.fromkeys(
        ("as_sym_ints", "as_sym_floats", "as_sym_bools"), lambda scope, a: [_decode_sym(scope, i) for i in a]
    ),
    "as_tensor": lambda scope, a: _value(scope, a.name),
    "as_none": lambda _scope, _: None,
    "as_float": lambda _, a: schema.decode_float(a),
    "as_tensors": _tensors,
    "as_scalar_type": lambda _, a: tensor_metas.DTYPES[a],
    "as_layout": lambda _, a: tensor_metas.LAYOUTS[a],
    "as_floats": lambda _, a: [schema.decode_float(item) for item in a],
    "as_optional_tensors": lambda scope, a: [_decode_optional(scope, item) for item in a],
    "as_custom_obj": _decode_custom_object,
    "as_operator": lambda scope, a: decode_operator(scope.context, a).target,
    "as_optional_tensor": _decode_optional,
    "as_nested_tensors": lambda scope, a: [_tensors(scope, items) for items in a],
    "as_int_lists": lambda _, a: [tuple(items) for items in a],
    "as_string_to_argument": lambda scope, a: {k: decode_argument(scope, v) for k, v in a.items()},
    "as_float_lists": lambda _, a: [[schema.decode_float(item) for item in items] for items in a],
    "as_sequence": _decode_sequence,
    "as_mapping": lambda scope, a: {
        decode_argument(scope, entry.key): decode_argument(scope, entry.value) for entry in a
    },
    "as_slice": lambda scope, a: slice(*(decode_argument(scope, part) for part in (a.start, a.stop, a.step))),
    "as_dtype_name": lambda _, a: _decode_named(tensor_metas.NAMED_DTYPES, a, "element type"),
    "as_layout_name": lambda _, a: _decode_named(tensor_metas.NAMED_LAYOUTS, a, "layout"),
    "as_graph": lambda scope, a: scope.subgraph(a),
    "as_constant": lambda scope, a: scope.constant(a),
    "as_treespec": lambda scope, a: scope.treespec(a),
    "as_results": _results,
    **{literal.variant: literal.decode for literal in _LITERALS.values()},
}
"""The decoder of each variant."""
_DECODERS = tuple((variant, _OF_VARIANTS[variant]) for variant in schema.FREQUENT_FIRST)
