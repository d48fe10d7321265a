"""Format the nodes of a program as text, one per line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from graphwire.schema import Argument, Graph, MappingEntry, SequenceValue, arm_of, named_subgraphs_in

__all__ = ["NodeText", "argument_text", "node_texts"]

MAX_TEXT = 200
"""The maximum number of characters of a literal to show."""


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
    """Return an argument as text: names of values and subgraphs, and literals."""
    arm = arm_of(argument)
    if not arm:
        return "?"
    text = "None" if arm == "as_none" else _plain(getattr(argument, arm), int(arm != "as_string"))
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _plain(value: Any, depth: int) -> str:
    """Return a value as text: the name of a reference, or a literal."""
    if depth > 8:
        return "…"
    if isinstance(value, list):
        return (
            f"[{', '.join(_plain(item, depth + 1) for item in value[:64])}{', …' if len(value) > 64 else ''}]"
        )
    if isinstance(value, msgspec.Struct):
        if isinstance(value, SequenceValue):
            return _plain(value.items, depth)
        if isinstance(value, MappingEntry):
            return f"{_plain(value.key, depth + 1)}: {_plain(value.value, depth + 1)}"
        if getattr(value, "as_none", None):
            return "None"
        if "name" in value.__struct_fields__:
            return str(value.name)  # type: ignore[attr-defined]
        present = [part for part in msgspec.structs.astuple(value) if part is not None]
        return ", ".join(_plain(part, depth + 1) for part in present) or "?"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_plain(item, depth + 1)}' for key, item in value.items())}}}"
    if isinstance(value, str):
        return value if depth else repr(value)
    if hasattr(value, "name"):
        return str(value.name)
    return "a large number" if type(value) is int and value.bit_length() > 128 else str(value)
