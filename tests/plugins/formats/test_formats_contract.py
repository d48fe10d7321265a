"""The formats in the box keep the contract that every format keeps."""

from __future__ import annotations

from graphwire.testing import WireFormatContract
from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.json_format import JsonFormat
from graphwire_plugins.msgpack_format import MsgpackFormat


class TestJson(WireFormatContract):
    wire_format = JsonFormat()

    def deep_document(self, depth: int) -> bytes:
        return b"[" * depth + b"]" * depth


class TestMsgpack(WireFormatContract):
    wire_format = MsgpackFormat()

    def deep_document(self, depth: int) -> bytes:
        return b"\x91" * (depth - 1) + b"\x90"


class TestCbor(WireFormatContract):
    wire_format = CborFormat()

    def deep_document(self, depth: int) -> bytes:
        return b"\xd9\xd9\xf7" + b"\x81" * (depth - 1) + b"\x80"
