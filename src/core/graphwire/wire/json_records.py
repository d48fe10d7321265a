"""Decodes the JSON records of an archive (configs, manifest, references), and finds keys that occur twice in JSON text."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from graphwire.errors import ArchiveError
from graphwire.wire.plain_trees import MAX_DEPTH, measure_tree

_READ_DEPTH = MAX_DEPTH + 1  # a tag of the JSON format is one more container
_T = TypeVar("_T")


def decode_json_record(decoder: msgspec.json.Decoder[_T], data: bytes, what: str, place: str) -> _T:
    """Return the value of a JSON record. Unknown fields are ignored.

    Args:
        what: a name for the record, for the message.

    Raises:
        ArchiveError: the bytes are not JSON of the decoder's type, or an object has a key twice.
    """
    try:
        value = decoder.decode(data)
        # A value that encodes to the same bytes lost nothing.
        if msgspec.json.encode(value) != data and lost_a_key(msgspec.json.decode(data), data):
            raise msgspec.DecodeError("a key occurs twice in one object")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveError(f"{what} damaged: {error}", place=place) from None
    return value


def lost_a_key(tree: Any, data: bytes) -> bool:
    """Whether a reader that keeps the last of two equal keys loses texts of a JSON text.

    A tree that encodes to the same bytes lost nothing. For other texts (with spaces, as torch writes them), texts are
    counted.
    """
    if msgspec.json.encode(tree) == data:
        return False
    return 2 * measure_tree(tree, max_depth=_READ_DEPTH).texts != _quotes(data)


def _quotes(data: bytes) -> int:
    """Count the quotes that open or close a text: all except escaped ones."""
    if b"\\" not in data:
        return data.count(b'"')
    without_pairs = data.replace(rb"\\", b"")
    return without_pairs.count(b'"') - without_pairs.count(rb"\"")
