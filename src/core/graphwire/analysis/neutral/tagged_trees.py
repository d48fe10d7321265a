"""Tagged trees, and the canonical bytes of neutral JSON.

The functions do not recurse: a document may nest containers 400 deep, and a tag is two more levels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Final

from graphwire.lazy import pattern

NONE: Final = {"none": True}
"""None as a tagged tree."""


def hex_float(value: float) -> str:
    """Return a float as text, such as `0x1.8p+1`: normalized, without trailing zeros."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0x0p+0"
    fraction, exponent = math.frexp(abs(value))
    head, _, tail = (2 * fraction).hex().partition("p")
    digits = head.removeprefix("0x1.").rstrip("0")
    return f"{sign}0x1{'.' if digits else ''}{digits}p{exponent - 1 + int(tail):+d}"


def scalar(value: Any) -> Any:
    """Return a value that is no container as a tagged tree."""
    if value is None:
        return NONE
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": hex_float(value)}
    return {"bytes": bytes(value).hex()}


def pairs(items: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the entries of a dict, whose keys and values are in neutral form already."""
    return {"dict": [[key, value] for key, value in items]}


def tagged(tree: Any) -> Any:
    """Return a tree of None, bool, int, float, str, bytes, list and dict as a tagged tree."""
    whole: list[Any] = [tree]
    rest: list[tuple[Any, int]] = [(whole, 0)]
    while rest:
        place, at = rest.pop()
        value = place[at]
        if isinstance(value, list | tuple):
            place[at] = made = list(value)
            rest.extend((made, index) for index in range(len(made)))
        elif isinstance(value, dict):
            entries = [[key, item] for key, item in value.items()]
            place[at] = {"dict": entries}
            rest.extend((entry, 1) for entry in entries)
        else:
            place[at] = scalar(value)
    return whole[0]


_SURROGATES = pattern("[\ud800-\udfff]")


def _text(value: str | bool) -> str:
    """Return a text or truth value as JSON. A lone surrogate, which UTF-8 cannot encode, is escaped."""
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def canonical_json(value: Any) -> bytes:
    """Return the canonical output for neutral JSON: UTF-8, sorted keys, no whitespace, one line feed at the end."""
    pieces: list[str] = []
    rest: list[Any] = [value]
    texts: list[bool] = [False]  # whether the entry of `rest` is output already
    while rest:
        item, is_text = rest.pop(), texts.pop()
        if is_text or isinstance(item, str | bool):
            pieces.append(item if is_text else _text(item))
            continue
        parts: list[tuple[Any, bool]] = []
        if isinstance(item, dict):
            for index, key in enumerate(sorted(item)):
                parts += [(f"{',' if index else '{'}{_text(key)}:", True)]
                parts += [(item[key], False)]
            parts.append(("}" if item else "{}", True))
        else:
            for index, each in enumerate(item):
                parts += [("," if index else "[", True), (each, False)]
            parts.append(("]" if item else "[]", True))
        for each, done in reversed(parts):
            rest.append(each)
            texts.append(done)
    return "".join(pieces).encode() + b"\n"
