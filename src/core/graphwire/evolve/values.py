"""Arguments as plain values: what an upgrader reads and writes instead of unions of arms.

A value of the graph is a `Value`, a literal is Python's, element types and devices are records of `schema.scalars`; what
has no plain form (a subgraph, an operator, a complex number …) is the `Argument` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphwire.schema.graph import (
    ARGUMENT_ARMS,
    Argument,
    CustomObjArgument,
    Graph,
    MappingEntry,
    OptionalTensorArgument,
    SequenceValue,
    SliceValue,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from graphwire.schema.scalars import Device, Layout, MemoryFormat, ScalarType
from graphwire.schema.symbols import decode_float, encode_float

__all__ = [
    "ARM_FEATURES",
    "TABLES",
    "Value",
    "decode_value",
    "defined_values",
    "encode_value",
    "mapped",
    "subgraphs",
]


class Value(NamedTuple):
    """A value of a graph, by its name."""

    name: str
    kind: str = "tensor"
    """A key of `TABLES`."""
    class_fqn: str = ""
    """Of a `custom_obj`: its class."""


TABLES: dict[str, str] = {
    "tensor": "tensor_values",
    "sym_int": "sym_int_values",
    "sym_float": "sym_float_values",
    "sym_bool": "sym_bool_values",
    "custom_obj": "custom_obj_values",
}
"""The kinds of values, and the field of `Graph` that says what is known of each."""

ARM_FEATURES: dict[str, str] = {
    "as_constant": "constants",
    "as_dtype_name": "dtypes",
    "as_layout_name": "layouts",
    "as_mapping": "mappings",
    "as_results": "results",
    "as_sequence": "sequences",
    "as_slice": "slices",
    "as_treespec": "treespecs",
}
"""The arms that are extensions, and what a document with one of them requires."""

_SYMBOLIC = {"sym_int": SymIntArgument, "sym_float": SymFloatArgument, "sym_bool": SymBoolArgument}


# -------------------------------------------------------------------------------------------------------- reading


def decode_value(argument: Argument) -> Any:
    """The plain value of an argument; lists as lists, tuples of a general sequence as tuples."""
    for arm in ARGUMENT_ARMS:
        content = getattr(argument, arm)
        if content is not None:
            decode = _DECODERS.get(arm)
            return argument if decode is None else decode(content)
    return argument


def _decode_symbolic(kind: str) -> Callable[[Any], Any]:
    def decode(content: Any) -> Any:
        if content.as_name is not None:
            return Value(content.as_name, kind)
        literal = getattr(content, content.__struct_fields__[1])
        return decode_float(literal) if kind == "sym_float" else literal

    return decode


def _each(decode: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda items: [decode(item) for item in items]


def _itself(content: Any) -> Any:
    return content


def _decode_optional(content: OptionalTensorArgument) -> Value | None:
    return None if content.as_tensor is None else Value(content.as_tensor.name)


def _decode_sequence(content: SequenceValue) -> Any:
    items = [decode_value(item) for item in content.items]
    return tuple(items) if content.kind == "tuple" else items


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_tensor": lambda content: Value(content.name),
    "as_tensors": _each(lambda content: Value(content.name)),
    "as_int": _itself,
    "as_ints": list,
    "as_float": decode_float,
    "as_floats": _each(decode_float),
    "as_string": _itself,
    "as_strings": list,
    "as_bool": _itself,
    "as_bools": list,
    "as_sym_int": _decode_symbolic("sym_int"),
    "as_sym_ints": _each(_decode_symbolic("sym_int")),
    "as_sym_float": _decode_symbolic("sym_float"),
    "as_sym_floats": _each(_decode_symbolic("sym_float")),
    "as_sym_bool": _decode_symbolic("sym_bool"),
    "as_sym_bools": _each(_decode_symbolic("sym_bool")),
    "as_optional_tensor": _decode_optional,
    "as_optional_tensors": _each(_decode_optional),
    "as_scalar_type": _itself,
    "as_memory_format": _itself,
    "as_layout": _itself,
    "as_device": _itself,
    "as_custom_obj": lambda content: Value(content.name, "custom_obj", content.class_fqn),
    "as_sequence": _decode_sequence,
    "as_string_to_argument": lambda content: {key: decode_value(item) for key, item in content.items()},
}


# -------------------------------------------------------------------------------------------------------- writing


def encode_value(value: Any) -> Argument:
    """The argument that says a plain value, in the arms that torch's own reader knows where there is one.

    Raises:
        TypeError: no arm says it.
    """
    if isinstance(value, Argument):
        return value
    if isinstance(value, Value):
        return _encode_reference(value)
    if isinstance(value, (list, tuple)):
        return _encode_sequence(value)
    encode = _ENCODERS.get(type(value))
    if encode is None:
        raise TypeError(f"no argument says a {type(value).__name__} ({value!r:.80})")
    return encode(value)


_ENCODERS: dict[type, Callable[[Any], Argument]] = {
    type(None): lambda _: Argument(as_none=True),
    bool: lambda value: Argument(as_bool=value),
    int: lambda value: Argument(as_int=value),
    float: lambda value: Argument(as_float=encode_float(value)),
    str: lambda value: Argument(as_string=value),
    dict: lambda value: Argument(as_string_to_argument={k: encode_value(v) for k, v in value.items()}),
    ScalarType: lambda value: Argument(as_scalar_type=value),
    MemoryFormat: lambda value: Argument(as_memory_format=value),
    Layout: lambda value: Argument(as_layout=value),
    Device: lambda value: Argument(as_device=value),
}


def _encode_reference(value: Value) -> Argument:
    if value.kind == "tensor":
        return Argument(as_tensor=TensorArgument(value.name))
    if value.kind == "custom_obj":
        return Argument(as_custom_obj=CustomObjArgument(value.name, value.class_fqn))
    return _argument(f"as_{value.kind}", _SYMBOLIC[value.kind](as_name=value.name))


def _encode_sequence(values: Sequence[Any]) -> Argument:
    kinds = {item.kind if isinstance(item, Value) else type(item) for item in values}
    if not kinds or kinds == {"tensor"}:
        return Argument(as_tensors=[TensorArgument(item.name) for item in values])
    if kinds == {"tensor", type(None)}:
        return Argument(as_optional_tensors=[_optional(item) for item in values])
    for literal, plural in ((bool, "bools"), (int, "ints"), (float, "floats"), (str, "strings")):
        if kinds == {literal}:
            items = [encode_float(item) for item in values] if literal is float else list(values)
            return _argument(f"as_{plural}", items)
    for literal, kind in ((int, "sym_int"), (float, "sym_float"), (bool, "sym_bool")):
        if kinds <= {literal, kind}:
            return _argument(f"as_{kind}s", [_symbolic(kind, item) for item in values])
    elements = [encode_value(item) for item in values]
    return Argument(as_sequence=SequenceValue("tuple" if isinstance(values, tuple) else "list", elements))


def _argument(arm: str, content: Any) -> Argument:
    return Argument(**{arm: content})


def _optional(value: Value | None) -> OptionalTensorArgument:
    if value is None:
        return OptionalTensorArgument(as_none=True)
    return OptionalTensorArgument(as_tensor=TensorArgument(value.name))


def _symbolic(kind: str, value: Any) -> Any:
    record = _SYMBOLIC[kind]
    if isinstance(value, Value):
        return record(as_name=value.name)
    literal: Any = encode_float(value) if kind == "sym_float" else value
    return record(**{record.__struct_fields__[1]: literal})


# -------------------------------------------------------------------------------------------------------- walking


def defined_values(argument: Argument) -> Iterator[Value]:
    """The values that an output of a node, or an input of a graph, defines."""
    plain = decode_value(argument)
    if isinstance(plain, Value):
        yield plain
    elif isinstance(plain, list) and argument.as_sequence is None:  # of one kind
        yield from (each for each in plain if isinstance(each, Value))
    else:
        for _, item in _items(argument):
            yield from defined_values(item)


def subgraphs(argument: Argument) -> Iterator[tuple[str, Graph]]:
    """The graphs inside an argument, each with its place there."""
    if argument.as_graph is not None:
        yield ".as_graph.graph", argument.as_graph.graph
    for place, item in _items(argument):
        for below, graph in subgraphs(item):
            yield place + below, graph


def _items(argument: Argument) -> Iterator[tuple[str, Argument]]:
    """The arguments inside an argument, each with its place there."""
    if argument.as_sequence is not None:
        for index, item in enumerate(argument.as_sequence.items):
            yield f".as_sequence.items[{index}]", item
    elif argument.as_mapping is not None:
        for index, entry in enumerate(argument.as_mapping):
            yield f".as_mapping[{index}].key", entry.key
            yield f".as_mapping[{index}].value", entry.value
    elif argument.as_string_to_argument is not None:
        for key, item in argument.as_string_to_argument.items():
            yield f".as_string_to_argument[{key!r}]", item
    elif argument.as_slice is not None:
        for part in ("start", "stop", "step"):
            yield f".as_slice.{part}", getattr(argument.as_slice, part)


def mapped(
    argument: Argument, rename: Mapping[str, str], change: Callable[[str, Graph], Graph], place: str
) -> Argument:
    """An argument with its references renamed and its graphs changed; the very same one where nothing differs.

    Args:
        rename: new names of values, by old name.
        change: given a graph's place and the graph, the one to put there.
        place: the argument's own place.
    """
    if rename:
        for arm, rename_arm in _RENAMERS.items():
            content = getattr(argument, arm)
            if content is not None:
                renamed = rename_arm(content, rename)
                return argument if renamed == content else Argument(**{arm: renamed})
    if argument.as_graph is not None:
        old = argument.as_graph
        graph = change(f"{place}.as_graph.graph", old.graph)
        return argument if graph is old.graph else Argument(as_graph=replace(old, graph=graph))
    old_items = list(_items(argument))
    if not old_items:
        return argument
    items = [mapped(item, rename, change, place + below) for below, item in old_items]
    if all(item is old_item for item, (_, old_item) in zip(items, old_items, strict=True)):
        return argument
    return _rebuilt(argument, items)


def _rebuilt(argument: Argument, items: list[Argument]) -> Argument:
    """An argument with other arguments inside, in the order of `_items`."""
    if argument.as_sequence is not None:
        return Argument(as_sequence=SequenceValue(argument.as_sequence.kind, items))
    if argument.as_mapping is not None:
        pairs = zip(items[::2], items[1::2], strict=True)
        return Argument(as_mapping=[MappingEntry(key, value) for key, value in pairs])
    if argument.as_slice is not None:
        return Argument(as_slice=SliceValue(*items))
    keys = argument.as_string_to_argument or {}
    return Argument(as_string_to_argument=dict(zip(keys, items, strict=True)))


def _rename_one(content: Any, rename: Mapping[str, str]) -> Any:
    """A reference (`name` or `as_name`) with its new name."""
    field = "as_name" if "as_name" in content.__struct_fields__ else "name"
    new = rename.get(getattr(content, field))
    return content if new is None else replace(content, **{field: new})


def _rename_optional(content: OptionalTensorArgument, rename: Mapping[str, str]) -> OptionalTensorArgument:
    if content.as_tensor is None:
        return content
    return OptionalTensorArgument(as_tensor=_rename_one(content.as_tensor, rename))


def _rename_each(
    rename_item: Callable[[Any, Mapping[str, str]], Any],
) -> Callable[[Any, Mapping[str, str]], Any]:
    return lambda items, rename: [rename_item(item, rename) for item in items]


_RENAMERS: dict[str, Callable[[Any, Mapping[str, str]], Any]] = {
    **{f"as_{kind}": _rename_one for kind in TABLES},
    **{f"as_{kind}s": _rename_each(_rename_one) for kind in TABLES if kind != "custom_obj"},
    "as_optional_tensor": _rename_optional,
    "as_optional_tensors": _rename_each(_rename_optional),
    "as_nested_tensors": _rename_each(_rename_each(_rename_one)),
}
"""How the references of each arm get new names."""
