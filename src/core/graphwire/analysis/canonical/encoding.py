"""The bytes of a content tree: MessagePack, in the one spelling that each tree has.

A tree is None, bool, int, float, str, bytes, lists of trees, and dicts with text keys. It is written so, without torch and
whatever the schema is; `docs/content-hash.md` states the same for other languages:

* every head is the shortest that MessagePack has; an integer is the shortest one of its value, unsigned from zero on;
* a float is 64 bits wide, and NaN is `7ff8000000000000`;
* the keys of a dict ascend by their UTF-8 bytes;
* an integer outside -2**63 … 2**64 - 1 is the list `["integer", TEXT]` with its hexadecimal digits;
* text that UTF-8 does not have (lone surrogates) is bytes: UTF-8 as if it had.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from graphwire.schema import Float, decode_float

_encoder = msgspec.msgpack.Encoder()


def content_bytes(tree: Any) -> bytes:
    """The bytes of a tree, or of one whose parts are encoded already (`msgspec.Raw`). The keys of dicts must ascend.

    Raises:
        RecursionError: it nests too deeply.
    """
    try:
        return _encoder.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_respelled(tree))


def content_float(value: Float) -> float:
    """The float that a document says, with the one NaN."""
    value = decode_float(value)
    return math.nan if math.isnan(value) else value


def digest(*parts: bytes) -> bytes:
    """A digest of bytes in a row, each with its length (8 bytes, little-endian) in front: BLAKE2b of 16 bytes."""
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


def _respelled(tree: Any) -> Any:
    """What MessagePack has no number or text for, said otherwise."""
    if isinstance(tree, dict):
        return {key: _respelled(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_respelled(item) for item in tree]
    if type(tree) is int and not -(1 << 63) <= tree < 1 << 64:
        return ["integer", f"{tree:x}"]
    if type(tree) is str:
        try:
            tree.encode()
        except UnicodeEncodeError:
            return tree.encode("utf-8", "surrogatepass")
    return tree
