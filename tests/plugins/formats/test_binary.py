"""What msgpack and CBOR say on the wire, and what they refuse to read."""

from __future__ import annotations

from typing import Any

import cbor2
import msgpack
import pytest

from graphwire.errors import FormatError
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
    "written",
    [
        "d6ff00000000",  # a timestamp
        "81a161d6ff00000000",
        "d40200",  # an extension of another type
        "d40105",  # a small integer as an extension
        "c70a0100010000000000000000",  # needless bytes
        "c70001",
        "81c4016101",  # a key that is bytes
        "81c0c0",
        "8101c0",
        "82a16101a16102",  # a key twice
        "df00000002a16101a16102",
        "dfffffffff",
        "ddffffffff",
        "dbffffffff",
        "c6ffffffff",
        "c1",
        "a1ff",
        "a3eda080",  # a lone surrogate
    ],
)
def test_msgpack_refuses(written: str) -> None:
    with pytest.raises(FormatError):
        MSGPACK.decode(bytes.fromhex(written))


def test_msgpack_reads_what_others_pack_less_tightly() -> None:
    assert MSGPACK.decode(bytes.fromhex("df00000001d9016192d10001ca3fc00000")) == {"a": [1, 1.5]}


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


@pytest.mark.parametrize(
    "written",
    [
        "c074323031332d30332d32315432303a30343a30305a",  # a date
        "c11a514b67b0",
        "c48221196ab3",  # a decimal
        "c5822003",
        "d81e820103",  # a rational
        "d81c80",  # a shareable
        "82d81c8001d81d00",  # a reference
        "d9010082616161d81900",  # string references
        "d90102820102",  # a set
        "d82563616263",  # a UUID
        "d8236161",  # a regular expression
        "d9d9f700",
        "d903ec6a323031332d30332d3231",
        "d8c800",  # an unknown tag
        "c201",
        "f7",  # undefined
        "f0",
        "e0",
        "f820",
        "a10102",  # keys that are no text
        "a14101f6",
        "a1f6f6",
        "a26161016161 02",  # a key twice
        "9f01ff",  # indefinite lengths
        "bf616101ff",
        "7f6161ff",
        "5f4101ff",
        "9bffffffffffffffff",
        "bbffffffffffffffff",
        "5bffffffffffffffff",
        "7bffffffffffffffff",
        "1c",
        "ff",
        "0000",  # bytes behind the document
        "63eda080",
    ],
)
def test_cbor_refuses(written: str) -> None:
    with pytest.raises(FormatError):
        CBOR.decode(bytes.fromhex("d9d9f7" + written))
    with pytest.raises(FormatError, match="55799"):
        CBOR.decode(bytes.fromhex(written.removeprefix("d9d9f7")))


def test_other_readers_read_ours() -> None:
    tree = {"a": [1, -2.5, None, True, b"x", "é"]}
    assert cbor2.loads(CBOR.encode(tree)[3:]) == tree
    assert msgpack.unpackb(MSGPACK.encode(tree)) == tree
