"""Convert, upgrade, inspect and verify files, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, Unpack

from graphwire import errors
from graphwire.analysis.load_report import Omission, Strippable, WriteReport
from graphwire.analysis.validation.program_rules import check_payloads, check_valid
from graphwire.api.archive import Archive, build_load_report, open
from graphwire.api.documents import ProgramRecords
from graphwire.api.options import (
    Names,
    OpenOptions,
    Ranges,
    check_choice,
    check_replaces_none,
    check_report,
    check_strip,
    is_same_file,
    options_of,
    public_function,
)
from graphwire.api.weights import (
    AS_SAVED,
    IN_FILE,
    Default,
    SaveWeights,
    check_target_weights,
    located_weights,
)
from graphwire.evolve.targets import target_named
from graphwire.registry.discovery import PluginInfo
from graphwire.registry.registry import Registry, default_registry, registry_or_installed
from graphwire.schema import Program, Version
from graphwire.wire.archive.source import Readable, UniversalPath, file_name, located, url_of
from graphwire.wire.package_reader import OWN_LAYOUT, sanitize_payload_names
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from graphwire.analysis.summary import Inspection
    from graphwire.api.saved_weights import WeightInfo
    from graphwire.evolve.planner import Plan
    from graphwire.wire.payloads import Document

PathOrFile: TypeAlias = "str | os.PathLike[str] | UniversalPath | BinaryIO"
"""The destination of a written file: a path, a URL, or a binary file object."""


@public_function("src")
@options_of(open)
def convert(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str | None = None,
    target: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    ranges: Ranges = "exact",
    names: Names = "exact",
    compress: bool = True,
    weights: SaveWeights = AS_SAVED,
    strip: Collection[Strippable] | bool = (),
    check_format: bool = True,
    dry_run: bool = False,
    report: Callable[[WriteReport], object] | None = None,
    **options: Unpack[OpenOptions],
) -> None:
    """Write a file again in another wire format, or for an older reader, without torch.

    Programs keep their meaning and their operator versions, so the plugins that a program needs need not be installed. All
    weights, constants, example inputs and extra files are copied.

    Args:
        src: the file to read.
        dst: the file to write; it may be the same path.
        format: the wire format to write. By default each program keeps its format, and has JSON for a target.
        target: the reader to write for, as in `save`.
        opset_version: operator versions to bring the programs to, by namespace. By default they keep theirs.
        ranges: as in `save`.
        names: as in `save`. "renamed" reads programs that break no other rule than that of names.
        compress: as in `save`.
        weights: as in `save`. By default weights stay where they are: in the file, or where it refers to; with `rank`, the new
            file refers to those of that rank only. With `weights_from` or `target` they are written into the new file.
        strip: what to drop, as in `save`.
        check_format: as in `save`.
        dry_run: whether to do everything but write, so that `dst` is not touched.
        report: as in `save`.

    Raises:
        ChecksumError: a weight, constant or example input is damaged. Nothing is written.
        GraphwireError: as `open`, `Archive.program_of` and `save`.
    """
    from graphwire.api.documents import check_ranges, program_after_plan, warn_of_dropped

    check_report(report, errors.DecodeError)
    check_ranges(ranges, target)
    check_choice("names", names, ("exact", "renamed"), errors.DecodeError)
    dst = located(dst, options.get("storage_options"))
    weights = located_weights(weights, options.get("storage_options"))
    stripped = check_strip(strip)
    if format is not None:
        registry_or_installed(options.get("registry")).wire_format(format)
    with open(src, **options) as archive:
        read = archive.program_of if names == "exact" else partial(_renamed_program, archive)
        programs = {name: read(name) for name in archive.methods}
        if opset_version is not None:
            from graphwire.evolve.planner import plan_for

            for name, program in programs.items():
                with archive.boundary(name):
                    plan = plan_for(program, archive.registry, wanted=opset_version)
                    programs[name] = program_after_plan(program, plan, archive.registry)
        default = format if target is None else format or "json"
        formats = {name: default or archive.format_of(name) for name in programs}
        if weights is AS_SAVED and (target is not None or archive.weights.is_given):
            weights = IN_FILE
        written = _rewrite(
            archive,
            programs,
            dst,
            formats,
            target,
            ranges,
            compress,
            weights,
            stripped=stripped,
            check_format=check_format,
            dry_run=dry_run,
        )
    warn_of_dropped(written.dropped)
    if report is not None:
        report(written)


def _renamed_program(archive: Archive, method: str) -> Program:
    """Return the validated records of a program, in which what no reader accepts the name of has another name."""
    from graphwire.analysis.legal_names import legal_path, with_legal_names

    with archive.boundary(method):
        program, _ = with_legal_names(archive.unchecked_program_of(method))
        payloads = archive.payloads_of(method)
        sanitize_payload_names(payloads, legal_path)
        check_valid(program)
        check_payloads(program, payloads.weights, payloads.constants, payloads.sample_inputs)
        payloads.complete(program)
    return program


@public_function("src")
@options_of(open)
def upgrade(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    **options: Unpack[OpenOptions],
) -> dict[str, Plan]:
    """Write a file again with its operators at the installed versions, without torch.

    Args:
        src: the file to read.
        dst: the file to write; it may be the same path. If it is, and there is nothing to do, nothing is written.
        format: the wire format to write. By default each program keeps its format.
        opset_version: operator versions to bring the programs to, by namespace. By default the installed ones.

    Returns:
        The applied plan of each program, by name.

    Raises:
        MissingPluginError: a program needs plugins that are not available. Nothing is written.
        OpsetError: operators cannot be brought to that version. Nothing is written.
        ChecksumError: a weight, constant or example input is damaged. Nothing is written.
        GraphwireError: as `open`, `Archive.program_of` and `save`.
    """
    from graphwire.api.documents import program_after_plan, warn_of_dropped

    dst = located(dst, options.get("storage_options"))
    with open(src, **options) as archive:
        plans = _plans(archive, opset_version)
        programs = {}
        for name, plan in plans.items():
            with archive.boundary(name):
                programs[name] = program_after_plan(archive.program_of(name), plan, archive.registry)
        kept = {name: archive.format_of(name) for name in programs}
        formats = {name: format or kept[name] for name in programs}
        planned = any(plan.steps for plan in plans.values()) or formats != kept
        if not planned and is_same_file(located(src, options.get("storage_options")), dst):
            return plans
        written = _rewrite(archive, programs, dst, formats)
    warn_of_dropped(written.dropped)
    return plans


@public_function("src")
@options_of(open)
def plan_upgrade(
    src: Readable, *, opset_version: Mapping[str, int] | None = None, **options: Unpack[OpenOptions]
) -> dict[str, Plan]:
    """Return the plan that `upgrade` would apply to each program, by name, without writing anything.

    A plan lists the steps, the nodes that each step changes, and the nodes that cannot be upgraded.

    Raises:
        GraphwireError: as `upgrade`, except for single nodes that cannot be upgraded: the plan lists those.
    """
    with open(src, **options) as archive:
        return _plans(archive, opset_version)


def _plans(archive: Archive, wanted: Mapping[str, int] | None) -> dict[str, Plan]:
    from graphwire.evolve.planner import check_plugins, plan_for

    plans = {}
    for name in archive.methods:
        program = archive.program_of(name)
        with archive.boundary(name):
            check_plugins(program, archive.registry)
            plans[name] = plan_for(program, archive.registry, wanted=wanted)
    return plans


def _rewrite(
    archive: Archive,
    programs: Mapping[str, Program],
    dst: PathOrFile,
    formats: Mapping[str, str],
    target: str | None = None,
    ranges: Ranges = "exact",
    compress: bool = True,
    weights: SaveWeights = AS_SAVED,
    *,
    stripped: Collection[Strippable] = (),
    check_format: bool = True,
    dry_run: bool = False,
) -> WriteReport:
    """Write programs with the payloads and extra files of an archive.

    Checksums are verified first: the written payloads get new checksums, which would hide damage.
    """
    from graphwire.api.documents import documents_for_target, without
    from graphwire.api.saved_weights import references_for, requires_external, without_external

    check_target_weights(target, weights)
    check_replaces_none(dst, archive.weight_files())
    archive.check_payloads(outside=weights is not AS_SAVED)
    documents: dict[str, Document] = {}
    layout, found = OWN_LAYOUT, []
    unread = (
        {}
        if "example_inputs" in stripped
        else {name: archive.payloads_of(name).warnings for name in programs}
    )
    dropped = [Omission("example inputs", why, name) for name, texts in unread.items() for why in texts]
    held = {
        name: without(without_external(each), archive.payloads_of(name), stripped)
        for name, each in programs.items()
    }
    references = archive.weights.references_from(dst) if weights is AS_SAVED else None
    if references is not None or not isinstance(weights, Default):
        held = requires_external(held)
    for name, (program, payloads) in held.items():
        with archive.boundary(name):
            payloads.check_ties()
            if archive.is_bare:  # A missing file beside the document would lose its weights.
                payloads.check_read(program)
            encoded = {name: (program, payloads)}
            made, layout, report = documents_for_target(
                encoded, formats[name], target, archive.registry, ranges, check_format=check_format
            )
        documents |= made
        found += report.narrowed
        dropped += report.dropped
    kept = () if "extra_files" in stripped else archive.extra_files
    extra_files = {path: archive.read_extra(path) for path in kept}
    unpacked: list[tuple[str, str]] = []
    written = WriteReport("" if target is None else target_named(target).name, found, dropped)
    if dry_run:
        return written
    if references is None:
        references = references_for(held, dst, weights, archive.registry)
    from graphwire.wire.package_writer import save_package

    save_package(
        dst,
        documents,
        extra_files,
        layout=layout,
        compress=compress,
        references=references,
        dropped_examples=unpacked,
    )
    return written.with_unpacked(unpacked)


@public_function("file")
@options_of(open)
def inspect(
    file: Readable | Archive | Program | ExportedProgram, **options: Unpack[OpenOptions]
) -> Inspection:
    """Return a summary of a file: its programs, weights and producers, without torch and without reading weights.

    Args:
        file: a file, an open archive, schema records, or an `ExportedProgram`. The last two have no file: their summary has no
            records and no size.

    Raises:
        GraphwireError: as `open` and `Archive.program_of`.
    """
    if isinstance(file, Archive):
        return file.inspect(file.file)
    if isinstance(file, Program) or hasattr(file, "graph_module"):
        return _inspect_program(file, registry_or_installed(options.get("registry")))
    with open(file, **options) as archive:
        named = isinstance(file, (str, os.PathLike)) or url_of(file) is not None
        return archive.inspect(archive.file if named else "")


def _inspect_program(source: Program | ExportedProgram, registry: Registry) -> Inspection:
    from graphwire.analysis.summary import Inspection, MethodInspection, summarize
    from graphwire.api.programs import DEFAULT_METHOD, to_schema

    program, payloads = source, None
    if not isinstance(program, Program):
        program, payloads = to_schema(program, registry=registry)
    held = Payloads() if payloads is None else payloads
    calls = check_valid(program)
    version = Version(program.schema_version.major, program.schema_version.minor)
    records = ProgramRecords(program, version, [], [], calls)
    report = build_load_report(records, held, registry, method=DEFAULT_METHOD)
    summary = summarize(
        program,
        name=DEFAULT_METHOD,
        weights=None if payloads is None else payloads.weights,
        constants=None if payloads is None else payloads.constants,
        registry=registry,
    )
    method = MethodInspection(DEFAULT_METHOD, "", 0, 0, summary, report)
    return Inspection("", 0, "", report.producer, [method], held.nbytes, [])


@public_function("file")
@options_of(open)
def verify(file: Readable, **options: Unpack[OpenOptions]) -> list[errors.Problem]:
    """Return every problem of a file: damaged records and invalid programs. Reads the whole file.

    Returns:
        The problems, each with its place; an empty list for an intact file. Of a program that is divided between ranks, the
        weights of all ranks are read, or with `rank` those of one. A file that is neither an archive nor a document of a known
        schema has a problem of the kind "unrecognized", and there is nothing to verify in it.

    Raises:
        OSError: there is no such file, or it cannot be opened.
        RemoteError: the file at a URL cannot be read.
    """
    try:
        archive = open(file, **options)
    except errors.GraphwireError as error:
        if isinstance(error, errors.RemoteError) or error.argument:
            raise  # nothing is known of a file
        return errors.problems_of(
            error, errors.UNRECOGNIZED if isinstance(error, errors.NotAnArchiveError) else "archive"
        )
    with archive:
        problems = archive.problems()
        is_known = not problems or archive.is_recognized
        return problems if is_known else [each._replace(kind=errors.UNRECOGNIZED) for each in problems]


def plugins() -> tuple[PluginInfo, ...]:
    """Return the installed plugins; an inactive one with the reason."""
    return default_registry().plugins


@public_function("file")
@options_of(open)
def weights(
    file: Readable,
    *,
    method: str | None = None,
    export: str | os.PathLike[str] | UniversalPath | None = None,
    **options: Unpack[OpenOptions],
) -> list[WeightInfo]:
    """Return the weights of a program, in the order of its state dict: type, shape, and where the elements are.

    Args:
        file: the file to read.
        method: the name of the program, for a file with several.
        export: a new file of a weight store, or its URL, to write the weights to, such as "model.safetensors". A tied weight is
            written under its first name.

    Raises:
        WeightsError: weights are missing or changed, with `export`.
        ChecksumError: with `export`, the bytes of a weight are not those that were written. Nothing is written.
        EncodeError: the store cannot hold one of the weights; the error names them. The others are written.
        GraphwireError: as `open` and `Archive.program_of`.
    """
    with open(file, **options) as archive:
        from graphwire.api.saved_weights import export_weights, list_weights
        from graphwire.wire.archive.manifest import verify_records

        name = archive.method(method)
        archive.program_of(name)
        payloads = archive.payloads_of(name)
        listed = list_weights(payloads, archive.weights.references, archive.weights.divided)
        if export is not None:
            archive.check_weights(name)
            verify_records(payloads.records.values())
            place = located(export, options.get("storage_options"))
            if lost := export_weights(payloads, place, archive.registry):
                raise errors.EncodeError(
                    f"{file_name(place)!r:.200} has no {', '.join(lost[:8])}{' and others' if len(lost) > 8 else ''}",
                    remedy="The store cannot hold their element types, strides or views; take them from the program",
                )
    return listed
