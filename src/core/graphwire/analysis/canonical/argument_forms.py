"""Content trees of arguments: one form for each meaning, although the schema may have several arms for it.

Literals are themselves: None, bool, int, float, text. Anything else is a list that begins with its kind:

    ["list", …]   ["mapping", [KEY, VALUE], …]   ["slice", START, STOP, STEP]   ["complex", REAL, IMAG]
    ["dtype", NAME]   ["layout", NAME]   ["memory format", NAME]   ["constant", NAME]   ["treespec", CONTENT]
    [KIND, …]   a literal of another kind: the kind from the row of its arm (`Arm.kind`), then its text or its record's fields
    ["value", NAME]   ["results", NAME]   ["object", CLASS, NAME]   ["graph", CONTENT]

The forms in the last line are references. Their name or content is filled in later, in place.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from graphwire.analysis.canonical.encoding import content_float
from graphwire.analysis.canonical.treespec_content import treespec_content
from graphwire.schema import (
    ARMS,
    DTYPE_NAMES,
    Argument,
    ComplexValue,
    CustomObjArgument,
    Graph,
    GraphArgument,
    Layout,
    MappingEntry,
    MemoryFormat,
    OptionalTensorArgument,
    SequenceValue,
    SliceValue,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TreespecArgument,
    by_arm,
    results_of,
)

_LAYOUTS: Final = {
    Layout.SparseCoo: "sparse_coo",
    Layout.SparseCsr: "sparse_csr",
    Layout.SparseCsc: "sparse_csc",
    Layout.SparseBsr: "sparse_bsr",
    Layout.SparseBsc: "sparse_bsc",
    Layout._mkldnn: "_mkldnn",
    Layout.Strided: "strided",
}
_MEMORY_FORMATS: Final = {
    MemoryFormat.ContiguousFormat: "contiguous_format",
    MemoryFormat.ChannelsLast: "channels_last",
    MemoryFormat.ChannelsLast3d: "channels_last_3d",
    MemoryFormat.PreserveFormat: "preserve_format",
}


class References(NamedTuple):
    """The references found in arguments, in order. Each comes with the list whose last item is to be filled in."""

    values: list[tuple[list[Any], str]]
    """References to values and objects by name, and to nodes by the key that `results_of` returns."""
    graphs: list[tuple[list[Any], Graph]]


Content: TypeAlias = Callable[[Any, References], Any]


def argument_content(argument: Argument, found: References) -> Any:
    """Return the content of an argument. Adds its references to `found`; they are None until they are filled in."""
    if argument.as_tensor is not None:
        return _value(argument.as_tensor.name, found)
    for arm, content in _ARMS:
        held = getattr(argument, arm)
        if held is not None:
            return content(held, found)
    return ["nothing"]


def layout_content(layout: Layout, name: str | None = None) -> str:
    """Return torch's name of a layout, including layouts without a number in the schema."""
    return name or _LAYOUTS.get(layout, "unknown")


def _value(name: str, found: References) -> list[Any]:
    place = ["value", None]
    found.values.append((place, name))
    return place


def _tensor(argument: TensorArgument, found: References) -> Any:
    return _value(argument.name, found)


def _optional_tensor(argument: OptionalTensorArgument, found: References) -> Any:
    return None if argument.as_tensor is None else _value(argument.as_tensor.name, found)


def _sym_int(argument: SymIntArgument, found: References) -> Any:
    return argument.as_int if argument.as_name is None else _value(argument.as_name, found)


def _sym_float(argument: SymFloatArgument, found: References) -> Any:
    if argument.as_name is not None:
        return _value(argument.as_name, found)
    return None if argument.as_float is None else content_float(argument.as_float)


def _sym_bool(argument: SymBoolArgument, found: References) -> Any:
    return argument.as_bool if argument.as_name is None else _value(argument.as_name, found)


def _object(argument: CustomObjArgument, found: References) -> Any:
    place = ["object", argument.class_fqn, None]
    found.values.append((place, argument.name))
    return place


def _results(node: str, found: References) -> Any:
    place = ["results", None]
    found.values.append((place, results_of(node)))
    return place


def _graph(argument: GraphArgument, found: References) -> Any:
    place = ["graph", None]
    found.graphs.append((place, argument.graph))
    return place


def _sequence(value: SequenceValue, found: References) -> Any:
    # `map` adds no Python frame, so values can nest 50 % deeper before the recursion limit.
    return ["list", *map(argument_content, value.items, repeat(found))]


def _mapping(entries: list[MappingEntry], found: References) -> Any:
    pairs = [[argument_content(each.key, found), argument_content(each.value, found)] for each in entries]
    return ["mapping", *pairs]


def _text_mapping(entries: dict[str, Argument], found: References) -> Any:
    return ["mapping", *[[key, argument_content(value, found)] for key, value in entries.items()]]


def _slice(value: SliceValue, found: References) -> Any:
    return ["slice", *map(argument_content, (value.start, value.stop, value.step), repeat(found))]


def _complex(value: ComplexValue, _found: References) -> Any:
    return ["complex", content_float(value.real), content_float(value.imag)]


def _treespec(value: str | TreespecArgument, _found: References) -> Any:
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
    "as_sym_int": _sym_int,
    "as_none": lambda _value, _found: None,
    "as_float": lambda value, _found: content_float(value),
    "as_scalar_type": _kind("dtype", lambda value: DTYPE_NAMES.get(value, "unknown")),
    "as_graph": _graph,
    "as_memory_format": _kind("memory format", lambda value: _MEMORY_FORMATS.get(value, "unknown")),
    "as_layout": _kind("layout", layout_content),
    "as_sym_bool": _sym_bool,
    "as_custom_obj": _object,
    "as_sym_float": _sym_float,
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
"""The content function of each arm that is neither a plain literal nor a list of another arm's values."""

ARGUMENT_CONTENT: Final[dict[str, Content]] = by_arm(
    {
        **{arm: _literal(row.kind) for arm, row in ARMS.items() if not row.items},
        **_CONTENT,
    },
    _listed,
)
"""The content function of each argument arm, the frequent arms first."""

_ARMS: Final = tuple((arm, content) for arm, content in ARGUMENT_CONTENT.items() if arm != "as_tensor")
