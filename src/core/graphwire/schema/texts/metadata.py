"""Parsers for node metadata that is structured text, such as module stacks.

torch writes module stacks, source functions and `torch_fn` with commas and semicolons between the parts. If a part
contains one of these, graphwire writes JSON instead, under a key of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from graphwire.errors import SchemaError
from graphwire.process import TYPE_ANALYSIS

DECLARED = "graphwire.meta."
"""What the metadata keys of what plugins declare begin with: JSON of the exact value (`schema.texts.treespec.encode_value`)."""
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


MAX_DEPTH: Final = 400
"""The depth of lists and objects in JSON of metadata."""


def is_deeper(text: str, most: int) -> bool:
    """Return whether lists and objects of a JSON text nest deeper than `most`."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for sign in re.findall(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"', text):
        depth += (sign in "[{") - (sign in "]}")
        if depth > most:
            return True
    return False


def parse_json(text: str) -> Any:
    """Parse JSON text of any shape.

    Raises:
        SchemaError: the text is not JSON, or nests deeper than MAX_DEPTH.
    """
    try:
        if is_deeper(text, MAX_DEPTH):
            raise ValueError(f"lists and objects nest deeper than {MAX_DEPTH}")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"invalid JSON: {error}") from error


def parse_modules(text: str) -> list[tuple[str, str, str]]:
    """Parse the JSON rows of key, path and type of a module stack.

    Raises:
        SchemaError: the text has another shape.
    """
    return _parse(_MODULES, text)


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
    plain = not _is_nested(text) and text.count(",") == len(parts) - 1 and ";" not in text
    return text if plain or split_modules(text) == [parts] else None


def _split_row(item: str) -> tuple[str, str, str] | None:
    parts = _split_outside(item) if _is_nested(item) else item.split(",")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _is_nested(text: str) -> bool:
    return "[" in text or "(" in text or "]" in text or ")" in text


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
    if re.search("[0-9]{4301}", text):
        parse_json(text)  # keys that are ignored may have no longer integers, either
    return _parse(_SOURCES, text) or []


def _parse(decoder: msgspec.json.Decoder[Shape], text: str) -> Shape:
    try:
        if is_deeper(text, MAX_DEPTH):
            raise msgspec.DecodeError(f"lists and objects nest deeper than {MAX_DEPTH}")
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


# --------------------------------------------- replaces the numbers in metadata that mean something in one process only
# addresses, and counters of generated code.
#
# torch numbers graphs and modules by their address, names objects by theirs, and counts the functions that it generates. Each
# such number becomes its position among those of its kind that a program shows, so two exports of one model are equal, and
# what was the same stays the same. Positions of a loaded program do not change when it is saved again.


NO_GRAPH: Final = -1
"""The number of a graph that is not named."""

_MODULE = r"([0-9]{6,}|#[0-9]+)((?:@[0-9]+)?)"
"""A module's key that is its address, or its position, followed by the number of the call."""
_ADDRESS = r" at 0x([0-9a-fA-F]+)"
_GENERATED = r"(?a)<eval_with_key>\.([0-9]+)"


class ProcessNumbers:
    """The numbers that a program shows, by kind, with their positions."""

    def __init__(self) -> None:
        self._graphs: dict[int, int] = {}
        self._modules: dict[str, int] = {}
        self._objects: dict[str, int] = {}
        self._functions: dict[str, int] = {}

    def graph(self, number: int) -> int:
        """Return the position of a graph that nodes come from; NO_GRAPH for itself."""
        return number if number == NO_GRAPH else self._graphs.setdefault(number, len(self._graphs))

    def module(self, key: str) -> str:
        """Return the key of a module in a module stack: `#0` or `#0@1` for an address, otherwise the key itself."""
        found = re.fullmatch(_MODULE, key) if key[:1] in "#0123456789" else None
        if found is None:
            return key
        return f"#{self._modules.setdefault(found[1], len(self._modules))}{found[2]}"

    def target(self, text: str) -> str:
        """Return the text of a function or object without its address: `<function relu at 0x0>`."""
        if " at 0x" not in text:
            return text
        known = self._objects
        return re.sub(_ADDRESS, lambda found: f" at 0x{known.setdefault(found[1], len(known)):x}", text)

    def trace(self, text: str) -> str:
        """Return a stack trace with other numbers of the functions that torch generated: `<eval_with_key>.0`."""
        if "<eval_with_key>" not in text:
            return text
        known = self._functions
        return re.sub(
            _GENERATED, lambda found: f"<eval_with_key>.{known.setdefault(found[1], len(known))}", text
        )
