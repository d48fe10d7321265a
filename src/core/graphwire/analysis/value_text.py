"""The text of an argument in a diff: names of values, literals as Python writes them, except that text has no quotes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from graphwire.analysis.validation.value_rules import number_text
from graphwire.schema import DTYPE_NAMES, Argument, Layout, MemoryFormat, ScalarType, variant_of

_MAX_TEXT = 120


def argument_text(argument: Argument) -> str:
    """Return an argument as readable text."""
    variant = variant_of(argument)
    if variant == "as_graph":
        return f"graph {argument.as_graph.name}" if argument.as_graph is not None else ""
    text = _text({variant: msgspec.to_builtins(getattr(argument, variant))}) if variant else ""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _text(tree: Any) -> str:
    if isinstance(tree, dict):
        known = {key: value for key, value in tree.items() if value is not None}
        key = next(iter(known), "")
        if len(known) == 1 and key in _VARIANTS:
            return _VARIANTS[key](known[key])
        if "name" in known or len(known) == 1:
            return _text(known.get("name", next(iter(known.values()))))
        return f"{{{', '.join(f'{key}: {_text(value)}' for key, value in known.items())}}}"
    if isinstance(tree, list):
        return f"[{', '.join(map(_text, tree))}]"
    if isinstance(tree, str):
        return tree
    return _number(tree)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return number_text(value) if isinstance(value, int) else json.dumps(value)


_NOT_FINITE: Final = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}


def _float(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_float, value))}]"
    return _NOT_FINITE[value] if isinstance(value, str) and value in _NOT_FINITE else _text(value)


def _sequence(value: Any) -> str:
    items = [_text(item) for item in value["items"]]
    if value["kind"] == "list":
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def _mapping(entries: Any) -> str:
    pairs = (f"{_text(entry['key'])}: {_text(entry['value'])}" for entry in entries)
    return f"{{{', '.join(pairs)}}}"


def _called(name: str, parts: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f"{name}({', '.join(parts(part) for part in value.values())})"


_VARIANTS: Final[dict[str, Callable[[Any], str]]] = {
    "as_none": lambda _: "None",
    "as_float": _float,
    "as_floats": _float,
    "as_float_lists": _float,
    "as_scalar_type": lambda number: DTYPE_NAMES.get(ScalarType(number), "unknown"),
    "as_layout": lambda number: Layout(number).name,
    "as_memory_format": lambda number: MemoryFormat(number).name,
    "as_complex": _called("complex", _float),
    "as_range": _called("range", _text),
    "as_slice": _called("slice", _text),
    "as_sequence": _sequence,
    "as_mapping": _mapping,
}
"""The text of variants whose values are not their own text, by the variant of a document."""


# ---------------------------------------------------------------------------------- literal values of documents as text


UNKNOWN: Final = "?"
"""The text of what cannot be determined."""


def literal_text(value: Any) -> str:
    """Return a literal as text: numbers and truth values as Python prints them, text itself, lists in brackets."""
    if type(value) is int:
        return number_text(value)
    if isinstance(value, str | bool | float):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal_text, value))}]"
    return UNKNOWN
