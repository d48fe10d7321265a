"""One document: a tree as the bytes of a wire format."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import cast

from graphwire.errors import FormatError, GraphwireError, LimitError, UnknownFormatError
from graphwire.hooks import BoundedFormat, ProgramReader, RecordFormat, Tree, WireFormat
from graphwire.schema import SCHEMA_VERSION, Program
from graphwire.schema.trees import to_tree
from graphwire.wire import DEFAULT_LIMITS, MAX_DEPTH, MAX_RECORDS, Limits, measure_tree

_FLAT_DEPTH = 32
"""Containers inside each other are fewer than these where `_is_flat`."""
HEAD_BYTES = 64
"""How much of a document's start a format sees when it is asked whether it knows it."""


def write_document(tree: Tree, wire_format: WireFormat) -> bytes:
    """The tree as a document.

    Raises:
        FormatError: the format cannot say something in the tree.
        LimitError: the tree is deeper than any format carries.
    """
    try:
        data = wire_format.encode(tree)
    except GraphwireError:
        raise
    except (RecursionError, MemoryError) as error:
        raise LimitError(f"the tree is too deep or too large to be written as {wire_format.name}") from error
    except Exception as error:
        raise FormatError(f"the tree cannot be written as {wire_format.name} ({error})") from error
    if type(data) is not bytes:
        kind = type(data).__name__
        raise FormatError(f"the wire format {wire_format.name} makes a {kind} of a tree, where bytes are due")
    return data


def write_program(program: Program, wire_format: WireFormat) -> bytes:
    """A program as a document.

    A format that writes records itself is given the records, which saves making the tree and looking it over. What the
    look is for cannot be there: a flat graph has no depth, and the schema has neither bytes nor infinite floats.

    Raises:
        FormatError: the format cannot say something in the program.
        LimitError: its subgraphs lie deeper inside each other than any format carries.
    """
    if _has(wire_format, "encode_records") and _is_flat(program):
        return cast("RecordFormat", wire_format).encode_records(program)
    return write_document(to_tree(program), wire_format)


def write_plain_json(tree: Tree, *, bare_tokens: bool) -> bytes:
    """A tree as the JSON that releases of torch read: no rules of ours, and infinities as bare tokens where asked for.

    Raises:
        FormatError: it holds bytes, or a float that is not finite where tokens are not asked for.
    """
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=bare_tokens, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the tree cannot be written as plain JSON ({error})") from error


def _has(wire_format: WireFormat, *methods: str) -> bool:
    """Whether a format has optional methods. To ask a Protocol with `isinstance` takes as long as writing a small program."""
    return all(callable(getattr(wire_format, each, None)) for each in methods)


def _is_flat(program: Program) -> bool:
    """Whether nothing in a program nests without bound: subgraphs, general sequences, the free data of codecs."""
    nodes = program.graph_module.graph.nodes
    return not (
        program.requires
        or program.encoded_values
        or program.graph_module.graph.compositions
        or any(node.is_hop_single_tensor_return is not None for node in nodes)
    )


def read_program(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Program | None:
    """The program of a document, where it is one that `write_program` makes without a tree; None for any other, which
    `read_document` reads. That its fields fit each other is not checked."""
    size = memoryview(data).nbytes
    if not _has(wire_format, "encode_records", "decode_program") or limits.tree_depth < _FLAT_DEPTH:
        return None
    if limits.containers < MAX_RECORDS:
        return None
    if size > min(limits.program_bytes, limits.tree_nodes):  # a value takes a byte at least
        return None
    program = cast("ProgramReader", wire_format).decode_program(data)
    if not isinstance(program, Program):
        return None
    current = (program.schema_version.major, program.schema_version.minor) == SCHEMA_VERSION
    return program if current and _is_flat(program) else None


def read_document(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Tree:
    """The tree of a document, and a tree for certain: types, keys, depth and count are checked whatever the format did.

    Raises:
        FormatError: the bytes are no document of this format.
        LimitError: the document is larger or deeper than `limits` allow.
    """
    size = memoryview(data).nbytes
    if size > limits.program_bytes:
        raise LimitError(
            f"the document has {size:,} bytes, more than {limits.program_bytes:,}",
            remedy="Raise Limits.program_bytes for a file that you trust",
        )
    try:
        if _has(wire_format, "decode_bounded"):
            tree = cast("BoundedFormat", wire_format).decode_bounded(data, limits.containers)
        else:
            tree = wire_format.decode(data)
    except GraphwireError:
        raise
    except (RecursionError, MemoryError) as error:
        raise LimitError(f"the {wire_format.name} document is too deep or too large to be read") from error
    except Exception as error:
        raise FormatError(f"the bytes are no {wire_format.name} document ({error})") from error
    measure_tree(tree, max_depth=min(limits.tree_depth, MAX_DEPTH), max_nodes=limits.tree_nodes)
    return tree


def _claims(wire_format: WireFormat, head: bytes) -> bool:
    try:
        return wire_format.matches(head)
    except Exception:  # noqa: BLE001 - a stranger's code: who cannot tell does not claim it, and the others are asked
        return False


def detect_format(
    data: bytes | bytearray | memoryview, formats: Iterable[WireFormat], first: Collection[WireFormat] = ()
) -> WireFormat:
    """The one format that says that a document with this start can only be its own.

    Args:
        formats: the formats to ask.
        first: those among them whose word counts before that of others: nobody else's is asked for theirs.

    Raises:
        UnknownFormatError: none does.
        FormatError: several do, which is a fault of one of them.
    """
    head = bytes(memoryview(data).cast("B")[:HEAD_BYTES])
    known = tuple(formats)
    claims = [each for each in first if _claims(each, head)] or [
        each for each in known if _claims(each, head)
    ]
    if len(claims) == 1:
        return claims[0]
    if claims:
        names = ", ".join(sorted(each.name for each in claims))
        raise FormatError(
            f"the document's start is claimed by several formats: {names}", remedy="Name the format"
        )
    names = ", ".join(sorted(each.name for each in known)) or "none"
    raise UnknownFormatError(
        f"no installed format knows a document that starts with {head[:8]!r}",
        remedy=f"Installed formats: {names}. Install the plugin that wrote it, or name the format",
    )
