"""Encode programs for the reader of a file: the current schema, or the schema and layout of a target."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from graphwire.analysis.load_report import NarrowedRange, Omission, WriteReport
from graphwire.analysis.stripping import Strippable, stripped
from graphwire.analysis.validation.program_rules import check_valid
from graphwire.api.documents import document_for
from graphwire.api.error_boundary import LOG
from graphwire.api.options import Ranges, check_choice
from graphwire.errors import EncodeError, GraphwireWarning, OpsetError, Problem, ValidationError
from graphwire.evolve.step import AppliedStep
from graphwire.evolve.targets import OURS_FIRST, Target, first_reader, target_named, with_trace_texts
from graphwire.registry import PROJECT, Registry, WireFormat
from graphwire.schema import PluginRequirement, Program
from graphwire.schema.trees import OMITTED
from graphwire.wire.document import write_program
from graphwire.wire.layouts import BARE_DOCUMENT, OWN_LAYOUT
from graphwire.wire.package_writer import Document
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    from graphwire.bridge.context import OpaqueOrigin
    from graphwire.evolve.planner import Plan, UnknownOps


class TargetDocuments(NamedTuple):
    """Encoded programs, with the archive layout and a report."""

    documents: dict[str, Document]
    layout: str
    """The archive layout, a key of `wire.layouts.LAYOUTS`; or `BARE_DOCUMENT`."""
    report: WriteReport


def documents_for_target(
    programs: Mapping[str, tuple[Program, Payloads]],
    format: str,
    target: str | None,
    registry: Registry,
    ranges: Ranges = "exact",
    *,
    check_format: bool = True,
) -> TargetDocuments:
    """Encode programs as documents: in the current schema, or in the schema and layout of a target.

    Args:
        programs: records and payloads, by name.
        format: the name of the wire format.
        target: the target; None for the current schema.
        registry: the plugins to use.
        ranges: as in `save`.
        check_format: as in `save`.

    Raises:
        FormatError: the format does not read what it wrote.
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: no such target exists.
        TargetError: the target cannot represent a program; the error lists every obstacle.
        EncodeError: the target does not read `format`, the payloads of a draft lack a weight, or `ranges` is "narrowed" without
            a target.
    """
    check_ranges(ranges, target)
    wire_format = registry.wire_format(format)
    owner = registry.owner_of("wire_format", format)
    checked = check_format and (owner is None or owner.distribution != PROJECT)
    if target is None:
        provider = _provider(format, registry)
        documents, dropped = {}, []
        for name, (program, payloads) in programs.items():
            without: list[str] = []
            documents[name] = _document_of_today(
                program, payloads, wire_format, provider, without, checked=checked
            )
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
        dropped_texts: list[str] = []
        if reader.layout is None:
            data = document_for(program, reader, wire_format, dropped_texts, payloads, checked=checked)
            documents[name] = Document(data, wire_format.suffix, Payloads())
        else:
            data = document_for(program, reader, wire_format, dropped_texts)
            beside = replace(payloads, examples=program.example_inputs, encoded=program.encoded_values)
            documents[name] = Document(data, ".json", beside)
        dropped += [Omission(OMITTED, why, name) for why in dropped_texts]
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
    from graphwire.evolve.expressions import narrow_ranges

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
    dropped_texts: list[str],
    *,
    checked: bool,
) -> Document:
    """Encode a program in the current schema, with the first release that can read the file.

    Stack traces are texts, as torch writes them. If torch can read the document, the archive also gets the example inputs
    in torch's form.

    Args:
        dropped_texts: receives the reason when stack traces are dropped.
    """
    program = with_trace_texts(program, dropped_texts)
    reader = first_reader(program, is_json=wire_format.name == "json")
    data = write_program(msgspec.structs.replace(program, readable_from=reader), wire_format, checked=checked)
    examples = None if reader == OURS_FIRST else program.example_inputs
    return Document(data, wire_format.suffix, replace(payloads, examples=examples), provider)


def without(program: Program, payloads: Payloads, kinds: Collection[Strippable]) -> tuple[Program, Payloads]:
    """Return a program and its payloads without what the option `strip` names."""
    if not kinds:
        return program, payloads
    held = payloads.without_examples() if "example_inputs" in kinds else payloads
    return stripped(program, kinds), held


# ------------------------------- apply opset upgrades to validated programs: to the installed versions, or along a plan


class ProgramAtInstalledOpsets(NamedTuple):
    """A validated program at the installed opsets."""

    program: Program
    origin: OpaqueOrigin | None
    """The versions and requirements to keep for opaque operators; None if no operator is opaque."""
    rewritten: list[AppliedStep]
    """The operators that were rewritten to the form of the installed torch."""
    propagates: frozenset[str]
    """The operators whose result metadata `load` computes with fake kernels: marked by upgraders of this load or, in the
    file, declared by installed upgraders."""


def at_installed_opsets(
    program: Program, registry: Registry, unknown_ops: UnknownOps
) -> ProgramAtInstalledOpsets:
    """Bring a validated program to the installed opsets, and its operators to the form of the installed torch."""
    from graphwire.bridge.attribute_types import signature_mismatches
    from graphwire.bridge.context import OpaqueOrigin
    from graphwire.bridge.torch_compat.private import parameters_of
    from graphwire.evolve.operator_forms import forms_of_parameters, with_forms
    from graphwire.evolve.planner import plan_for
    from graphwire.evolve.requirements import (
        check_plugins,
        check_stored_marks,
        kept_requirements,
        marked_operators,
    )

    check_plugins(program, registry, operators=unknown_ops == "error")
    check_stored_marks(program, registry)
    plan = plan_for(program, registry, unknown=unknown_ops)
    origin = None
    if unknown_ops == "opaque":
        kept = kept_requirements(program, registry, plan.opaque)
        versions = {namespace: program.opset_version[namespace] for namespace in plan.opaque}
        origin = OpaqueOrigin(versions, kept, own_forms="calls" in program.requires)
    rewritten: list[AppliedStep] = []
    changed = _applied(program, plan, registry)
    formed = with_forms(changed, lambda: forms_of_parameters(parameters_of), rewritten)
    if changed is not program and (problems := signature_mismatches(program, formed, registry)):
        raise _invalid(plan, problems)
    return ProgramAtInstalledOpsets(formed, origin, rewritten, marked_operators(formed))


def program_after_plan(program: Program, plan: Plan, registry: Registry) -> Program:
    """Apply a plan to a program that will be stored, and validate the result.

    Raises:
        OpsetError: an upgrader rejects a node, makes an invalid program, or leaves result metadata to be computed for an
            operator that it does not declare.
    """
    changed = _applied(program, plan, registry)
    if changed is not program:
        from graphwire.evolve.requirements import check_stored_marks

        check_stored_marks(changed, registry)
    return changed


def _applied(program: Program, plan: Plan, registry: Registry) -> Program:
    """Apply a plan and validate the result: programs of upgraders are as untrusted as those of files."""
    from graphwire.evolve.planner import apply

    changed = apply(program, plan)
    if changed is program:
        return program
    for step in plan.steps:
        LOG.info("upgraded opset %s, %d nodes", step, len(step.nodes))
    from graphwire.evolve.requirements import with_requirements

    changed = with_requirements(changed, registry)
    try:
        check_valid(changed)
    except ValidationError as error:
        raise _invalid(plan, error.problems) from None
    return changed


def _invalid(plan: Plan, problems: Sequence[Problem]) -> OpsetError:
    names = ", ".join(str(step) for step in plan.steps if step.nodes)
    return OpsetError(
        f"upgraders made a program that is not valid ({names})",
        problems=problems,
        remedy="Report it to the authors of the plugins that provide them",
    )
