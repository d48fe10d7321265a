"""What msgpack and CBOR say on the wire, and what they refuse to read."""

from __future__ import annotations

import cbor2
import msgpack
import pytest

from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.msgpack_format import MsgpackFormat

CBOR, MSGPACK = CborFormat(), MsgpackFormat()


@pytest.mark.parametrize(
    "head", ["830200000374726565", "83a50000037472656500", "80ff", "8101", "de0001", "df000000", "de0001a5"]
)
def test_msgpack_does_not_recognize(head: str) -> None:
    assert MSGPACK.matches(bytes.fromhex(head)) is (head == "de0001a5")


def test_other_readers_read_ours() -> None:
    tree = {"a": [1, -2.5, None, True, b"x", "é"]}
    assert cbor2.loads(CBOR.encode(tree)[3:]) == tree
    assert msgpack.unpackb(MSGPACK.encode(tree)) == tree
