"""Encode programs for the reader of a file: the current schema, or the schema and layout of a target."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from graphwire.analysis.inspection import NarrowedRange, Omission, Strippable, WriteReport, stripped
from graphwire.api.argument_checks import check_choice
from graphwire.api.documents import document_for
from graphwire.api.options import Ranges
from graphwire.errors import EncodeError, GraphwireWarning
from graphwire.evolve.documents import narrow_ranges
from graphwire.evolve.targets import OURS_FIRST, Target, first_reader, target_named, with_trace_texts
from graphwire.hooks import PROJECT, Registry, WireFormat
from graphwire.schema import PluginRequirement, Program
from graphwire.schema.trees import OMITTED
from graphwire.wire import Payloads
from graphwire.wire.package import BARE_DOCUMENT, OWN_LAYOUT, Document, write_program


class TargetDocuments(NamedTuple):
    """Encoded programs, with the archive layout and a report."""

    documents: dict[str, Document]
    layout: str
    """The archive layout, a key of `wire.package.layouts.LAYOUTS`; or `BARE_DOCUMENT`."""
    report: WriteReport


def documents_for_target(
    programs: Mapping[str, tuple[Program, Payloads]],
    format: str,
    target: str | None,
    registry: Registry,
    ranges: Ranges = "exact",
) -> TargetDocuments:
    """Encode programs as documents: in the current schema, or in the schema and layout of a target.

    Args:
        programs: records and payloads, by name.
        format: the name of the wire format.
        target: the target; None for the current schema.
        registry: the plugins to use.
        ranges: as in `save`.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: no such target exists.
        TargetError: the target cannot represent a program; the error lists every obstacle.
        EncodeError: the target does not read `format`, the payloads of a draft lack a weight, or `ranges` is "narrowed" without
            a target.
    """
    check_ranges(ranges, target)
    wire_format = registry.wire_format(format)
    if target is None:
        provider = _provider(format, registry)
        documents, dropped = {}, []
        for name, (program, payloads) in programs.items():
            without: list[str] = []
            documents[name] = _document_of_today(program, payloads, wire_format, provider, without)
            dropped += [Omission(OMITTED, why, name) for why in without]
        return TargetDocuments(documents, OWN_LAYOUT, WriteReport("", dropped=dropped))
    reader = target_named(target)
    found: list[NarrowedRange] = []
    if ranges == "narrowed":
        programs = {
            name: (_narrowed(name, each[0], reader, found), each[1]) for name, each in programs.items()
        }
    if reader.layout is not None and format != "json":
        raise EncodeError(f"{reader.name} reads JSON, not {format}", remedy='Write it with format="json"')
    documents, dropped = {}, []
    for name, (program, payloads) in programs.items():
        left_out: list[str] = []
        if reader.layout is None:
            data = document_for(program, reader, wire_format, left_out, payloads)
            documents[name] = Document(data, wire_format.suffix, Payloads())
        else:
            data = document_for(program, reader, wire_format, left_out)
            beside = replace(payloads, examples=program.example_inputs, encoded=program.encoded_values)
            documents[name] = Document(data, ".json", beside)
        dropped += [Omission(OMITTED, why, name) for why in left_out]
    return TargetDocuments(
        documents, reader.layout or BARE_DOCUMENT, WriteReport(reader.name, found, dropped)
    )


def warn_of_dropped(dropped: Iterable[Omission]) -> None:
    """Warn the caller of a public function about data that the written file lacks."""
    for each in dropped:
        warnings.warn(each.as_written, GraphwireWarning, stacklevel=4)


def check_ranges(ranges: str, target: str | None) -> None:
    """Check the options `ranges`, "exact" or "narrowed" with a target, and `target`.

    Raises:
        EncodeError: `ranges` is something else.
        SchemaVersionError: there is no such target.
    """
    check_choice("ranges", ranges, ("exact", "narrowed"), EncodeError)
    if ranges == "narrowed" and target is None:
        raise EncodeError(
            "ranges are narrowed only for an older reader", remedy='Name it, such as target="torch-2.3"'
        ).about("ranges")
    if target is not None:
        target_named(target)


def _narrowed(name: str, program: Program, reader: Target, found: list[NarrowedRange]) -> Program:
    program, ranges = narrow_ranges(program, reader.version)
    found += [NarrowedRange(name, *each) for each in ranges]
    return program


def _provider(format: str, registry: Registry) -> PluginRequirement | None:
    owner = registry.owner_of("wire_format", format)
    if owner is None or owner.distribution in ("", PROJECT):
        return None
    return PluginRequirement(owner.distribution, owner.version, [f"wire_format:{format}"])


def _document_of_today(
    program: Program,
    payloads: Payloads,
    wire_format: WireFormat,
    provider: PluginRequirement | None,
    left_out: list[str],
) -> Document:
    """Encode a program in the current schema, with the first release that can read the file.

    Stack traces are texts, as torch writes them. If torch can read the document, the archive also gets the example inputs
    in torch's form.

    Args:
        left_out: receives the reason when stack traces are dropped.
    """
    program = with_trace_texts(program, left_out)
    reader = first_reader(program, is_json=wire_format.name == "json")
    data = write_program(msgspec.structs.replace(program, readable_from=reader), wire_format)
    examples = None if reader == OURS_FIRST else program.example_inputs
    return Document(data, wire_format.suffix, replace(payloads, examples=examples), provider)


def without(program: Program, payloads: Payloads, kinds: Collection[Strippable]) -> tuple[Program, Payloads]:
    """Return a program and its payloads without what the option `strip` names."""
    if not kinds:
        return program, payloads
    held = payloads.without_examples() if "example_inputs" in kinds else payloads
    return stripped(program, kinds), held
