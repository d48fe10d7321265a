"""Readers of JSON, MessagePack and CBOR documents written from docs/spec/trees.md alone. Each refusal names its rule."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 400
TOO_LARGE = 10**4300


class Refused(Exception):
    """The number of the rule that a document breaks."""


def need(condition: object, rule: str) -> None:
    if not condition:
        raise Refused(rule)


def as_text(data: bytes, rule: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refused(rule) from None


class Input:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        need(count <= len(self.data) - self.at, "TREE-8")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def floating(self, code: str, width: int) -> float:
        value: float = struct.unpack(f">{code}", self.take(width))[0]
        return value

    def items(self, count: int, depth: int, read: Callable[[Input, int], Any]) -> list[Any]:
        need(depth <= MAX_DEPTH, "TREE-4")
        need(count <= len(self.data) - self.at, "TREE-27")
        return [read(self, depth) for _ in range(count)]

    def entries(self, count: int, depth: int, read: Callable[[Input, int], Any], rule: str) -> dict[str, Any]:
        flat = self.items(2 * count, depth, read)
        keys = flat[::2]
        need(all(type(key) is str for key in keys), rule)
        need(len(set(keys)) == count, "TREE-6")
        return dict(zip(keys, flat[1::2], strict=True))


def read_msgpack(data: bytes) -> Any:
    source = Input(data)
    value = msgpack_value(source, 0)
    need(source.at == len(data), "TREE-8")
    return value


def msgpack_value(source: Input, depth: int) -> Any:
    head = source.number(1)
    if head < 0x80 or head >= 0xE0:
        return head if head < 0x80 else head - 256
    for first, last, read in MSGPACK:
        if first <= head <= last:
            return read(source, head - first, depth + 1)
    raise Refused("TREE-18")


def extension(source: Input, count: int) -> int:
    need(source.number(1) == 1, "TREE-18")
    data = source.take(count)
    value = int.from_bytes(data, "big", signed=True)
    need(not -(1 << 63) <= value < 1 << 64, "TREE-17")
    is_early = data[:2] == b"\xff\x80" and not any(data[2:])
    need((data[0], data[1] >> 7) not in ((0, 0), (255, 1)) or is_early, "TREE-17")
    need(abs(value) < TOO_LARGE, "TREE-2")
    return value


MSGPACK: list[tuple[int, int, Callable[[Input, int, int], Any]]] = [
    (0x80, 0x8F, lambda s, n, d: s.entries(n, d, msgpack_value, "TREE-18")),
    (0x90, 0x9F, lambda s, n, d: s.items(n, d, msgpack_value)),
    (0xA0, 0xBF, lambda s, n, _: as_text(s.take(n), "TREE-18")),
    (0xC0, 0xC0, lambda *_: None),
    (0xC2, 0xC3, lambda _, n, __: n == 1),
    (0xC4, 0xC6, lambda s, n, _: s.take(s.number(1 << n))),
    (0xC7, 0xC9, lambda s, n, _: extension(s, s.number(1 << n))),
    (0xCA, 0xCA, lambda s, *_: s.floating("f", 4)),
    (0xCB, 0xCB, lambda s, *_: s.floating("d", 8)),
    (0xCC, 0xCF, lambda s, n, _: s.number(1 << n)),
    (0xD0, 0xD3, lambda s, n, _: int.from_bytes(s.take(1 << n), "big", signed=True)),
    (0xD4, 0xD8, lambda s, n, _: extension(s, 1 << n)),
    (0xD9, 0xDB, lambda s, n, _: as_text(s.take(s.number(1 << n)), "TREE-18")),
    (0xDC, 0xDD, lambda s, n, d: s.items(s.number(2 << n), d, msgpack_value)),
    (0xDE, 0xDF, lambda s, n, d: s.entries(s.number(2 << n), d, msgpack_value, "TREE-18")),
]


def read_cbor(data: bytes) -> Any:
    need(data.startswith(b"\xd9\xd9\xf7"), "TREE-20")
    source = Input(data, 3)
    value = cbor_value(source, 0)
    need(source.at == len(data), "TREE-8")
    return value


def cbor_value(source: Input, depth: int) -> Any:
    head = source.number(1)
    major, more = head >> 5, head & 31
    if major == 7:
        simple = {20: False, 21: True, 22: None}
        need(more in simple or more in (25, 26, 27), "TREE-24")
        return simple[more] if more in simple else source.floating("efd"[more - 25], 1 << more - 24)
    count = cbor_count(source, more)
    match major:
        case 0 | 1:
            return count if major == 0 else -1 - count
        case 2:
            return source.take(count)
        case 3:
            return as_text(source.take(count), "TREE-24")
        case 4:
            return source.items(count, depth + 1, cbor_value)
        case 5:
            return source.entries(count, depth + 1, cbor_value, "TREE-24")
    inner = source.number(1)
    need(count in (2, 3) and inner >> 5 == 2, "TREE-24")
    value = int.from_bytes(source.take(cbor_count(source, inner & 31)), "big")
    value = value if count == 2 else -1 - value
    need(abs(value) < TOO_LARGE, "TREE-2")
    return value


def cbor_count(source: Input, more: int) -> int:
    need(more < 28, "TREE-24")
    return more if more < 24 else source.number(1 << more - 24)


JSON_TOKEN = re.compile(
    rb"""[ \t\r\n]*(?: ([\[\]{},:]) | (null|true|false|NaN|-?Infinity)
    | (-?(?:0|[1-9][0-9]*)) ((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | "((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)" )""",
    re.VERBOSE,
)
JSON_ESCAPE = re.compile(r"\\(?:u(....)|(.))")
JSON_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
JSON_WORDS = {"null": None, "true": True, "false": False}
JSON_FLOATS = ("nan", "inf", "-inf")


class Json:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def token(self) -> re.Match[bytes]:
        found = JSON_TOKEN.match(self.data, self.at)
        if found is None:
            raise Refused("TREE-10")
        self.at = found.end()
        return found

    def value(self, found: re.Match[bytes], depth: int) -> Any:
        mark, word, digits, rest, text = found.groups()
        if text is not None:
            return json_text(text)
        if word is not None:
            return JSON_WORDS[word.decode()] if word.decode() in JSON_WORDS else float(word)
        if digits is not None:
            return json_number(digits, rest)
        need(mark in b"[{" and depth <= MAX_DEPTH, "TREE-4" if mark in b"[{" else "TREE-10")
        value = self.items(depth + 1) if mark == b"[" else untagged(self.entries(depth + 1))
        need(depth < MAX_DEPTH or type(value) not in (list, dict), "TREE-4")
        return value

    def items(self, depth: int) -> list[Any]:
        values: list[Any] = []
        found = self.token()
        if found[1] == b"]":
            return values
        while True:
            values.append(self.value(found, depth))
            mark = self.token()[1]
            need(mark in (b",", b"]"), "TREE-10")
            if mark == b"]":
                return values
            found = self.token()

    def entries(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        found = self.token()
        if found[1] == b"}":
            return values
        while True:
            need(found[5] is not None and self.token()[1] == b":", "TREE-10")
            key = json_text(found[5])
            need(key not in values, "TREE-6")
            values[key] = self.value(self.token(), depth)
            mark = self.token()[1]
            need(mark in (b",", b"}"), "TREE-10")
            if mark == b"}":
                return values
            found = self.token()


def json_text(data: bytes) -> str:
    def character(escape: re.Match[str]) -> str:
        return chr(int(escape[1], 16)) if escape[1] else JSON_LETTERS.get(escape[2], escape[2])

    pairs = JSON_ESCAPE.sub(character, as_text(data, "TREE-10"))
    try:
        return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Refused("TREE-15") from None


def json_number(digits: bytes, rest: bytes) -> float:
    if not rest:
        need(len(digits.lstrip(b"-")) <= 4300, "TREE-2")
        return int(digits)
    value = float(digits + rest)
    need(abs(value) != float("inf"), "TREE-11")
    return value


def untagged(values: dict[str, Any]) -> Any:
    (key, value), *more = values.items() or [("", None)]
    if more or not re.fullmatch(r"\$+(bytes|float)", key):
        return values
    if key.startswith("$$"):
        return {key[1:]: value}
    if key == "$float":
        need(type(value) is str and value in JSON_FLOATS, "TREE-12")
        return float(value)
    need(type(value) is str and len(value) % 4 == 0, "TREE-12")
    need(re.fullmatch("[A-Za-z0-9+/]*={0,2}", value), "TREE-12")
    return base64.b64decode(value)


def read_json(data: bytes) -> Any:
    source = Json(data)
    value = source.value(source.token(), 0)
    need(not data[source.at :].strip(b" \t\r\n"), "TREE-8")
    return value


READERS: dict[str, Callable[[bytes], Any]] = {"json": read_json, "msgpack": read_msgpack, "cbor": read_cbor}
