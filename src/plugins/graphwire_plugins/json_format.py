"""The JSON wire format (RFC 8259), UTF-8, without spaces between tokens. Deviations from the tree:

- Bytes are written as `{"$bytes": "<base64>"}`; nan and the infinities as `{"$float": "nan" | "inf" | "-inf"}`.
- A dict whose only key is `$bytes` or `$float`, with any number of leading dollars, gets one more dollar.
- Integers have up to 4300 digits, Python's own limit.
- Text with a lone surrogate is rejected in both directions: UTF-8 cannot represent it.
- The reader also accepts the bare tokens NaN, Infinity and -Infinity, which torch wrote up to 2.6. It rejects duplicate
  keys in an object.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from binascii import a2b_base64, b2a_base64
from functools import partial
from typing import Any

import msgspec

from graphwire.errors import FormatError, LimitError, dict_of_pairs
from graphwire.registry.interfaces import Tree, WireFormat, hookimpl
from graphwire.schema import Program
from graphwire.schema.trees import ProgramDecoder
from graphwire.wire.document import MAX_RECORDS, check_containers, lost_a_key, measure_tree
from graphwire.wire.limits import DEFAULT_LIMITS

_PROGRAMS = ProgramDecoder(msgspec.json)
_TAG = r"\$+(?:bytes|float)"
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_FLOAT_NAMES = {math.inf: "inf", -math.inf: "-inf"}


class JsonFormat:
    """Encodes trees as JSON. msgspec does the work; Python code walks the tree only if one of the rules above applies."""

    __slots__ = ()
    name = "json"
    suffix = ".json"
    media_type = "application/json"

    def encode(self, tree: Tree) -> bytes:
        found = measure_tree(tree)
        try:
            if bytes not in found.kinds and found.finite:
                data = msgspec.json.encode(tree)
                if not _holds_tags(data):
                    return data
            return msgspec.json.encode(_encode_tags(tree))
        except (ValueError, OverflowError) as error:  # lone surrogates
            raise FormatError(f"the tree cannot be written as JSON ({error})") from error

    def encode_records(self, records: Any) -> bytes:
        try:
            data = msgspec.json.encode(records)
        except (ValueError, OverflowError) as error:
            raise FormatError(f"the records cannot be written as JSON ({error})") from error
        return self.encode(msgspec.to_builtins(records)) if _holds_tags(data) else data

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        tree = self.decode_bounded(buffer, DEFAULT_LIMITS.containers)
        measure_tree(tree)
        return tree

    def decode_bounded(self, buffer: bytes | bytearray | memoryview, containers: int) -> Tree:
        data = bytes(buffer)
        check_containers(_containers(data), containers)
        try:
            try:
                tree = msgspec.json.decode(data)
            except msgspec.DecodeError as error:
                # msgspec also refuses a negative integer of 4,300 digits: it counts the sign.
                if b"NaN" not in data and b"Infinity" not in data and "Integer value" not in str(error):
                    raise
                tree = _decode_slowly(data)
            if lost_a_key(tree, data):
                _decode_slowly(data)
            return _decode_tags(tree) if _may_hold_tags(data) else tree
        except RecursionError as error:
            raise LimitError("the JSON document is nested too deeply") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise FormatError(f"the bytes are not a JSON document ({error})") from error

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Program | None:
        data = bytes(buffer)
        if len(data) > MAX_RECORDS and _containers(data) > MAX_RECORDS:
            return None
        try:
            return None if _holds_tags(data) else _PROGRAMS.decode(data, exactly=True)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def most_values(self, buffer: bytes | bytearray | memoryview) -> int:
        data = bytes(buffer)  # each value is the document, the first of a container, or follows a comma
        return 1 + len(data) - len(data.translate(None, b"{[,"))

    def matches(self, head: bytes) -> bool:
        return head.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def _containers(data: bytes) -> int:
    """Return an upper bound on the lists and objects in a document. Brackets inside texts count, too."""
    return len(data) - len(data.translate(None, b"{["))


def _holds_tags(data: bytes) -> bool:
    """Whether a document that we write contains a text that ends like a tag."""
    return b"$" in data and (b'$bytes"' in data or b'$float"' in data)


def _may_hold_tags(data: bytes) -> bool:
    """Whether a document contains a text that ends like a tag, or escapes that could spell one, which we never write."""
    return _holds_tags(data) or rb"\u00" in data


def _is_tagged(value: dict[str, Any]) -> bool:
    return len(value) == 1 and re.fullmatch(_TAG, next(iter(value))) is not None


def _encode_tags(tree: Any) -> Any:
    kind = type(tree)
    if kind is list:
        items = []
        for item in tree:  # a loop, because a comprehension needs two stack frames per level
            items.append(_encode_tags(item))
        return items
    if kind is dict:
        entries = {}
        prefix = "$" if _is_tagged(tree) else ""
        for key, value in tree.items():
            entries[prefix + key] = _encode_tags(value)
        return entries
    if kind is bytes:
        return {"$bytes": b2a_base64(tree, newline=False).decode("ascii")}
    if kind is float and not math.isfinite(tree):
        return {"$float": _FLOAT_NAMES.get(tree, "nan")}
    return tree


def _decode_tags(tree: Any) -> Any:
    kind = type(tree)
    if kind is list:
        for index, item in enumerate(tree):
            if type(item) is list or type(item) is dict:
                tree[index] = _decode_tags(item)
        return tree
    if kind is not dict:
        return tree
    if _is_tagged(tree):
        ((key, value),) = tree.items()
        if key == "$bytes":
            return _decode_bytes(value)
        if key == "$float":
            return _decode_float(value)
        return {key[1:]: _decode_tags(value)}
    for key, value in tree.items():
        if type(value) is list or type(value) is dict:
            tree[key] = _decode_tags(value)
    return tree


def _decode_bytes(value: Any) -> bytes:
    try:
        if type(value) is str and len(value) % 4 == 0:  # Python drops one excess "="
            return a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        pass
    raise FormatError("the value of $bytes is not base64 text")


def _decode_float(value: Any) -> float:
    if type(value) is not str or value not in _FLOATS:
        raise FormatError('the value of $float is not "nan", "inf" or "-inf"')
    return _FLOATS[value]


def _decode_slowly(data: bytes) -> Any:
    """Decode with the standard library, which accepts bare non-finite tokens and reports every pair, so duplicate keys
    are found."""
    tree = json.loads(
        data.decode("utf-8"), object_pairs_hook=partial(dict_of_pairs, twice=_twice), parse_float=_finite
    )
    msgspec.json.encode(tree)  # rejects lone surrogates
    return tree


def _twice(key: str) -> FormatError:
    return FormatError(f"the key {key[:80]!r} occurs twice in one object")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


@hookimpl
def graphwire_wire_formats() -> list[WireFormat]:
    return [JsonFormat()]
