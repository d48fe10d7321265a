"""What msgpack and CBOR say on the wire, and what they refuse to read."""

from __future__ import annotations

from typing import Any

import cbor2
import msgpack
import pytest

from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.msgpack_format import MsgpackFormat

CBOR, MSGPACK = CborFormat(), MsgpackFormat()


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        ({"a": 1}, "81a16101"),
        (b"\x00", "c40100"),
        (1 << 64, "c70901010000000000000000"),
        (-(1 << 63) - 1, "c70901ff7fffffffffffffff"),
        ((1 << 64) - 1, "cfffffffffffffffff"),
    ],
)
def test_msgpack_bytes(tree: Any, written: str) -> None:
    assert MSGPACK.encode(tree).hex() == written
    assert MSGPACK.decode(bytes.fromhex(written)) == tree


@pytest.mark.parametrize(
    "head", ["830200000374726565", "83a50000037472656500", "80ff", "8101", "de0001", "df000000", "de0001a5"]
)
def test_msgpack_does_not_claim(head: str) -> None:
    assert MSGPACK.matches(bytes.fromhex(head)) is (head == "de0001a5")


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        ({"b": 1, "a": 2}, "d9d9f7a2616201616102"),
        (b"\x00", "d9d9f74100"),
        (1 << 64, "d9d9f7c249010000000000000000"),
        (-(1 << 64) - 1, "d9d9f7c349010000000000000000"),
        (1.5, "d9d9f7fb3ff8000000000000"),
    ],
)
def test_cbor_bytes(tree: Any, written: str) -> None:
    assert CBOR.encode(tree).hex() == written
    assert CBOR.decode(bytes.fromhex(written)) == tree


def test_other_readers_read_ours() -> None:
    tree = {"a": [1, -2.5, None, True, b"x", "é"]}
    assert cbor2.loads(CBOR.encode(tree)[3:]) == tree
    assert msgpack.unpackb(MSGPACK.encode(tree)) == tree
