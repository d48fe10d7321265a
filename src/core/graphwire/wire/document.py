"""Encodes a program or tree as a document in a wire format, and decodes it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from copy import deepcopy
from typing import cast

from graphwire.errors import (
    EncodeError,
    FormatError,
    GraphwireError,
    LimitError,
    SchemaError,
    UnknownFormatError,
)
from graphwire.registry import BoundedFormat, CountingFormat, ProgramReader, RecordFormat, Tree, WireFormat
from graphwire.schema import SCHEMA_VERSION, Program
from graphwire.schema.texts.treespec import PROTOCOL, TreeSpec, dump_json, parse_treespec
from graphwire.schema.trees import to_tree
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.plain_trees import MAX_DEPTH, MAX_RECORDS, measure_tree, same_tree

_FLAT_DEPTH = 32
"""The nesting depth of containers is below this in a program that `_is_flat` accepts."""
HEAD_BYTES = 64
"""How many bytes of a document's start a format receives to recognize it (`WireFormat.matches`)."""


def write_document(tree: Tree, wire_format: WireFormat, *, checked: bool = False) -> bytes:
    """Encode a tree as a document.

    Args:
        checked: whether to decode the document, and compare.

    Raises:
        FormatError: the format cannot represent something in the tree, or does not read what it wrote.
        LimitError: the tree is deeper than wire formats support.
    """
    given = deepcopy(tree) if checked else tree  # an encoder may change what it encodes
    try:
        data = wire_format.encode(tree)
    except GraphwireError:
        raise
    except (RecursionError, MemoryError) as error:
        raise LimitError(f"the tree is too deep or too large to be written as {wire_format.name}") from error
    except ImportError as error:
        raise _lacks_library(wire_format, error) from error
    except Exception as error:
        raise FormatError(f"the tree cannot be written as {wire_format.name} ({error})") from error
    if type(data) is not bytes:
        kind = type(data).__name__
        raise FormatError(f"the wire format {wire_format.name} returns a {kind} instead of bytes")
    if checked:
        _check_written(data, given, wire_format)
    return data


def _check_written(data: bytes, tree: Tree, wire_format: WireFormat) -> None:
    problem, cause = "it reads something else", None
    try:
        if same_tree(read_document(data, wire_format), tree):
            return
    except GraphwireError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        problem, cause = error.problem, error
    raise FormatError(
        f"the wire format {wire_format.name} does not read what it wrote: {problem}",
        remedy="Update its plugin (`graphwire check-plugin` tests it); check_format=False leaves this check out",
    ) from cause


def write_program(program: Program, wire_format: WireFormat, *, checked: bool = False) -> bytes:
    """Encode a program as a document.

    A format that encodes records (`RecordFormat`) receives the records of a flat program, which saves building and checking a
    tree. The check is not needed there: a flat graph has bounded depth, and the schema has neither bytes nor infinite floats.

    Args:
        checked: whether to decode the document, and compare.

    Raises:
        FormatError: the format cannot represent something in the program, or does not read what it wrote.
        LimitError: its subgraphs are nested deeper than wire formats support.
    """
    if _has(wire_format, "encode_records") and _is_flat(program):
        data = cast("RecordFormat", wire_format).encode_records(program)
        if checked:
            _check_written(data, to_tree(program), wire_format)
        return data
    return write_document(to_tree(program), wire_format, checked=checked)


def write_plain_json(tree: Tree, *, bare_tokens: bool) -> bytes:
    """Encode a tree as the plain JSON that torch reads, without the escapes of graphwire's JSON format.

    Args:
        bare_tokens: whether floats that are not finite become the tokens `Infinity`, `-Infinity` and `NaN`.

    Raises:
        FormatError: the tree contains bytes, or a float that is not finite without `bare_tokens`.
    """
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=bare_tokens, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the tree cannot be written as plain JSON ({error})") from error


def _has(wire_format: WireFormat, *methods: str) -> bool:
    """Return whether a format has optional methods. `isinstance` with a Protocol takes as long as writing a small program."""
    return all(callable(getattr(wire_format, each, None)) for each in methods)


def _is_flat(program: Program) -> bool:
    """Return whether a program has nothing of unbounded nesting depth: no subgraphs, general sequences or data of codecs."""
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
    """Decode a document that `write_program` wrote without a tree; return None for any other, which `read_document` decodes.

    The consistency of the program's fields is not checked.
    """
    size = memoryview(data).nbytes
    if not _has(wire_format, "encode_records", "decode_program") or limits.tree_depth < _FLAT_DEPTH:
        return None
    if limits.containers < MAX_RECORDS:
        return None
    if size > limits.program_bytes:
        return None
    if size > limits.tree_nodes and _most_values(data, wire_format) > limits.tree_nodes:
        return None
    program = cast("ProgramReader", wire_format).decode_program(data)
    if not isinstance(program, Program):
        return None
    current = (program.schema_version.major, program.schema_version.minor) == SCHEMA_VERSION
    return program if current and _is_flat(program) else None


def _most_values(data: bytes | bytearray | memoryview, wire_format: WireFormat) -> int:
    """Return a number that the values of a document do not exceed; each takes at least one byte."""
    if _has(wire_format, "most_values"):
        return cast("CountingFormat", wire_format).most_values(data)
    return memoryview(data).nbytes


def read_document(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Tree:
    """Decode a document to a tree, and check its types, keys, depth and count whatever the format checked.

    Raises:
        FormatError: the bytes are not a document of this format.
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
    except ImportError as error:
        raise _lacks_library(wire_format, error) from error
    except Exception as error:
        raise FormatError(f"the bytes are not a {wire_format.name} document ({error})") from error
    measure_tree(tree, max_depth=min(limits.tree_depth, MAX_DEPTH), max_nodes=limits.tree_nodes)
    return tree


def _lacks_library(wire_format: WireFormat, error: ImportError) -> FormatError:
    library = f"the library {error.name}" if error.name else "its library"
    return FormatError(
        f"the wire format {wire_format.name} needs {library}, which cannot be imported here ({error})",
        remedy=f"Install {library.removeprefix('the library ')}",
    )


def _claims(wire_format: WireFormat, head: bytes) -> bool:
    try:
        return wire_format.matches(head)
    except Exception:  # noqa: BLE001 - plugin code: a format that fails does not recognize the document
        return False


def detect_format(
    data: bytes | bytearray | memoryview, formats: Iterable[WireFormat], first: Collection[WireFormat] = ()
) -> WireFormat:
    """Return the one format that recognizes a document by its first bytes.

    Args:
        formats: the candidates.
        first: the candidates with priority. If one of them recognizes the document, the others are not asked.

    Raises:
        UnknownFormatError: no format recognizes it.
        FormatError: several formats recognize it, which is a bug in one of them.
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
        f"no installed format recognizes a document that starts with {head[:8]!r}",
        remedy=f"Installed formats: {names}. Install the plugin that wrote it, or name the format",
    )


# ------------------------------------------------------------------ encodes a treespec as a document in any wire format
# the pair of protocol and spec, as in torch's JSON text.


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
