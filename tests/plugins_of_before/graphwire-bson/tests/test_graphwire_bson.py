from __future__ import annotations

import bson
import pytest
from graphwire_bson import BsonFormat

from graphwire.errors import FormatError
from graphwire.testing import WireFormatContract


class TestBson(WireFormatContract):
    wire_format = BsonFormat()

    def deep_document(self, depth: int) -> bytes:
        head = b""
        size = 5
        heads = [b"\x05\0\0\0"]
        for _ in range(depth - 1):
            size += 8
            heads.append(size.to_bytes(4, "little") + b"\x040\0")
        head = b"".join(reversed(heads)) + b"\0" * depth
        return (len(head) + 11).to_bytes(4, "little") + b"\x04tree\0" + head + b"\0"


def test_a_shallow_document_made_by_hand_is_read() -> None:
    assert BsonFormat().decode(TestBson().deep_document(3)) == [[[]]]


@pytest.mark.parametrize(
    "document",
    [
        {"tree": 1, "more": 2},
        {"other": 1},
        {"tree": bson.ObjectId()},
        {"tree": {"$ref": "a", "$id": 1}},
        {"tree": {"a": bson.Regex("x")}},
        {"tree": {"$int": "seven"}},
        {"tree": {"$int": "0" * 30}},
        {"tree": {"$int": "1" * 5000}},
        {"tree": {"~x": 1}},
        {"tree": {"~": 1}},
    ],
    ids=repr,
)
def test_a_document_that_no_tree_makes_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        BsonFormat().decode(bson.encode(document))


def test_equal_keys_are_refused() -> None:
    data = bytearray(BsonFormat().encode({"a": None, "b": None}))
    data[data.index(b"b\0")] = ord("a")
    with pytest.raises(FormatError, match="of graphwire"):
        BsonFormat().decode(data)
