"""Encode programs and treespecs as documents of a wire format, without payloads, and decode them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, overload

from graphwire.analysis.validation.program_rules import check_valid
from graphwire.api.error_boundary import Boundary, reading, writing
from graphwire.api.options import check_limits, check_records
from graphwire.errors import DecodeError, EncodeError, FormatError, GraphwireWarning
from graphwire.evolve.step import is_current, version_of
from graphwire.evolve.targets import Target, target_named
from graphwire.registry import Registry, Tree, WireFormat, registry_or_installed
from graphwire.schema import DRAFT, SCHEMA_VERSION, Program, Version
from graphwire.schema.texts.treespec import TreeSpec, format_treespec, parse_treespec
from graphwire.schema.trees import OMITTED, program_from_tree, to_tree
from graphwire.wire.archive.source import file_name, type_text
from graphwire.wire.document import (
    check_treespec_protocol,
    detect_format,
    read_document,
    read_program,
    read_treespec,
    write_document,
    write_plain_json,
    write_program,
    write_treespec,
)
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import CONSTANTS, WEIGHTS, Payloads

if TYPE_CHECKING:
    from graphwire.evolve.step import AppliedStep


@writing()
def encode(
    program: Program,
    format: str = "json",
    *,
    target: str | None = None,
    payloads: Payloads | None = None,
    registry: Registry | None = None,
) -> bytes:
    """Encode the records of a program as a document of a wire format, without payloads.

    Args:
        program: the records.
        format: the name of an installed wire format.
        target: the older schema to write instead: a release, a schema version, "compact-5.3" or "draft-2022".
        payloads: the weights of the program, for "draft-2022" only: that schema stores weights in its documents, as
            big-endian bytes. Without payloads, the weights of such a document have a location and no bytes.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: no such target exists.
        TargetError: the target cannot represent the program; the error lists every obstacle.
        EncodeError: the payloads lack the bytes of a weight.
    """
    check_records(program)
    wire_format = registry_or_installed(registry).wire_format(format)
    if target is None:
        return write_program(program, wire_format)
    dropped: list[str] = []
    data = document_for(program, target_named(target), wire_format, dropped, payloads)
    for why in dropped:
        warnings.warn(f"the {OMITTED} are not all written: {why}", GraphwireWarning, stacklevel=3)
    return data


def document_for(
    program: Program,
    reader: Target,
    wire_format: WireFormat,
    dropped: list[str],
    payloads: Payloads | None = None,
    *,
    checked: bool = False,
) -> bytes:
    """Encode the records of a program as the document of a target.

    Args:
        dropped: receives the reason when stack traces or provenance are dropped.
        payloads: the weights to store in a `draft-2022`.
        checked: whether to decode the document, and compare.

    Raises:
        GraphwireError: as `encode`.
    """
    from graphwire.evolve.chain import downgrade
    from graphwire.evolve.operator_forms import forms_of_release, with_forms

    program = with_forms(program, lambda: forms_of_release(reader.release))
    tree = downgrade(to_tree(program), reader.version, reader.release, dropped)
    if reader.version == DRAFT and payloads is not None:
        from graphwire.evolve.steps.embedded import embed

        held = payloads
        tree = embed(tree, lambda name: _storage_of(held, name))
    if reader.version != DRAFT and wire_format.name == "json":
        return write_plain_json(tree, bare_tokens=reader.nonfinite == "token")
    return write_document(tree, wire_format, checked=checked)


def _storage_of(payloads: Payloads, name: str) -> bytes:
    """Return the bytes of the storage of a weight or constant."""
    meta, folder = payloads.weights.get(name), WEIGHTS
    if meta is None:
        meta, folder = payloads.constants.get(name), CONSTANTS
    record = None if meta is None else payloads.records.get(folder + meta.path_name)
    if record is None:
        raise EncodeError(f"the payloads have no bytes of the weight {name!r}")
    from graphwire.wire.torch_files.torch_save_writer import record_chunks

    return b"".join(map(bytes, record_chunks(record)))


@reading("buffer")
def decode(
    buffer: bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Program:
    """Decode a document to the records of its program.

    Args:
        buffer: the document.
        format: its wire format. None detects it from the first bytes.
        registry: the plugins to use. None uses the installed ones.
        limits: bounds on the time and memory that reading the document may take.

    Raises:
        UnknownFormatError: no installed format recognizes the document.
        FormatError: the bytes are not a document of the format.
        SchemaError: the document is not a valid program of a supported schema.
        LimitError: the document exceeds `limits`.
    """
    registry = registry_or_installed(registry)
    check_limits(limits)
    if not isinstance(buffer, (bytes, bytearray, memoryview)):
        raise FormatError(f"a document is bytes, not {type(buffer).__name__}")
    if format is None:
        wire_format = detect_format(buffer, registry.wire_formats.values(), registry.formats_in_box)
    else:
        wire_format = registry.wire_format(format)
    with Boundary("", registry, ("", wire_format.name)):
        document = read_program(buffer, wire_format, limits) or read_document(buffer, wire_format, limits)
        program, _, _ = program_at_current_schema(document)
        check_valid(program)
    return program


def program_at_current_schema(document: Program | Tree) -> tuple[Program, Version, list[AppliedStep]]:
    """Return the program of a document of any schema version, the version, and the schema steps that were applied."""
    if isinstance(document, Program):
        return document, Version(*SCHEMA_VERSION), []
    version = version_of(document)
    if is_current(version):  # which needs none of the steps
        return program_from_tree(document), version, []
    from graphwire.evolve.chain import upgrade

    current, taken = upgrade(document)
    return program_from_tree(current), version, taken


@overload
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    format: None = None,
    *,
    registry: Registry | None = None,
) -> str: ...


@overload
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    *,
    format: str,
    registry: Registry | None = None,
) -> bytes: ...


@writing()
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    format: str | None = None,
    *,
    registry: Registry | None = None,
) -> str | bytes:
    """Encode a treespec, the structure of nested containers, as text that torch reads or as a document of a wire format.

    Args:
        spec: a `graphwire.schema.texts.treespec.TreeSpec`, which needs no torch, or a `torch.utils._pytree.TreeSpec`.
        protocol: the version of the text; 1 is the only one.
        format: the name of an installed wire format. None returns text.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        EncodeError: no serializer supports a container type, or a context cannot be encoded.
        SchemaError: no such protocol exists.
        UnknownFormatError: no installed plugin provides the format.
    """
    check_treespec_protocol(protocol)
    registry = registry_or_installed(registry)
    if isinstance(spec, TreeSpec):
        text = format_treespec(spec)
    else:
        from graphwire.bridge.graph.treespec import encode_treespec

        text = encode_treespec(spec, registry)
    return text if format is None else write_treespec(parse_treespec(text), registry.wire_format(format))


@reading()
def treespec_loads(
    data: str | bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    to_torch: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """Decode a treespec, the structure of nested containers, from text of torch or from what `treespec_dumps` returned.

    Args:
        data: the text, or the document of a wire format.
        format: the wire format of a document. None detects it from the first bytes.
        to_torch: whether to return a `torch.utils._pytree.TreeSpec`, whose container types must be registered in this
            process, instead of a `graphwire.schema.texts.treespec.TreeSpec`, which needs no torch.
        registry: the plugins to use. None uses the installed ones.
        limits: bounds on the time and memory that reading a document may take.

    Raises:
        SchemaError: the data is not a treespec.
        FormatError: the bytes are not a document of the format.
        UnknownTypeError: `to_torch` is true, and no serializer supports a container type.
        LimitError: the document exceeds `limits`.
    """
    registry = registry_or_installed(registry)
    check_limits(limits)
    given: object = data
    if not isinstance(given, (str, bytes, bytearray, memoryview)):
        raise DecodeError(
            f"a treespec is text or bytes, not {type_text(given)}",
            remedy="graphwire.treespec_dumps makes either",
        )
    with Boundary("the text" if isinstance(data, str) else file_name(data), registry):
        if isinstance(data, str):
            spec = parse_treespec(data)
        else:
            formats, box = registry.wire_formats.values(), registry.formats_in_box
            wire_format = (
                detect_format(data, formats, box) if format is None else registry.wire_format(format)
            )
            spec = read_treespec(data, wire_format, limits)
        if not to_torch:
            return spec
        from graphwire.bridge.graph.treespec import decode_treespec

        return decode_treespec(format_treespec(spec), registry)
