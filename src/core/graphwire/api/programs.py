"""Save exported programs to files, and convert them to records and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, BinaryIO, TypedDict, Unpack, cast

from graphwire.analysis.load_report import Strippable, WriteReport, with_group_names
from graphwire.analysis.validation.program_rules import check_saved_program, check_valid
from graphwire.api.documents import (
    at_installed_opsets,
    check_ranges,
    documents_for_target,
    program_after_plan,
    warn_of_dropped,
    without,
)
from graphwire.api.error_boundary import Boundary
from graphwire.api.options import (
    Containers,
    Groups,
    Names,
    Ranges,
    StorageOptions,
    bytes_of_extra_files,
    check_choice,
    check_kind,
    check_records,
    check_report,
    check_storage_options,
    check_strip,
    group_names,
    options_of,
    programs_by_name,
    public_function,
)
from graphwire.api.weights import (
    IN_FILE,
    Checkpoint,
    Default,
    SaveWeights,
    check_target_weights,
    located_weights,
)
from graphwire.errors import DecodeError, EncodeError
from graphwire.evolve.planner import UnknownOps, plan_for
from graphwire.process import paused_gc
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.schema import Program
from graphwire.wire.archive.atomic_file import ChunkBuffer
from graphwire.wire.archive.source import located
from graphwire.wire.package_writer import begin_digests, save_package
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from graphwire.api.files import PathOrFile

DEFAULT_METHOD = "model"
"""The name of the program in a file that has only one."""


class SaveOptions(TypedDict, total=False):
    """The options of `save`."""

    format: str
    target: str | None
    opset_version: Mapping[str, int] | None
    containers: Containers
    ranges: Ranges
    names: Names
    extra_files: Mapping[str, bytes | str] | None
    compress: bool
    weights: SaveWeights
    strip: Collection[Strippable] | bool
    check_format: bool
    report: Callable[[WriteReport], object] | None
    registry: Registry | None
    storage_options: StorageOptions


@public_function(errors=EncodeError)
def save(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    file: PathOrFile,
    *,
    format: str = "json",
    target: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    containers: Containers = "named",
    ranges: Ranges = "exact",
    names: Names = "exact",
    extra_files: Mapping[str, bytes | str] | None = None,
    compress: bool = True,
    weights: SaveWeights = IN_FILE,
    strip: Collection[Strippable] | bool = (),
    check_format: bool = True,
    report: Callable[[WriteReport], object] | None = None,
    registry: Registry | None = None,
    storage_options: StorageOptions = None,
) -> None:
    """Write an exported program to a file, or several programs that share weights.

    Do not modify the program or its weights until this function returns.

    A path is replaced atomically, after all data is on the disk; if the save fails, the old file stays intact.
    `torch.export.load` can read the file if `format` is "json" and the program needs no graphwire extension. It then finds
    stack traces and example inputs; with `target="torch"` also provenance (`from_node`).

    Args:
        program: an `ExportedProgram`, or a mapping of names to them.
        file: a path, or a writable binary file object (it need not be seekable). A path gets a new file: a handle that was
            opened before, such as a `tempfile.NamedTemporaryFile`, still sees the old one. Pass that file object instead,
            or reopen the path. A file object must not refer to a file from which a loaded program maps its weights. At a URL
            the file appears when all data is there.
        format: the name of an installed wire format, such as "json", "msgpack" or "cbor". `graphwire.plugins()` lists them.
        target: the reader to write for: "torch" for the installed release, an older release such as "torch-2.6", or a
            schema version. None allows graphwire's extensions. "draft-2022" writes a bare document, in any wire format, that
            contains the weights.
        opset_version: operator versions to write, by namespace. By default the installed versions are written.
        containers: how to write namedtuples and dataclasses, among inputs and outputs, that have no registered serialized
            name. "named" raises an error that shows the line to register them. "plain" writes namedtuples as tuples,
            dataclasses as dicts without the fields that are None, and a defaultdict whose factory cannot be written as a dict.
            The loaded program then has these types everywhere, and nothing needs registration.
        ranges: how to write a size whose range `target` cannot read. Readers up to torch 2.3 reject a size that may be 0
            (torch 2.1: or 1). "exact" raises an error. "narrowed" writes a minimum of 2, as that release's own export
            does, and lists the size in the report.
        names: how to write names of weights, constants, modules and values that no reader accepts: with a double quote, a
            backslash, a line break, a null or a lone surrogate, or of more than 4,096 bytes. "exact" raises an error that names
            them. "renamed" gives them other names, which end with a hash of the old ones.
        extra_files: bytes or text (stored as UTF-8) to store with the program, by relative path.
        compress: whether to deflate documents, configs and extra files. False is for readers that cannot inflate. Weights
            are never compressed.
        weights: where the weights go. By default into the file. A path, such as "model.safetensors", is written beside it and
            referred to; `Blobs(folder)` is a content-addressed folder that any number of programs share. `Checkpoint(path)`
            exists already: it is compared and not written. None writes no weights: whoever loads the file brings them.
            Constants and non-persistent buffers are always in the file. See docs/weights.md.
        strip: what to drop from the file besides: "stack_traces", "provenance", "example_inputs", "extra_files", or True for
            all of them. None of it changes what the program computes; `graphwire inspect` lists it.
        check_format: whether to decode the document of a plugin's wire format, and compare, before anything is written.
        report: a function, called once after the file is written, with a `WriteReport` of what was changed for `target`.
            `report=print` prints it.
        registry: the plugins to use. None uses the installed ones.
        storage_options: as in `open`.

    Raises:
        EncodeError: the schema cannot represent the program. Nothing is written.
        TargetError: the target cannot represent the program; the error lists every obstacle. Nothing is written.
        OpsetError: operators cannot be written in the requested version. Nothing is written.
        UnknownFormatError: no installed plugin provides the format. Nothing is written.
        ArchiveError: the file object does not accept bytes, or a loaded program maps its weights from that file. Nothing is
            written.
        WeightsError: weights differ from those of the `Checkpoint`; the error lists all of them. Nothing is written.
        OSError: the path cannot be written.
        RemoteError: the file at a URL cannot be written. Nothing appears there.
    """
    check_report(report, EncodeError)
    check_storage_options(storage_options)
    file, weights = located(file, storage_options), located_weights(weights, storage_options)
    check_target_weights(target, weights)
    registry = registry_or_installed(registry)
    check_choice("containers", containers, ("named", "plain"), EncodeError)
    check_ranges(ranges, target)
    check_choice("names", names, ("exact", "renamed"), EncodeError)
    stripped = check_strip(strip)
    added = {} if "extra_files" in stripped else bytes_of_extra_files(extra_files)
    outside = not isinstance(weights, Default)
    with paused_gc():  # Until all is freed that is made here: a collection then finds nothing of it.
        encoded = _encoded(
            program,
            registry,
            opset_version,
            containers,
            names,
            exact=isinstance(weights, Checkpoint) and weights.rest == "error",
        )
        encoded = {name: without(*each, stripped) for name, each in encoded.items()}
        if outside:
            from graphwire.api.saved_weights import requires_external

            encoded = requires_external(encoded)
        hashing = (
            begin_digests(each for _, each in encoded.values())
            if target is None and not outside
            else nullcontext()
        )
        unpacked: list[tuple[str, str]] = []
        with hashing as digests:
            documents, layout, done = documents_for_target(
                encoded, format, target, registry, ranges, check_format=check_format
            )
            references = None
            if outside:
                from graphwire.api.saved_weights import references_for

                references = references_for(encoded, file, weights, registry)
            # The records are in the processor's cache still, and what follows takes their memory.
            del encoded
            save_package(
                file,
                documents,
                added,
                layout=layout,
                compress=compress,
                digests=digests,
                references=references,
                dropped_examples=unpacked,
            )
        del documents, hashing, digests
    done = done.with_unpacked(unpacked)
    warn_of_dropped(done.dropped)
    if report is not None:
        report(done)


@options_of(save)
def dumps(program: ExportedProgram | Mapping[str, ExportedProgram], **options: Unpack[SaveOptions]) -> bytes:
    """Return the bytes of the file that `save` writes. Options and errors are those of `save`."""
    stream = ChunkBuffer()
    save(program, cast("BinaryIO", stream), **options)
    return b"".join(stream.parts)


@public_function("program", errors=EncodeError)
def to_schema(
    program: ExportedProgram,
    *,
    containers: Containers = "named",
    registry: Registry | None = None,
) -> tuple[Program, Payloads]:
    """Convert an exported program to schema records and payloads.

    The payloads share memory with the tensors of the program.

    Args:
        containers: as in `save`.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        EncodeError: the schema cannot represent the program.
    """
    from graphwire.bridge.program import check_is_exported_program, encode_program

    check_is_exported_program(program)
    check_choice("containers", containers, ("named", "plain"), EncodeError)
    return encode_program(program, registry_or_installed(registry), plain_containers=containers == "plain")


@public_function("program")
def from_schema(
    program: Program,
    payloads: Payloads,
    *,
    device: str | int | torch.device | None = None,
    unknown_ops: UnknownOps = "error",
    groups: Groups | None = None,
    registry: Registry | None = None,
) -> ExportedProgram:
    """Convert schema records and payloads to an exported program.

    The records are validated first, and their operators are brought to the installed versions.

    Args:
        program: the records.
        payloads: the weights and constants, of `to_schema` or of an `Archive`.
        device: as in `load`.
        unknown_ops: as in `load`.
        groups: as in `load`.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        ValidationError: the records violate rules of the schema.
        MissingPluginError, OpsetError: as `load`.
        DecodeError: this installation lacks something that the program needs.
    """
    from graphwire.bridge.binding import check_process_groups
    from graphwire.bridge.context import DecodeRequest
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors.tensor_metas import target_device
    from graphwire.bridge.torch_compat.private import is_in_job

    registry = registry_or_installed(registry)
    names = group_names(groups)
    check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
    check_records(program)
    check_kind(
        "payloads", payloads, Payloads, DecodeError, "Those of `archive.payloads_of(method)` or to_schema"
    )
    installed = at_installed_opsets(program, registry, unknown_ops, check_valid(program))
    program = with_group_names(installed.program, names)
    if is_in_job():
        check_process_groups(program, registry, names)
    request = DecodeRequest(
        program,
        payloads,
        registry,
        target_device(device),
        origin=installed.origin,
        propagates=installed.propagates,
        calls=installed.calls,
    )
    with installed.decoding():
        return decode_program(request)


def _encoded(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    registry: Registry,
    opset_version: Mapping[str, int] | None,
    containers: Containers,
    names: Names,
    *,
    exact: bool,
) -> dict[str, tuple[Program, Payloads]]:
    from graphwire.bridge.program import encode_program, record_tables

    programs = programs_by_name(program, DEFAULT_METHOD)
    tables = record_tables(programs.values(), exact=exact)
    encoded = {}
    for name, each in programs.items():
        with Boundary(f"program {name!r}" if len(programs) > 1 else "", registry, error=EncodeError):
            record, payloads = encode_program(
                each, registry, tables, plain_containers=containers == "plain", legal_names=names == "renamed"
            )
            if opset_version is not None:
                record = program_after_plan(
                    record, plan_for(record, registry, wanted=opset_version), registry
                )
                check_saved_program(record, payloads.weights, payloads.constants)
        encoded[name] = record, payloads
    return encoded
