"""Files to files, and what a file holds, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import BinaryIO, TypeAlias, Unpack

from graphwire.analysis.inspection import Inspection, WriteReport
from graphwire.api.archive import Archive, open
from graphwire.api.error_boundary import reading
from graphwire.api.opsets import program_after_plan
from graphwire.api.options import OpenOptions, Ranges, options_of
from graphwire.api.targets import check_ranges, documents_for_target, warn_of_dropped
from graphwire.errors import GraphwireError, Problem
from graphwire.evolve.opsets import Plan, check_plugins, plan_for
from graphwire.evolve.targets import target_named
from graphwire.hooks import PluginInfo, default_registry
from graphwire.schema import Program
from graphwire.wire.archive import Readable
from graphwire.wire.package import Document, save_package

PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""Where a file is written: a path, or a binary file object."""


@reading("src")
@options_of(open)
def convert(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str = "json",
    target: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    ranges: Ranges = "exact",
    compress: bool = True,
    report: Callable[[WriteReport], object] | None = None,
    **options: Unpack[OpenOptions],
) -> None:
    """Write the programs of one file to another in another wire format, payloads and all, without torch.

    What the programs say stays as it is, the versions of their operators too: a program is converted where its plugins are
    not installed.

    `format`, `target`, `ranges`, `compress` and `report` are those of `save`.

    Args:
        src: the file to read.
        dst: the file to write; it may be the same path.
        opset_version: by operator namespace, the version to bring operators to; by default they stay as they are.

    Raises:
        ChecksumError: a weight, constant or example input is damaged. Nothing is written.
        As `open`, `Archive.program_of` and `save`.
    """
    check_ranges(ranges, target)
    with open(src, **options) as archive:
        programs = {name: archive.program_of(name) for name in archive.methods}
        if opset_version is not None:
            for name, program in programs.items():
                with archive.boundary(name):
                    plan = plan_for(program, archive.registry, wanted=opset_version)
                    programs[name] = program_after_plan(program, plan, archive.registry)
        formats = dict.fromkeys(programs, format)
        told = _rewrite(archive, programs, dst, formats, target, ranges, compress)
    warn_of_dropped(told.dropped)
    if report is not None:
        report(told)


@reading("src")
@options_of(open)
def upgrade(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    **options: Unpack[OpenOptions],
) -> dict[str, Plan]:
    """Write the programs of one file to another with their operators at the installed opsets, without torch.

    Args:
        src: the file to read.
        dst: the file to write; it may be the same path.
        format: the wire format to write; that of each program by default.
        opset_version: by operator namespace, the version to bring operators to; the installed ones by default.

    Returns:
        What was done, by the name of the program.

    Raises:
        MissingPluginError: a program needs plugins that are not in force here.
        OpsetError: operators cannot be brought to that version. Nothing is written.
        ChecksumError: a weight, constant or example input is damaged. Nothing is written.
        As `open`, `Archive.program_of` and `save`.
    """
    with open(src, **options) as archive:
        plans = _plans(archive, opset_version)
        programs = {}
        for name, plan in plans.items():
            with archive.boundary(name):
                programs[name] = program_after_plan(archive.program_of(name), plan, archive.registry)
        formats = {name: format or archive.format_of(name) for name in programs}
        told = _rewrite(archive, programs, dst, formats)
    warn_of_dropped(told.dropped)
    return plans


@reading("src")
@options_of(open)
def plan_upgrade(
    src: Readable, *, opset_version: Mapping[str, int] | None = None, **options: Unpack[OpenOptions]
) -> dict[str, Plan]:
    """What `upgrade` would do, by the name of the program: the steps, the nodes each touches, and what it refuses.

    Raises:
        As `upgrade`; but what single nodes refuse stands in the plan.
    """
    with open(src, **options) as archive:
        return _plans(archive, opset_version)


def _plans(archive: Archive, wanted: Mapping[str, int] | None) -> dict[str, Plan]:
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
) -> WriteReport:
    """Write programs with the payloads and extra files of an archive, which are checked first: they get checksums of their
    own, and damage would not be seen any more."""
    archive.check_payloads()
    documents: dict[str, Document] = {}
    layout, found, dropped = "B2", [], []
    for name, program in programs.items():
        payloads = archive.payloads_of(name)
        with archive.boundary(name):
            if archive.is_bare:  # files beside a document that are not there would be weights lost
                payloads.check_read(program)
            encoded = {name: (program, payloads)}
            made, layout, report = documents_for_target(
                encoded, formats[name], target, archive.registry, ranges
            )
        documents |= made
        found += report.narrowed
        dropped += report.dropped
    extra_files = {path: archive.read_extra(path) for path in archive.extra_files}
    unpacked: list[tuple[str, str]] = []
    save_package(dst, documents, extra_files, layout=layout, compress=compress, dropped_examples=unpacked)
    told = WriteReport("" if target is None else target_named(target).name, found, dropped)
    return told.with_unpacked(unpacked)


@reading("file")
@options_of(open)
def inspect(file: Readable, **options: Unpack[OpenOptions]) -> Inspection:
    """What a file holds, without reading a payload and without torch.

    Raises:
        As `open` and `Archive.program_of`.
    """
    with open(file, **options) as archive:
        return archive.inspect("" if not isinstance(file, (str, os.PathLike)) else os.fspath(file))


@reading("file")
@options_of(open)
def verify(file: Readable, **options: Unpack[OpenOptions]) -> list[Problem]:
    """Every problem of a file: records that are not what was written, programs that break rules. Reads all of it.

    Returns:
        The problems, each with its place; none for a file in order.
    """
    try:
        archive = open(file, **options)
    except GraphwireError as error:
        return [Problem(error.place or "archive", "archive", error.problem)]
    with archive:
        return archive.problems()


def plugins() -> tuple[PluginInfo, ...]:
    """The plugins that are installed, and for each one that is off, why."""
    return default_registry().plugins
