"""Programs of torch to files and back: save, load, and the steps in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack, cast

from graphwire.analysis.inspection import LoadReport, Omission, StepReport, WriteReport
from graphwire.analysis.validation import check_saved_program, check_valid
from graphwire.api.archive import open
from graphwire.api.argument_checks import (
    bytes_of_extra_files,
    check_choice,
    check_kind,
    check_records,
    check_taken_extra_files,
    fill_extra_files,
    programs_by_name,
)
from graphwire.api.error_boundary import Boundary, reading, writing
from graphwire.api.files import PathOrFile
from graphwire.api.opsets import at_installed_opsets, program_after_plan
from graphwire.api.options import Containers, LoadOptions, Ranges, SaveOptions, Weights, options_of
from graphwire.api.targets import check_ranges, documents_for_target, warn_of_dropped
from graphwire.errors import (
    DecodeError,
    EncodeError,
    GraphwireWarning,
    message_text,
    note_caller,
)
from graphwire.evolve.opsets import UnknownOps, plan_for
from graphwire.hooks import Registry, registry_or_installed
from graphwire.process import one_build_at_a_time, paused_gc
from graphwire.schema import Program
from graphwire.wire import DEFAULT_LIMITS, Limits, Payloads
from graphwire.wire.archive import PieceBuffer, Readable
from graphwire.wire.package import begin_digests, save_package

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


DEFAULT_METHOD = "model"
"""The name of a program that is saved alone."""


@writing()
def save(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    file: PathOrFile,
    *,
    format: str = "json",
    target: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    containers: Containers = "named",
    ranges: Ranges = "exact",
    extra_files: Mapping[str, bytes | str] | None = None,
    compress: bool = True,
    report: Callable[[WriteReport], object] | None = None,
    registry: Registry | None = None,
) -> None:
    """Write a program, or several that share weights, to a file.

    Nothing may change the program or its weights before this returns.

    A path is replaced in one step when everything is written and on the disk; after an error the old file is whole. With
    `format="json"`, a program that needs none of our extensions can be read by `torch.export.load`; it finds stack traces and
    example inputs there, and provenance where `target="torch"` is given.

    Args:
        program: what `torch.export.export` made, or such programs by name.
        file: a path, or a binary file object open for writing (it need not seek). A path gets a new file: who opened the old
            one before, as with `tempfile.NamedTemporaryFile`, sees the old one still; pass that file object, or open the
            path again. A file object must not be one whose file a loaded program's weights are mapped from.
        format: the name of an installed wire format (`graphwire.plugins()` lists them).
        target: write what torch's reader reads: `torch` for the release that is installed, an older one such as
            `torch-2.6`, or a version of the schema. Of `draft-2022`, which has no archives, it is a bare document with the
            weights inside, in any wire format.
        opset_version: by operator namespace, the version to write instead of the installed one.
        containers: what becomes of inputs and outputs that are namedtuples or dataclasses for which nobody registered a
            serialized name. `named`: an error, which gives the line that registers it; `plain`: they are tuples, and dicts
            without the fields that are None, wherever the program is loaded, so nothing need be registered there; a
            defaultdict whose factory cannot be written is a dict.
        ranges: what becomes of a size whose range `target` does not read, up to torch 2.3 of one that may be 0 (2.1: or 1).
            `exact`: an obstacle; `narrowed`: it is written as beginning at 2, as that release's own export would have written
            it, and the report says so.
        extra_files: bytes, or text (UTF-8), to keep beside the program, by relative path.
        compress: deflate documents, configs and extra files. False stores them, for readers that cannot inflate. Weights are
            always stored.
        report: called once, when the file is written, with what was done to it for `target`. `report=print` shows it.
        registry: the plugins in force; those installed by default.

    Raises:
        EncodeError: the program holds what the schema cannot say. Nothing is written.
        TargetError: the target cannot express the program; every obstacle is named. Nothing is written.
        OpsetError: operators cannot be written in the version asked for. Nothing is written.
        UnknownFormatError: no installed plugin provides the format. Nothing is written.
        ArchiveError: the file object takes no bytes, or shows the weights of a loaded program. Nothing is written.
        OSError: the path cannot be written.
    """
    registry = registry_or_installed(registry)
    check_choice("containers", containers, ("named", "plain"), EncodeError)
    check_ranges(ranges, target)
    added = bytes_of_extra_files(extra_files)
    pause = paused_gc()
    with pause, pause:  # until the records are gone again, which then leave nothing to collect
        encoded = _encoded(program, registry, opset_version, containers)
        hashing = begin_digests(each for _, each in encoded.values()) if target is None else nullcontext()
        unpacked: list[tuple[str, str]] = []
        with hashing as digests:
            documents, layout, done = documents_for_target(encoded, format, target, registry, ranges)
            save_package(
                file,
                documents,
                added,
                layout=layout,
                compress=compress,
                digests=digests,
                dropped_examples=unpacked,
            )
        del encoded, documents, hashing, digests
    done = done.with_unpacked(unpacked)
    warn_of_dropped(done.dropped)
    if report is not None:
        report(done)


@options_of(save)
def dumps(program: ExportedProgram | Mapping[str, ExportedProgram], **options: Unpack[SaveOptions]) -> bytes:
    """The bytes of the file that `save` writes. Options and errors are those of `save`."""
    stream = PieceBuffer()
    save(program, cast("BinaryIO", stream), **options)
    return b"".join(stream.pieces)


@reading("file")
def load(
    file: Readable,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: Weights | None = "map",
    verify: bool = False,
    unknown_ops: UnknownOps = "error",
    registry: Registry | None = None,
    extra_files: MutableMapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    report: Callable[[LoadReport], object] | None = None,
) -> ExportedProgram:
    """Read a program from a file that `save`, or `torch.export.save` of torch 2.1 and later, wrote. Nothing that the file says
    is executed.

    Args:
        file: a path, a binary file object open for reading, or the file's bytes.
        method: which program to read from a file of several.
        device: where weights, metadata and the device arguments of nodes are put; by default where they were.
        weights: `map` shares the file's memory, copy-on-write, and reads what is touched when it is touched; `copy` reads
            all of it now; None reads none of it and makes weights without elements, on the meta device.
        verify: check the checksum of every payload now, which reads them. The program's own is always checked.
        unknown_ops: what becomes of operators that are not installed, or not in a version that the program can be brought
            to: `error`, or `opaque`: calls that can be looked at and saved again, and fail when they are run.
        registry: the plugins in force; those installed by default.
        extra_files: a dict that gets what was kept beside the program, by path, once the program is loaded: as text, or as
            bytes where it is no UTF-8 or bytes stand under its path already (`{"a.png": b""}`).
        limits: bounds on what the file may make us do.
        report: called once, before the program is returned, with what was done: who wrote the file, every step that was
            taken and the nodes it touched, what was derived, what is absent and what was dropped. `report=print` shows it.

    Raises:
        ArchiveError: the file is no archive, is damaged, or holds no such program.
        SchemaError: the document is not a valid program of a schema that we read; a ValidationError lists all problems.
        MissingPluginError: the program needs plugins that are not in force here; the message names all of them.
        OpsetError: its operators cannot be brought to the installed version.
        DecodeError: this installation lacks something that the program needs.
        LimitError: the file is beyond `limits`.
    """
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors import target_device

    check_choice("weights", weights, ("map", "copy", None))
    check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
    check_taken_extra_files(extra_files)
    pause = paused_gc()
    with pause, pause:
        with open(file, registry=registry, limits=limits) as archive:
            name = archive.method(method)
            kept = (
                {}
                if extra_files is None
                else {each: archive.read_extra(each) for each in archive.extra_files}
            )
            archive.fetch(name)
            if verify and weights is not None:
                archive.program_of(name)  # whose own faults are told without a look at all weights
                archive.check_payloads()
            # Copies are read meanwhile, which all threads can do at once.
            turn = nullcontext() if weights == "copy" else one_build_at_a_time()
            with archive.boundary(name), turn, turn:
                program = archive.program_of(name)
                payloads = archive.payloads_of(name, copied=weights == "copy")
                payloads.check_read(program)
                for warning in payloads.warnings:
                    warnings.warn(message_text(warning), GraphwireWarning, stacklevel=3)
                findings = archive.report(name) if report is not None else None
                left_out: list[Omission] = []
                program, origin, rewritten, propagates = at_installed_opsets(
                    program, archive.registry, unknown_ops
                )
                loaded = decode_program(
                    program,
                    payloads,
                    archive.registry,
                    device=target_device(device),
                    graph_only=weights is None,
                    origin=origin,
                    left_out=left_out,
                    propagates=propagates,
                )
                del program, payloads
        del archive  # which leaves the collector nothing but the program to look at
    for omission in left_out:
        warnings.warn(omission.as_loaded, GraphwireWarning, stacklevel=3)
    if report is not None and findings is not None:
        steps = [StepReport(each.what, list(each.nodes)) for each in rewritten]
        try:
            report(findings.with_steps(steps).with_dropped(left_out))
        except Exception as error:
            note_caller(error)
            raise
    if extra_files is not None:
        fill_extra_files(extra_files, kept)
    return loaded


@options_of(load)
def loads(data: bytes | bytearray | memoryview, **options: Unpack[LoadOptions]) -> ExportedProgram:
    """The program in the bytes of a file. Options and errors are those of `load`."""
    return load(data, **options)


@writing("program")
def to_schema(
    program: ExportedProgram,
    *,
    containers: Containers = "named",
    registry: Registry | None = None,
) -> tuple[Program, Payloads]:
    """A program as schema records, and its payloads, which lend the memory of the program's own tensors. `containers` as
    in `save`.

    Raises:
        EncodeError: the program holds what the schema cannot say.
    """
    from graphwire.bridge.program import check_exported, encode_program

    check_exported(program)
    check_choice("containers", containers, ("named", "plain"), EncodeError)
    return encode_program(program, registry_or_installed(registry), plain_containers=containers == "plain")


@reading("program")
def from_schema(
    program: Program,
    payloads: Payloads,
    *,
    device: str | int | torch.device | None = None,
    unknown_ops: UnknownOps = "error",
    registry: Registry | None = None,
) -> ExportedProgram:
    """The program of schema records, checked first, and brought to the installed opsets. `unknown_ops` as in `load`.

    Raises:
        ValidationError: the records break rules of the schema.
        MissingPluginError, OpsetError: as `load`.
        DecodeError: this installation lacks something that the program needs.
    """
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors import target_device

    registry = registry_or_installed(registry)
    check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
    check_records(program)
    check_kind(
        "payloads", payloads, Payloads, DecodeError, "Those of `archive.payloads_of(method)` or to_schema"
    )
    check_valid(program)
    program, origin, _, propagates = at_installed_opsets(program, registry, unknown_ops)
    return decode_program(
        program, payloads, registry, device=target_device(device), origin=origin, propagates=propagates
    )


def _encoded(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    registry: Registry,
    opset_version: Mapping[str, int] | None,
    containers: Containers,
) -> dict[str, tuple[Program, Payloads]]:
    from graphwire.bridge.program import encode_program, record_tables

    programs = programs_by_name(program, DEFAULT_METHOD)
    tables = record_tables(programs.values())
    encoded = {}
    for name, each in programs.items():
        with Boundary(f"program {name!r}" if len(programs) > 1 else "", registry, error=EncodeError):
            record, payloads = encode_program(each, registry, tables, plain_containers=containers == "plain")
            if opset_version is not None:
                record = program_after_plan(
                    record, plan_for(record, registry, wanted=opset_version), registry
                )
                check_saved_program(record, payloads.weights, payloads.constants)
        encoded[name] = record, payloads
    return encoded
