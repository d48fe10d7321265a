"""Format the nodes of a program as text, one per line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from graphwire.schema import (
    DTYPE_NAMES,
    Argument,
    ComplexValue,
    Device,
    Graph,
    MappingEntry,
    RangeValue,
    ScalarType,
    SequenceValue,
    SliceValue,
    arm_of,
    decode_float,
    named_subgraphs_in,
)

__all__ = ["NodeText", "argument_text", "node_texts"]

MAX_TEXT = 200
"""The maximum number of characters of a literal to show."""
MAX_ITEMS = 64
"""The maximum number of items of a list to show."""
MAX_DEPTH = 8
"""The depth of nested literals to show."""


class NodeText(msgspec.Struct, frozen=True):
    """The texts of one node."""

    graph: str
    """The names of its enclosing subgraphs, joined by slashes; empty in the top-level graph."""
    index: int
    target: str
    inputs: str
    outputs: str


def node_texts(graph: Graph) -> Iterator[NodeText]:
    """Yield the nodes of a graph, and after each graph those of its subgraphs."""
    pending = deque([("", graph)])
    while pending:
        place, current = pending.popleft()
        for index, node in enumerate(current.nodes):
            for named in node.inputs:
                for held in named_subgraphs_in(named.arg):
                    pending.append((f"{place}/{held.name}" if place else held.name, held.graph))
            inputs = [
                f"{each.name}={argument_text(each.arg)}" if each.name else argument_text(each.arg)
                for each in node.inputs
            ]
            outputs = [argument_text(output) for output in node.outputs]
            yield NodeText(place, index, node.target, ", ".join(inputs), ", ".join(outputs))


def argument_text(argument: Argument) -> str:
    """Return an argument as text: names of values and subgraphs, and literals as Python writes them."""
    text = _argument(argument, 0)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _argument(argument: Argument, depth: int) -> str:
    arm = arm_of(argument)
    held = getattr(argument, arm) if arm else None
    match arm:
        case "":
            return "?"
        case "as_none":
            return "None"
        case "as_string":
            return repr(held)
        case "as_strings":
            return _list(held, repr)
        case "as_float" | "as_floats" | "as_float_lists":
            return _floats(held)
    return _plain(held, depth + 1)


def _floats(value: Any) -> str:
    if isinstance(value, list):
        return _list(value, _floats)
    return repr(decode_float(value))


def _list(values: Any, text_of: Callable[[Any], str]) -> str:
    more = ", …" if len(values) > MAX_ITEMS else ""
    return f"[{', '.join(map(text_of, values[:MAX_ITEMS]))}{more}]"


def _arguments(value: SliceValue, depth: int) -> str:
    parts = (value.start, value.stop, value.step)
    return ", ".join(_plain(part, depth + 1) for part in parts)


_STRUCTS: dict[type, Callable[[Any, int], str]] = {
    Argument: _argument,
    ComplexValue: lambda value, _: str(complex(decode_float(value.real), decode_float(value.imag))),
    Device: lambda value, _: value.type if value.index is None else f"{value.type}:{value.index}",
    MappingEntry: lambda value, depth: f"{_plain(value.key, depth + 1)}: {_plain(value.value, depth + 1)}",
    RangeValue: lambda value, _: str(range(value.start, value.stop, value.step)),
    SequenceValue: lambda value, depth: _plain(value.items, depth),
    SliceValue: lambda value, depth: f"slice({_arguments(value, depth)})",
}
"""The text of each record that is not the name of a value, or one of several arms."""


def _plain(value: Any, depth: int) -> str:
    """Return a value as text: the name of a reference, or a literal."""
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, list):
        return _list(value, lambda item: _plain(item, depth + 1))
    if isinstance(value, msgspec.Struct):
        if type(value) in _STRUCTS:
            return _STRUCTS[type(value)](value, depth)
        if getattr(value, "as_none", None) is not None:
            return "None"
        if "name" in value.__struct_fields__:
            return str(value.name)  # type: ignore[attr-defined]
        held = [(field, getattr(value, field)) for field in value.__struct_fields__]
        present = [
            _floats(part) if field == "as_float" else _plain(part, depth + 1)
            for field, part in held
            if part is not None
        ]
        return ", ".join(present) or "?"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_plain(item, depth + 1)}' for key, item in value.items())}}}"
    if isinstance(value, ScalarType):
        return DTYPE_NAMES.get(value, value.name)
    if hasattr(value, "name"):
        return str(value.name)
    return "a large number" if type(value) is int and value.bit_length() > 128 else str(value)
