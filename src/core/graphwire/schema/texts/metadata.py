"""Parsers for node metadata that is structured text, such as module stacks.

torch writes module stacks, source functions and `torch_fn` with commas and semicolons between the parts. If a part
contains one of these, graphwire writes JSON instead, under a key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from graphwire.errors import SchemaError
from graphwire.lazy import pattern
from graphwire.process import TYPE_ANALYSIS

EXACT_STACK = "graphwire.nn_module_stack"
"""The metadata key of a module stack that torch's text cannot represent: JSON rows of key, path and type."""
EXACT_SOURCE_FN = "graphwire.source_fn_stack"
"""The metadata key of a source-function stack that torch's text cannot represent: JSON rows of name and function."""
EXACT_TORCH_FN = "graphwire.torch_fn"
"""The metadata key of a `torch_fn` that torch's text cannot represent: a JSON list."""


Shape = TypeVar("Shape")


class SourceRow(msgspec.Struct, frozen=True):
    """The origin of a node, as torch writes it on the node: JSON with the fields of `NodeSource` and nested origins."""

    name: str
    target: str
    graph_id: int
    pass_name: str
    action: str
    from_node: list[SourceRow]


with TYPE_ANALYSIS:
    _MODULES = msgspec.json.Decoder(list[tuple[str, str, str]])
    _FUNCTIONS = msgspec.json.Decoder(list[tuple[str, str]])
    _PARTS = msgspec.json.Decoder(list[str])
    _SOURCES = msgspec.json.Decoder(list[SourceRow] | None)


def parse_json(text: str) -> Any:
    """Parse JSON text of any shape.

    Raises:
        SchemaError: the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"invalid JSON: {error}") from error


def parse_modules(text: str) -> list[tuple[str, str, str]]:
    """Parse the JSON rows of key, path and type of a module stack.

    Raises:
        SchemaError: the text has another shape.
    """
    return _parse(_MODULES, text)


_NESTING = pattern(r"[\[\]()]")


def split_modules(
    text: str, known: dict[str, tuple[str, str, str]] | None = None
) -> list[tuple[str, str, str]] | None:
    """Split torch's text of a module stack, `key,path,type;…`, into rows; None if it does not split into rows of three.

    Commas inside brackets belong to the parts.

    Args:
        known: the rows of other stacks by their text, for lookup and additions: stacks share the rows of their outer
            modules.
    """
    known = {} if known is None else known
    rows: list[tuple[str, str, str]] = []
    for item in text.split(";"):
        row = known.get(item)
        if row is None:
            row = _split_row(item)
            if row is None:
                return None
            known[item] = row
        rows.append(row)
    return rows


def joined_module(parts: tuple[str, str, str]) -> str | None:
    """Return a row of a module stack as torch's text; None if that text would not split into the same parts."""
    text = ",".join(parts)
    plain = text.count(",") == len(parts) - 1 and ";" not in text and _NESTING.search(text) is None
    return text if plain or split_modules(text) == [parts] else None


def _split_row(item: str) -> tuple[str, str, str] | None:
    parts = item.split(",") if _NESTING.search(item) is None else _split_outside(item)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _split_outside(item: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for end, char in enumerate(item):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(item[start:end])
            start = end + 1
    return [*parts, item[start:]]


def parse_functions(text: str) -> list[tuple[str, str]]:
    """Parse the JSON rows of name and function of a source-function stack.

    Raises:
        SchemaError: the text has another shape.
    """
    return _parse(_FUNCTIONS, text)


def parse_parts(text: str) -> list[str]:
    """Parse the JSON parts of a `torch_fn`.

    Raises:
        SchemaError: the text has another shape.
    """
    return _parse(_PARTS, text)


def parse_sources(text: str) -> list[SourceRow]:
    """Parse the origins of a node; an empty list for `null`.

    Raises:
        SchemaError: the text has another shape.
    """
    return _parse(_SOURCES, text) or []


def _parse(decoder: msgspec.json.Decoder[Shape], text: str) -> Shape:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise SchemaError(f"metadata has an unexpected shape: {error}") from error


GRAMMARS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "custom": parse_json,
        "from_node": parse_sources,
        EXACT_STACK: parse_modules,
        EXACT_SOURCE_FN: parse_functions,
        EXACT_TORCH_FN: parse_parts,
    }
)
"""The metadata keys whose text has a grammar, each with its parser."""
