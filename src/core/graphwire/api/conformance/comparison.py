"""Comparison of what a reader prints with what it must find."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

OUTPUT_PARTS: Final = {
    "archive": "archive",
    "documents": "programs",
    "payloads": "payloads",
    "references": "references",
    "hash": "hash",
    "trees": "tree",
}
"""The parts that are keys of the output, and the key of each."""
CASE_PARTS: Final = ("json", "msgpack", "cbor", "optional", "schema-8", "older")
"""The parts that are no keys: wire formats, fields that a reader may ignore, and old files."""
PARTS: Final = (*OUTPUT_PARTS, *CASE_PARTS)
"""All parts that a reader can claim."""

_MISSING: Final = object()


def first_difference(expected: Any, found: Any, parts: Collection[str]) -> str:
    """Return the place and kind of the first difference of two outputs, or an empty text.

    Args:
        expected: neutral JSON, parsed.
        found: what the reader printed, parsed.
        parts: the parts that the reader claims. Others are not compared.
    """
    keys = [key for part, key in OUTPUT_PARTS.items() if part in parts]
    if not isinstance(found, dict):
        return f"$: an object is expected, not {shown(found)}"
    rest: list[tuple[str, Any, Any]] = [
        (f"$.{key}", expected.get(key, _MISSING), found.get(key, _MISSING)) for key in reversed(keys)
    ]
    with_optional = "optional" in parts
    while rest:
        place, wanted, given = rest.pop()
        if isinstance(wanted, dict) and isinstance(given, dict):
            if (numbers := _floats(wanted, given)) is not None:
                if not _same_float(*numbers):
                    return f"{place}: {shown(wanted)} is expected, not {shown(given)}"
                continue
            names = [*wanted, *(name for name in given if name not in wanted)]
            rest.extend(
                (f"{place}.{name}", wanted.get(name, _MISSING), given.get(name, _MISSING))
                for name in reversed(names)
                if with_optional or name != "optional"
            )
        elif isinstance(wanted, list) and isinstance(given, list):
            if len(wanted) != len(given):
                return (
                    f"{place}: {len(wanted)} items are expected, not {len(given)}{_first_item(wanted, given)}"
                )
            rest.extend((f"{place}[{at}]", wanted[at], given[at]) for at in reversed(range(len(wanted))))
        elif type(wanted) is not type(given) or wanted != given:
            return f"{place}: {shown(wanted)} is expected, not {shown(given)}"
    return ""


def _first_item(wanted: list[Any], given: list[Any]) -> str:
    """Return where two lists of different lengths first differ."""
    same = 0
    while same < min(len(wanted), len(given)) and wanted[same] == given[same]:
        same += 1
    longer = wanted if len(wanted) > len(given) else given
    return f"; from item {same} on: {shown(longer[same])}"


def _floats(wanted: dict[str, Any], given: dict[str, Any]) -> tuple[str, str] | None:
    if (
        list(wanted) == ["float"] == list(given)
        and isinstance(wanted["float"], str)
        and isinstance(given["float"], str)
    ):
        return wanted["float"], given["float"]
    return None


def _same_float(wanted: str, given: str) -> bool:
    try:
        one, other = float.fromhex(wanted), float.fromhex(given)
    except (ValueError, OverflowError):
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def shown(value: Any) -> str:
    """Return a value as short text."""
    if value is _MISSING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
