"""BSON (bsonspec.org) as a wire format of graphwire, with the module `bson` of pymongo.

BSON cannot represent every tree directly. These rules apply:

- The root of BSON is a document, so the tree is the value of its single key, `tree`.
- Keys cannot contain NUL, and `bson` interprets some keys that start with a dollar. In keys, `~` becomes `~~`, NUL becomes
  `~0`, and a leading dollar becomes `~$`.
- Integers have 64 bits. Larger ones become `{"$int": "<decimal>"}`, up to Python's limit of 4300 digits.
- Text with a lone surrogate is rejected. So are BSON types that are not tree values (dates, regular expressions, object
  ids, …), and documents that differ by a byte from what `encode` would write (duplicate keys, wrong list indices).
"""

from __future__ import annotations

import re
from typing import Any

import bson
from bson.int64 import Int64

from graphwire.errors import FormatError, LimitError
from graphwire.hooks import Tree, WireFormat, hookimpl, measure_tree

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""

_ROOT = "tree"
_BIG = "$int"
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SPECIAL = re.compile(r"^\$|[~\0]")
_ESCAPES = {"$": "~$", "~": "~~", "\0": "~0"}
_UNESCAPES = {written: character for character, written in _ESCAPES.items()}


class BsonFormat:
    """The wire format `bson`."""

    __slots__ = ()
    name = "bson"
    suffix = ".bson"
    media_type = "application/bson"

    def encode(self, tree: Tree) -> bytes:
        measure_tree(tree)
        try:
            return bson.encode({_ROOT: _to_bson(tree)})
        except RecursionError as error:
            raise LimitError("the tree is nested too deeply for BSON at this call depth") from error
        except (bson.errors.BSONError, ValueError, OverflowError) as error:
            raise FormatError(f"the tree cannot be written as BSON ({error})") from error

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        data = bytes(buffer)
        try:
            document = bson.decode(data)
            if list(document) != [_ROOT] or bson.encode(document) != data:
                raise FormatError("the bytes are not a BSON document of graphwire")
            tree = _from_bson(document[_ROOT])
            measure_tree(tree)
            return tree
        except RecursionError as error:
            raise LimitError("the BSON document is nested too deeply") from error
        except (bson.errors.BSONError, ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"the bytes are not a BSON document ({error})") from error

    def matches(self, head: bytes) -> bool:
        return head[5:10] == b"tree\0"  # after four bytes of length and one of type


def _to_bson(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        entries = {}
        for key, item in value.items():
            entries[_SPECIAL.sub(_escape, key)] = _to_bson(item)
        return entries
    if kind is list:
        items = []
        for item in value:
            items.append(_to_bson(item))
        return items
    if kind is int and not _INT_MIN <= value <= _INT_MAX:
        return {_BIG: str(value)}
    return value


def _from_bson(value: Any) -> Tree:
    kind = type(value)
    if kind is dict:
        if _BIG in value:
            return _big_int(value)
        entries = {}
        for key, item in value.items():
            entries[re.sub("~.?", _unescape, key)] = _from_bson(item)
        return entries
    if kind is list:
        items = []
        for item in value:
            items.append(_from_bson(item))
        return items
    if kind is Int64:
        return int(value)
    if kind in (type(None), bool, int, float, str, bytes):
        return value
    raise FormatError(f"a {kind.__name__} is not a value of a tree")


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found.group()]


def _unescape(found: re.Match[str]) -> str:
    if found.group() not in _UNESCAPES:
        raise FormatError(f"a key contains {found.group()!r}, which is not a valid escape")
    return _UNESCAPES[found.group()]


def _big_int(document: dict[str, Any]) -> int:
    text = document[_BIG]
    if len(document) == 1 and type(text) is str and re.fullmatch("-?[1-9][0-9]*", text):
        return int(text)
    raise FormatError(f"the value of {_BIG} is not a decimal number")


@hookimpl
def graphwire_wire_formats() -> list[WireFormat]:
    return [BsonFormat()]
