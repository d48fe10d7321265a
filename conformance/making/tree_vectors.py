"""Trees as bytes of each wire format, right ones and wrong ones."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from making.files import encode


class Vector(NamedTuple):
    """A bare tree."""

    name: str
    data: bytes
    valid: bool = True


SHARED: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus_one": -1,
    "integers_at_every_width": [
        sign * (1 << bits) + more
        for bits in (5, 7, 8, 15, 16, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for more in (-1, 0, 1)
    ],
    "integers_beyond_64_bits": [2**64, -(2**63) - 1, 2**127, -(2**127), 2**128 - 1, 2**200, -(2**200)],
    "integer_of_a_thousand_bits": 2**1000 + 1,
    "floats": [
        0.0,
        -0.0,
        1.0,
        1.5,
        -2.5,
        0.1,
        1e300,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        1e16,
        1e22,
    ],
    "infinities": [math.inf, -math.inf],
    "nan": math.nan,
    "texts": [
        "",
        "a",
        "\u00e9",
        "\u540d",
        "\U0001f600",
        "\x00",
        "\u2028",
        "\ufeff",
        "\uffff",
        '"\\/\b\f\n\r\t\x1f\x7f',
    ],
    "text_of_each_length": ["a" * size for size in (31, 32, 255, 256)],
    "bytes": [b"", b"\x00", b"\xff\x00\x80", bytes(range(256))],
    "bytes_of_each_length": [b"\x01" * size for size in (1, 2, 3, 255, 256)],
    "lists": [[], [[]], [[], [[]]], [1, [2, [3]]]],
    "list_of_each_length": [[0] * size for size in (15, 16, 24, 256)],
    "dict_order": {"b": 1, "a": 2, "10": 3, "9": 4, "": 5, "1": 6},
    "dict_of_each_length": [{str(index): index for index in range(size)} for size in (0, 15, 16, 24, 256)],
    "keys_of_javascript": {"__proto__": 1, "constructor": 2, "toString": 3},
    "keys_that_look_alike": {"\u00e9": 1, "e\u0301": 2, "A": 3, "a": 4},
    "tags_of_json": [
        {"$bytes": 1},
        {"$float": "nan"},
        {"$$bytes": "AA=="},
        {"$bytes": "AA==", "b": 1},
        {"$other": 1},
        {"$": 1},
        {"$$float": {"$float": b"\x01"}},
    ],
    "nested_400_deep": None,
}
"""Trees that every wire format encodes. At the top level is a dict, which MessagePack needs to be recognized."""


def _deep(levels: int) -> Any:
    tree: Any = None
    for _ in range(levels):
        tree = [tree]
    return tree


DEEP = 5_000
"""So many lists inside each other are more than most stacks hold."""


def _shared(wire_format: str) -> Iterator[Vector]:
    for name, tree in SHARED.items():
        if wire_format == "json" and name.endswith("of_each_length"):
            continue  # JSON writes no lengths
        whole = {"tree": _deep(399) if name.startswith("nested") else tree}
        yield Vector(name, encode(whole, wire_format))


# ----------------------------------------------------------------------------------------------------------------- JSON

JSON_VALID = {
    "spaces": b' { "a" :\t[ 1 ,\r\n2 ] } \n',
    "escapes": rb'{"a": "\u0041\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\"}',
    "escaped_key": rb'{"\u0061": 1, "b": 2}',
    "escaped_tag": rb'{"\u0024bytes": "AAE="}',
    "integer_and_float": b'{"a": [1, 1.0, 1e0, 10e-1, -0, -0.0, 0, 1E+2]}',
    "integers_beyond_doubles": b'{"a": [9007199254740993, 18446744073709551616, -9223372036854775809]}',
    "float_of_many_digits": b'{"a": [0.1000000000000000055511151231257827021181583404541015625, 9007199254740993.0]}',
    "float_that_underflows": b'{"a": [1e-400, -1e-400, 4.9e-324]}',
    "tags": b'{"a": {"$bytes": "AAEC"}, "b": {"$float": "inf"}, "c": {"$float": "-inf"}, "d": {"$float": "nan"}}',
    "bytes_with_each_padding": b'{"a": [{"$bytes": ""}, {"$bytes": "AA=="}, {"$bytes": "AAA="}, {"$bytes": "AAAA"}]}',
    "dollars": b'{"a": [{"$$bytes": "AA=="}, {"$$float": 1}, {"$$$bytes": 1}, {"$x": 1}, {"$bytes": "AA==", "x": 1}]}',
    "list_at_the_top": b"[1]",
    "bare_tokens": b'{"a": [NaN, Infinity, -Infinity]}',
    "integer_of_4300_digits": b'{"a": 1' + b"0" * 4299 + b"}",
}
JSON_INVALID = {
    "empty": b"",
    "truncated": b'{"a": [1',
    "duplicate_keys": b'{"a": 1, "a": 2}',
    "duplicate_keys_spelled_differently": rb'{"a": 1, "\u0061": 2}',
    "duplicate_keys_inside": b'{"x": [{"b": 1, "c": 2, "b": 1}]}',
    "duplicate_tags": b'{"x": {"$bytes": "AA==", "$bytes": "AA=="}}',
    "bytes_not_base64": b'{"x": {"$bytes": "*"}}',
    "bytes_without_padding": b'{"x": {"$bytes": "AA"}}',
    "bytes_with_a_space": b'{"x": {"$bytes": "AA ="}}',
    "bytes_in_the_alphabet_of_urls": b'{"x": {"$bytes": "-_8="}}',
    "bytes_not_text": b'{"x": {"$bytes": 1}}',
    "float_unknown": b'{"x": {"$float": "Infinity"}}',
    "float_not_text": b'{"x": {"$float": 1.5}}',
    "float_beyond_doubles": b'{"x": 1e400}',
    "trailing_text": b'{"a": 1} x',
    "trailing_value": b'{"a": 1}{"b": 2}',
    "trailing_comma": b'{"a": [1,]}',
    "comment": b'{"a": 1 /* one */}',
    "single_quotes": b"{'a': 1}",
    "leading_zero": b'{"a": 01}',
    "plus_sign": b'{"a": +1}',
    "point_without_digits": b'{"a": 1.}',
    "hexadecimal": b'{"a": 0x1}',
    "lone_surrogate": rb'{"a": "\ud800"}',
    "lone_surrogate_in_a_key": rb'{"\udc00": 1}',
    "control_character": b'{"a": "\n"}',
    "unknown_escape": rb'{"a": "\x41"}',
    "not_utf8": b'{"a": "\xff"}',
    "overlong_utf8": b'{"a": "\xc0\x80"}',
    "surrogate_in_utf8": b'{"a": "\xed\xa0\x80"}',
    "utf16": '{"a": 1}'.encode("utf-16"),
    "byte_order_mark": b'\xef\xbb\xbf{"a": 1}',
    "integer_of_4301_digits": b'{"a": 1' + b"0" * 4300 + b"}",
    "nested_too_deep": b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "nested_401_deep": b'{"a": ' + b"[" * 400 + b"]" * 400 + b"}",
}

# ---------------------------------------------------------------------------------------------------------- MessagePack


def _map(*pairs: bytes) -> bytes:
    return bytes([0x80 | len(pairs)]) + b"".join(pairs)


def _pair(value: bytes, key: bytes = b"\xa1a") -> bytes:
    return key + value


def _ext1(data: bytes) -> bytes:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
    if len(data) in fixed:
        head = bytes([fixed[len(data)]])
    else:
        head = bytes([0xC7, len(data)]) if len(data) < 256 else b"\xc8" + len(data).to_bytes(2, "big")
    return head + b"\x01" + data


def _integer(value: int) -> bytes:
    return _ext1(value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


MSGPACK_VALID = {
    "long_heads": b"\xde\x00\x01\xd9\x01a\xdc\x00\x02\xd1\x00\x05\xdb\x00\x00\x00\x01b",
    "longest_heads": b"\xdf\x00\x00\x00\x01\xda\x00\x01a\xdd\x00\x00\x00\x01\xc6\x00\x00\x00\x01\xff",
    "integers_in_long_forms": _map(
        _pair(
            b"\x95\xcc\x05\xcd\x00\x05\xce\x00\x00\x00\x05\xcf\x00\x00\x00\x00\x00\x00\x00\x05\xd3"
            + b"\xff" * 8
        )
    ),
    "float_of_32_bits": _map(_pair(b"\xca" + struct.pack(">f", 0.1))),
    "integer_as_an_extension": _map(_pair(_ext1((2**64).to_bytes(9, "big")))),
    "negative_integer_as_an_extension": _map(_pair(_ext1((-(2**63) - 1).to_bytes(9, "big", signed=True)))),
    "power_of_two_as_an_extension": _map(_pair(_ext1((-(2**127)).to_bytes(16, "big", signed=True)))),
    "power_of_two_as_a_longer_extension": _map(_pair(_ext1((-(2**127)).to_bytes(17, "big", signed=True)))),
    "integer_of_4300_digits": _map(_pair(_integer(10**4300 - 1))),
    "integer_of_16_bytes": _map(_pair(_ext1((2**120).to_bytes(16, "big")))),
    "nan_with_a_payload": _map(_pair(b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x01")),
}
MSGPACK_INVALID = {
    "empty": b"",
    "truncated": b"\x81\xa1a\x92\x01",
    "truncated_text": b"\x81\xa1a\xa5ab",
    "trailing_bytes": _map(_pair(b"\x01")) + b"\x00",
    "duplicate_keys": _map(_pair(b"\x01"), _pair(b"\x02")),
    "duplicate_keys_with_other_heads": _map(_pair(b"\x01"), _pair(b"\x02", b"\xd9\x01a")),
    "key_not_text": _map(_pair(b"\x01", b"\x05")),
    "key_of_bytes": _map(_pair(b"\x01", b"\xc4\x01a")),
    "extension_of_another_type": _map(_pair(b"\xd4\x02\x01")),
    "integer_of_4301_digits": _map(_pair(_integer(-(10**4300)))),
    "timestamp": _map(_pair(b"\xd6\xff\x00\x00\x00\x00")),
    "extension_of_a_small_integer": _map(_pair(_ext1(b"\x05"))),
    "extension_of_a_64_bit_integer": _map(_pair(_ext1((2**63).to_bytes(9, "big")))),
    "extension_with_needless_bytes": _map(_pair(_ext1((2**64).to_bytes(16, "big")))),
    "extension_with_a_needless_sign": _map(_pair(_ext1((-(2**63) - 1).to_bytes(10, "big", signed=True)))),
    "extension_without_bytes": _map(_pair(b"\xc7\x00\x01")),
    "text_not_utf8": _map(_pair(b"\xa1\xff")),
    "text_with_a_surrogate": _map(_pair(b"\xa3\xed\xa0\x80")),
    "byte_never_used": _map(_pair(b"\xc1")),
    "list_that_lies": _map(_pair(b"\xdd\xff\xff\xff\xff")),
    "bytes_that_lie": _map(_pair(b"\xc6\xff\xff\xff\xff")),
    "nested_too_deep": b"\x81\xa1a" + b"\x91" * DEEP + b"\xc0",
    "nested_401_deep": b"\x81\xa1a" + b"\x91" * 399 + b"\x90",
}

# ----------------------------------------------------------------------------------------------------------------- CBOR

_SELF = b"\xd9\xd9\xf7"


def _cbor(value: bytes) -> bytes:
    return _SELF + b"\xa1\x61a" + value


def _bignum(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return b"\xc2\x59" + size.to_bytes(2, "big") + value.to_bytes(size, "big")


CBOR_VALID = {
    "long_heads": _SELF + b"\xb8\x01\x78\x01a\x98\x02\x18\x05\x19\x00\x05",
    "longest_heads": _SELF
    + b"\xbb"
    + b"\x00" * 7
    + b"\x01\x7b"
    + b"\x00" * 7
    + b"\x01a\x9b"
    + b"\x00" * 7
    + b"\x01\x1b"
    + b"\x00" * 7
    + b"\x05",
    "float_of_16_bits": _cbor(b"\x84\xf9\x3c\x00\xf9\x80\x00\xf9\x00\x01\xf9\xfb\xff"),
    "float_of_32_bits": _cbor(b"\xfa" + struct.pack(">f", 0.1)),
    "infinities_of_each_width": _cbor(b"\x83\xf9\x7c\x00\xfa\xff\x80\x00\x00\xfb\x7f\xf0" + b"\x00" * 6),
    "bignum": _cbor(b"\xc2\x49\x01" + b"\x00" * 8),
    "negative_bignum": _cbor(b"\xc3\x49\x01" + b"\x00" * 8),
    "integer_of_4300_digits": _cbor(_bignum(10**4300 - 1)),
    "integers_of_64_bits": _cbor(b"\x82\x1b" + b"\xff" * 8 + b"\x3b" + b"\xff" * 8),
}
CBOR_INVALID = {
    "empty": b"",
    "without_the_tag": b"\xa1\x61a\x01",
    "tag_twice": _SELF + _SELF + b"\xa1\x61a\x01",
    "truncated": _cbor(b"\x82\x01"),
    "trailing_bytes": _cbor(b"\x01") + b"\x00",
    "duplicate_keys": _SELF + b"\xa2\x61a\x01\x61a\x02",
    "key_not_text": _SELF + b"\xa1\x01\x02",
    "key_of_bytes": _SELF + b"\xa1\x41a\x02",
    "tag_of_a_date": _cbor(b"\xc1\x1a\x00\x00\x00\x00"),
    "tag_of_a_set": _cbor(b"\xd9\x01\x02\x81\x01"),
    "tag_of_shared_values": _cbor(b"\xd8\x1c\x81\x01"),
    "tag_of_a_string_reference": _cbor(b"\xd9\x01\x00\x82\x61b\xd8\x19\x00"),
    "tag_of_a_decimal": _cbor(b"\xc4\x82\x01\x02"),
    "tag_unknown": _cbor(b"\xda\x7f\xff\xff\xff\x01"),
    "self_described_tag_inside": _cbor(b"\xd9\xd9\xf7\x01"),
    "undefined": _cbor(b"\xf7"),
    "simple_value": _cbor(b"\xf0"),
    "simple_value_in_a_byte": _cbor(b"\xf8\xff"),
    "indefinite_list": _cbor(b"\x9f\x01\xff"),
    "indefinite_map": _SELF + b"\xbf\x61a\x01\xff",
    "indefinite_text": _cbor(b"\x7f\x61b\xff"),
    "indefinite_bytes": _cbor(b"\x5f\x41b\xff"),
    "break_alone": _cbor(b"\xff"),
    "reserved_head": _cbor(b"\x1c"),
    "text_not_utf8": _cbor(b"\x61\xff"),
    "text_with_a_surrogate": _cbor(b"\x63\xed\xa0\x80"),
    "list_that_lies": _cbor(b"\x9b" + b"\xff" * 8),
    "bytes_that_lie": _cbor(b"\x5b\x7f" + b"\xff" * 7),
    "integer_of_4301_digits": _cbor(_bignum(10**4300)),
    "bignum_of_text": _cbor(b"\xc2\x61a"),
    "nested_too_deep": _cbor(b"\x81" * DEEP + b"\xf6"),
    "nested_401_deep": _cbor(b"\x81" * 399 + b"\x80"),
}

_TABLES = {
    "json": (JSON_VALID, JSON_INVALID),
    "msgpack": (MSGPACK_VALID, MSGPACK_INVALID),
    "cbor": (CBOR_VALID, CBOR_INVALID),
}


def vectors(wire_format: str) -> Iterator[Vector]:
    """Every vector of a wire format; names are unique."""
    yield from _shared(wire_format)
    valid, invalid = _TABLES[wire_format]
    yield from (Vector(name, data) for name, data in valid.items())
    yield from (Vector(f"not_{name}", data, valid=False) for name, data in invalid.items())
