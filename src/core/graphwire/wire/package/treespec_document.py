"""Encodes a treespec as a document in any wire format: the pair of protocol and spec, as in torch's JSON text."""

from __future__ import annotations

from graphwire.errors import EncodeError, SchemaError
from graphwire.hooks import WireFormat
from graphwire.schema.texts import PROTOCOL, TreeSpec, dump_json, parse_treespec
from graphwire.schema.trees import to_tree
from graphwire.wire import DEFAULT_LIMITS, Limits
from graphwire.wire.package.document import read_document, write_document


def check_treespec_protocol(protocol: int | None) -> None:
    """Check that graphwire writes a protocol of treespecs; None is the newest.

    Raises:
        SchemaError: the protocol is not supported.
    """
    if protocol is not None and protocol != PROTOCOL:
        raise SchemaError(f"treespecs have no protocol {protocol}", remedy=f"Use {PROTOCOL}, the only one")


def write_treespec(spec: TreeSpec, wire_format: WireFormat) -> bytes:
    """Encode a treespec as a document.

    Raises:
        FormatError: the format cannot represent something in a context.
        LimitError: the treespec is deeper than wire formats support.
    """
    return write_document([PROTOCOL, to_tree(spec)], wire_format)


def read_treespec(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> TreeSpec:
    """Decode a document that `write_treespec` encoded.

    Raises:
        FormatError: the bytes are not a document of this format.
        SchemaError: the document is not a treespec.
        LimitError: it exceeds `limits`, or is nested too deeply.
    """
    try:
        text = dump_json(read_document(data, wire_format, limits))
    except EncodeError as error:
        raise SchemaError("a treespec holds nothing but JSON") from error
    return parse_treespec(text)
