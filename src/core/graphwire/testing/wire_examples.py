"""Example values for the contract tests of wire formats: edge cases of encodings, and values that are not trees."""

from __future__ import annotations

import enum
import math
import sys
from typing import Any

from graphwire.hooks import Tree


class _Text(str):
    """A subclass of `str`, which a format would decode as a plain `str`."""


class _Number(enum.IntEnum):
    ONE = 1


SMALL: dict[str, Tree] = {
    "schema_version": {"major": 8, "minor": 20},
    "nodes": [{"target": "torch.ops.aten.add.Tensor", "inputs": [1, -2.5, True, None, "é"]}, [], {}],
    "raw": b"\x00\xff",
    "large": 1 << 80,
    "nan": math.nan,
}

_EDGES = [0, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64, 65, 4096]
INTS = sorted({sign * (1 << bits) + more for bits in _EDGES for sign in (1, -1) for more in (-1, 0, 1)})
INTS += [23, 24, -24, -25, 10**40, -(10**40), 10**4300 - 1, 1 - 10**4300]
TOO_LONG = [10**4300, -(10**4300), 1 << 100_000]
"""Integers of more than 4,300 digits."""
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e22, 1e-5, 5e-324, 2.0**53]
FLOATS += [sys.float_info.max, math.inf, -math.inf, math.nan]
TEXTS = ["", "a", "é", "日本語", "😀", "\0", '"\\/', "\n\t\r\x1f\x7f"]
TEXTS += ["\u2028\u2029", "\ufeff", "e\u0301", "$bytes"]
TEXTS += ["x" * 31, "x" * 32, "x" * 256, "é" * 40_000]
TEXTS += ["null", "NaN", "-Infinity", "1", "\uffff", "\U0010ffff"]
BYTES = [b"", b"\0", b"\xff\xfe", bytes(range(256)), b"ab" * 40_000]
SCALARS: list[Tree] = [None, True, False, *INTS, *FLOATS, *TEXTS, *BYTES]
CONTAINERS: list[Tree] = [[], {}, [[]], [{}], {"": {}}, {"a": []}, [None], list(range(70_000))]
CONTAINERS += [[[], [[]], {}]]
KEYS = ["", " ", "$", ".", "a.b", "\0", "a\0b", "é", "0", "-1", "null", "__class__"]
KEYS += ["$bytes", "$float", "$ref", "$$x"]
IN_TAGS: list[Tree] = ["AAAA", "nan", "inf", 1, None, [], {}, b"x", math.inf, {"$bytes": "AAAA"}]
"""Values of a key that looks like a tag of a format."""

FOREIGN: list[Any] = [(), (1, 2), set(), frozenset(), object(), 1j, bytearray(b"x"), memoryview(b"x"), int]
FOREIGN += [_Text("x"), _Number.ONE]
FOREIGN_KEYS: list[Any] = [1, None, True, 1.5, b"k", (), _Text("k")]
STRANGERS = [b"", b"\0", b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x89PNG\r\n", b"hello", b"\x7fELF"]
STRANGERS += [b"\xff" * 64, b"\0" * 64]
"""First bytes of files that are not documents of any format: zip, pickle, image, text, executable."""
