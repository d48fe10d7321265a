"""The CBOR wire format (RFC 8949), using the package `cbor2`. Deviations from the tree:

- A document starts with the self-described tag 55799 (bytes d9 d9 f7), so that it cannot be mistaken for another
  format.
- Integers beyond 64 bits are bignums (tags 2 and 3). Every other tag is rejected, including shared and string
  references, dates and sets. So are undefined and other simple values, indefinite lengths, keys that are not text, and
  duplicate keys.
- Text with a lone surrogate is rejected in both directions.

Dict order is significant: maps keep their order instead of the sorted order of "canonical" CBOR. Floats have 64 bits,
inf and nan 16.
"""

from __future__ import annotations

import io
import re
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from graphwire.errors import FormatError, GraphwireError, LimitError
from graphwire.registry.interfaces import Tree, WireFormat, hookimpl
from graphwire.schema import Program, SymInt, TensorMeta
from graphwire.schema.trees import ProgramDecoder, to_tree
from graphwire.wire.document import MAX_DEPTH, MAX_RECORDS, check_containers, measure_tree
from graphwire.wire.limits import DEFAULT_LIMITS
from graphwire_plugins.library import check_installed, library

check_installed("cbor2")

_PROGRAMS = ProgramDecoder(msgspec.msgpack)
_MARK = b"the metas of the values"
_OFFSET = SymInt(as_int=int.from_bytes(b"+offset+"))
_CONTAINERS = bytes(range(0x80, 0xC0))
_SELF_DESCRIBED = b"\xd9\xd9\xf7"
_LONG_BIGNUMS = (rb"\xc2[\x59-\x5b]", rb"\xc3[\x59-\x5b]")
"""The starts of bignums of 256 bytes or more. Two patterns with a first byte each are found ten times as fast as one without."""


def _cbor2() -> Any:
    return library("cbor2", "CBORDecoder", "CBORError", "dumps")


class CborFormat:
    """Encodes trees as CBOR."""

    __slots__ = ()
    name = "cbor"
    suffix = ".cbor"
    media_type = "application/cbor"

    def encode(self, tree: Tree) -> bytes:
        measure_tree(tree)  # before cbor2 sees it: version 6.2 overruns the C stack on deep trees
        return self._dump(tree)

    def encode_records(self, records: Any) -> bytes:
        if not isinstance(records, Program):
            return self._dump(to_tree(records))
        # Metas of values make up most of a program, and few are distinct: each is encoded once, and the map replaces a
        # marker.
        module = records.graph_module
        graph = replace(module.graph, tensor_values={})
        tree = to_tree(replace(records, graph_module=replace(module, graph=graph)))
        tree["graph_module"]["graph"]["tensor_values"] = _MARK
        data, mark = self._dump(tree), _cbor2().dumps(_MARK)
        if data.count(mark) != 1:
            return self._dump(to_tree(records))
        return data.replace(mark, _encode_metas(module.graph.tensor_values))

    def _dump(self, tree: Tree) -> bytes:
        cbor2 = _cbor2()
        try:
            return _SELF_DESCRIBED + cbor2.dumps(tree)
        except (cbor2.CBORError, ValueError, OverflowError) as error:
            raise FormatError(f"the tree cannot be written as CBOR ({error})") from error

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        return self.decode_bounded(buffer, DEFAULT_LIMITS.containers)

    def decode_bounded(self, buffer: bytes | bytearray | memoryview, containers: int) -> Tree:
        tree = self._load(bytes(buffer), containers)
        measure_tree(tree)
        return tree

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Program | None:
        data = bytes(buffer)
        if any(re.search(each, data) for each in _LONG_BIGNUMS):
            return None  # `decode_bounded` checks it
        try:
            tree = self._load(data, MAX_RECORDS)
            # msgspec reads records from MessagePack in less time than from a tree, and compares them as JSON.
            program = _PROGRAMS.decode(msgspec.msgpack.encode(tree))
            same = msgspec.json.encode(program) == msgspec.json.encode(tree)
        except (GraphwireError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError, TypeError):
            return None
        return program if same else None

    def _load(self, data: bytes, containers: int) -> Tree:
        cbor2 = _cbor2()
        if not data.startswith(_SELF_DESCRIBED):
            raise FormatError(
                "the bytes are not a CBOR document of graphwire (they do not start with tag 55799)"
            )
        if len(data) > containers:
            check_containers(len(data) - len(data.translate(None, _CONTAINERS)), containers)
        stream = io.BytesIO(data)
        stream.seek(len(_SELF_DESCRIBED))
        try:
            tree: Tree = cbor2.CBORDecoder(
                stream,
                tag_hook=_refuse,
                semantic_decoders=_REFUSED,
                max_depth=MAX_DEPTH,
                allow_indefinite=False,
                allow_duplicate_keys=False,
                strict_hashable_types=True,
            ).decode()
        except cbor2.CBORError as error:
            if "nesting depth" in str(error):
                raise LimitError("the CBOR document is nested too deeply") from error
            reason = error.__cause__ if isinstance(error.__cause__, FormatError) else error
            raise FormatError(f"the bytes are not a CBOR document of graphwire ({reason})") from error
        except (ValueError, OverflowError) as error:
            raise FormatError(f"the bytes are not a CBOR document of graphwire ({error})") from error
        if stream.tell() != len(data):
            raise FormatError(f"{len(data) - stream.tell()} bytes follow the CBOR document")
        return tree

    def matches(self, head: bytes) -> bool:
        return head.startswith(_SELF_DESCRIBED)


def _encode_metas(metas: dict[str, TensorMeta]) -> bytes:
    """Encode a map whose values are shared records, in the same bytes as `cbor2`."""
    cbor2 = _cbor2()
    count = len(metas)
    width = next(
        width for width, limit in ((0, 24), (1, 1 << 8), (2, 1 << 16), (4, 1 << 32)) if count < limit
    )
    head = bytes([0xA0 | (count if width == 0 else 23 + width.bit_length())])
    chunks = [head + count.to_bytes(width, "big") if width else head]
    known: dict[int, bytes] = {}
    alike: dict[bytes, list[bytes]] = {}
    for name, meta in metas.items():
        encoded = known.get(id(meta))
        if encoded is None:
            encoded = known[id(meta)] = _encode_meta(meta, alike)
        chunks += (cbor2.dumps(name), encoded)
    return b"".join(chunks)


def _encode_meta(meta: TensorMeta, alike: dict[bytes, list[bytes]]) -> bytes:
    """Encode a meta. Those of thousands of results of an `unbind` differ in their offset alone.

    Args:
        alike: what is before and behind the offset, by the rest of the meta.
    """
    cbor2 = _cbor2()
    offset = meta.storage_offset.as_int
    if offset is None:
        return cbor2.dumps(to_tree(meta))
    rest = replace(meta, storage_offset=_OFFSET)
    key = msgspec.json.encode(rest)
    parts = alike.get(key)
    if parts is None:
        parts = alike[key] = cbor2.dumps(to_tree(rest)).split(cbor2.dumps(_OFFSET.as_int))
    return cbor2.dumps(offset).join(parts) if len(parts) == 2 else cbor2.dumps(to_tree(meta))


def _refuse(value: Any, _immutable: bool) -> NoReturn:
    raise FormatError("it contains a tag, and only those of bignums are supported")


_REFUSED = dict.fromkeys(
    (0, 1, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799), _refuse
)
"""Every tag that cbor2 would decode by itself, except bignums (2 and 3); other tags reach the tag hook."""


@hookimpl
def graphwire_wire_formats() -> list[WireFormat]:
    return [CborFormat()]
