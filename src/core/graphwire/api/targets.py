"""Writing for an older reader: the document of its schema, in its archive layout."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from graphwire.analysis.inspection import NarrowedRange, Omission, WriteReport
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
from graphwire.wire.package import BARE_DOCUMENT, Document, write_program


class TargetDocuments(NamedTuple):
    """Programs as their reader wants them."""

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
    """The documents of programs: in a wire format of today, or in the schema, JSON and layout of a target.

    Args:
        ranges: what becomes of a size whose range a target does not read: an obstacle, or the range that its own exporter would
            have written.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: there is no such target.
        TargetError: the target cannot express a program; every obstacle is named.
        EncodeError: `format` is not what the target reads, a draft's weight has no bytes, or ranges are to be narrowed for no
            target.
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
        return TargetDocuments(documents, "B2", WriteReport("", dropped=dropped))
    reader = target_named(target)
    found: list[NarrowedRange] = []
    if ranges == "narrowed":
        programs = {
            name: (_narrowed(name, each[0], reader, found), each[1]) for name, each in programs.items()
        }
    if reader.layout is not None and format != "json":
        raise EncodeError(f"{target} reads JSON, not {format}", remedy='Write it with format="json"')
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
    """Warn the caller of a public function of what is not in the file that it wrote."""
    for each in dropped:
        warnings.warn(each.as_written, GraphwireWarning, stacklevel=4)


def check_ranges(ranges: str, target: str | None) -> None:
    """Refuse ranges that are neither of the two, and narrowed ones of a file for today's readers.

    Raises:
        EncodeError: they are.
    """
    check_choice("ranges", ranges, ("exact", "narrowed"), EncodeError)
    if ranges == "narrowed" and target is None:
        raise EncodeError(
            "ranges are narrowed for an older reader alone", remedy='Say which, such as target="torch-2.3"'
        )


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
    """A document with a note of its file's first reader. For torch, stack traces are text, and the example inputs stand beside
    it as torch writes them.

    Args:
        left_out: is given the reason why stack traces are left out, if some are.
    """
    program = with_trace_texts(program, left_out)
    reader = first_reader(program, is_json=wire_format.name == "json")
    data = write_program(msgspec.structs.replace(program, readable_from=reader), wire_format)
    examples = None if reader == OURS_FIRST else program.example_inputs
    return Document(data, wire_format.suffix, replace(payloads, examples=examples), provider)
