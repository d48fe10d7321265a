"""Treespecs as documents of their own: the pair of protocol and spec that their JSON text is, in any wire format."""

from __future__ import annotations

from graphwire.errors import EncodeError, SchemaError
from graphwire.hooks import WireFormat
from graphwire.schema.texts import PROTOCOL, TreeSpec, dump_json, parse_treespec
from graphwire.schema.trees import to_tree
from graphwire.wire import DEFAULT_LIMITS, Limits
from graphwire.wire.package.document import read_document, write_document


def check_treespec_protocol(protocol: int | None) -> None:
    """Do nothing for a protocol of treespecs that we write; None is the newest.

    Raises:
        SchemaError: it is another.
    """
    if protocol is not None and protocol != PROTOCOL:
        raise SchemaError(
            f"there is no protocol {protocol} of treespecs", remedy=f"The one there is is {PROTOCOL}"
        )


def write_treespec(spec: TreeSpec, wire_format: WireFormat) -> bytes:
    """A treespec as a document.

    Raises:
        FormatError: the format cannot say something in a context.
        LimitError: it nests deeper than any format carries.
    """
    return write_document([PROTOCOL, to_tree(spec)], wire_format)


def read_treespec(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> TreeSpec:
    """The treespec of a document that `write_treespec` made.

    Raises:
        FormatError: the bytes are no document of this format.
        SchemaError: the document is no treespec.
        LimitError: it is beyond `limits`, or nests too deeply.
    """
    try:
        text = dump_json(read_document(data, wire_format, limits))
    except EncodeError as error:
        raise SchemaError("a treespec holds nothing but JSON") from error
    return parse_treespec(text)
