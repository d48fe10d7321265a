"""Deterministic bytes of a content tree: MessagePack with exactly one encoding for each tree.

A tree is None, bool, int, float, str, bytes, a list of trees, or a dict with text keys. The encoding does not depend on the
schema. `docs/spec/canonical.md` specifies it for other languages:

* every head is the shortest that MessagePack offers; an integer has its shortest form, unsigned from zero on;
* a float has 64 bits, and NaN is `7ff8000000000000`;
* the keys of a dict ascend by their UTF-8 bytes;
* an integer outside -2**63 … 2**64 - 1 is the list `["integer", TEXT]` with its hexadecimal digits;
* text with lone surrogates, which UTF-8 cannot encode, is bytes: the surrogates are encoded like other code points.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import msgspec

from graphwire.lazy import hashlib
from graphwire.schema import Float, decode_float

_encoder = msgspec.msgpack.Encoder()


def content_bytes(tree: Any) -> bytes:
    """Return the bytes of a tree. Parts may be encoded already (`msgspec.Raw`). The keys of dicts must ascend.

    Raises:
        RecursionError: the tree nests too deeply.
    """
    try:
        return _encoder.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_respelled(tree))


def content_float(value: Float) -> float:
    """Return the value of a float in a document. Every NaN becomes the same NaN."""
    value = decode_float(value)
    return math.nan if math.isnan(value) else value


def plain_content(tree: Any) -> Any:
    """Return plain data as content: lists and mappings begin with their kind, the keys of mappings ascend."""
    if isinstance(tree, list):
        return ["list", *map(plain_content, tree)]
    if isinstance(tree, dict):
        pairs = [[key, plain_content(value)] for key, value in tree.items()]
        return ["mapping", *sorted(pairs, key=itemgetter(0))]
    if isinstance(tree, (bytearray, memoryview)):
        return bytes(tree)
    return content_float(tree) if isinstance(tree, float) else tree


def digest(*parts: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest of the parts, each preceded by its length (8 bytes, little-endian)."""
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


def _respelled(tree: Any) -> Any:
    """Return the tree with replacements for integers and text that MessagePack cannot encode."""
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
