"""The MessagePack wire format, using the package `msgpack`. Deviations from the tree:

- Integers outside of -2^63 … 2^64-1 are extension type 1: two's complement, big-endian, with as few bytes as possible.
  No other extension type (such as timestamps) is read.
- Text and bytes have at most 2^32-1 bytes, lists and dicts as many entries.
- Text with a lone surrogate is rejected in both directions; duplicate keys of a map are rejected.

A document starts with a map; `matches` checks its header and its first key.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from graphwire.errors import FormatError, LimitError, dict_of_pairs
from graphwire.registry.interfaces import Tree, WireFormat, hookimpl
from graphwire.schema import Program
from graphwire.schema.trees import ProgramDecoder, to_tree
from graphwire.wire.document import MAX_RECORDS, check_containers, measure_tree
from graphwire.wire.limits import DEFAULT_LIMITS
from graphwire_plugins.library import check_installed, library

check_installed("msgpack")

_PROGRAMS = ProgramDecoder(msgspec.msgpack)
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
_BIG_INT = 1
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1


def _msgpack() -> Any:
    return library("msgpack", "ExtType", "StackError", "UnpackException", "packb", "unpackb")


class MsgpackFormat:
    """Encodes trees as MessagePack."""

    __slots__ = ()
    name = "msgpack"
    suffix = ".msgpack"
    media_type = "application/vnd.msgpack"

    def encode(self, tree: Tree) -> bytes:
        measure_tree(tree)
        return self._pack(tree)

    def encode_records(self, records: Any) -> bytes:
        return self._pack(to_tree(records))

    def _pack(self, tree: Tree) -> bytes:
        msgpack = _msgpack()
        try:
            data: bytes = msgpack.packb(tree, default=_encode_big_int)
        except (ValueError, OverflowError) as error:  # lone surrogates, and lengths beyond 32 bits
            raise FormatError(f"the tree cannot be written as MessagePack ({error})") from error
        return data

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        return self.decode_bounded(buffer, DEFAULT_LIMITS.containers)

    def decode_bounded(self, buffer: bytes | bytearray | memoryview, containers: int) -> Tree:
        msgpack = _msgpack()
        data = bytes(buffer)
        check_containers(_containers(data, containers), containers)
        try:
            tree: Tree = msgpack.unpackb(data, ext_hook=_decode_big_int)
            measure_tree(tree)
            # A tree that packs to the same bytes lost no key. Others (long headers, small floats) are read again,
            # slowly.
            if msgpack.packb(tree, default=_encode_big_int) != data:
                msgpack.unpackb(
                    data, ext_hook=_decode_big_int, object_pairs_hook=partial(dict_of_pairs, twice=_twice)
                )
        except msgpack.StackError as error:
            raise LimitError("the MessagePack document is nested too deeply") from error
        except (msgpack.UnpackException, ValueError, OverflowError) as error:
            reason = str(error) or type(error).__name__
            raise FormatError(f"the bytes are not a MessagePack document ({reason})") from error
        return tree

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Program | None:
        data = bytes(buffer)
        if _containers(data, MAX_RECORDS) > MAX_RECORDS:
            return None
        try:
            program = _PROGRAMS.decode(data)
            same = self.encode_records(program) == data
        except (msgspec.MsgspecError, ValueError, RecursionError, TypeError):
            return None  # TypeError: an extension, such as a long integer in a codec's tree
        return program if same else None

    def matches(self, head: bytes) -> bool:
        if head[:1] == b"\x80":
            return len(head) == 1
        start = {0xDE: 3, 0xDF: 5}.get(head[0], 1 if 0x81 <= head[0] <= 0x8F else 0) if head else 0
        if not start or len(head) <= start:
            return False
        first = head[start]
        if 0xA0 <= first <= 0xBF:
            key = head[start + 1 : start + 1 + (first & 0x1F)]
        elif first in (0xD9, 0xDA, 0xDB):
            key = head[start + 1 + (1 << first - 0xD9) :]
        else:
            return False
        return all(byte >= 0x20 for byte in key)


def _containers(data: bytes, most: int) -> int:
    """Return an upper bound on the lists and dicts in a document, or 0 if they cannot exceed `most`.

    Bytes of texts that look like the header of a list or dict count, too.
    """
    return len(data) - len(data.translate(None, _CONTAINERS)) if len(data) > most else 0


def _encode_big_int(value: Any) -> Any:
    msgpack = _msgpack()
    if type(value) is not int:  # cannot happen: measure_tree saw every type
        raise FormatError(f"a {type(value).__name__} is not a value of a wire format")
    return msgpack.ExtType(_BIG_INT, value.to_bytes(_width(value), "big", signed=True))


def _width(value: int) -> int:
    """Return how many bytes the two's complement of an integer takes."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


def _decode_big_int(code: int, data: bytes) -> int:
    if code != _BIG_INT:
        raise FormatError(f"extension type {code} is not supported")
    value = int.from_bytes(data, "big", signed=True)
    # The second width is that of the first version of this format, with a needless byte for powers of two such as -2^127.
    if _INT_MIN <= value <= _INT_MAX or len(data) not in (_width(value), value.bit_length() // 8 + 1):
        raise FormatError(
            "an integer is written as an extension although it is small, or with needless bytes"
        )
    return value


def _twice(_: object) -> FormatError:
    return FormatError("a key occurs twice in one map")


@hookimpl
def graphwire_wire_formats() -> list[WireFormat]:
    return [MsgpackFormat()]
