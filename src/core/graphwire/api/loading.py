"""Load programs from files, as exported programs or as modules that run, and give them their weights."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack

from graphwire.analysis.load_report import LoadReport, Omission, StepReport, with_group_names
from graphwire.api.archive import Archive, open_within
from graphwire.api.documents import at_installed_opsets
from graphwire.api.options import (
    FileOptions,
    Groups,
    StorageOptions,
    check_choice,
    check_extra_files_dict,
    check_report,
    fill_extra_files,
    group_names,
    options_of,
    public_function,
)
from graphwire.api.weights import (
    AS_SAVED,
    STORE_CHOICES,
    LoadWeights,
    WeightChoice,
    check_weights_choice,
    chosen_checkpoint,
    located_weights,
    records_in_store,
)
from graphwire.errors import ArchiveError, DecodeError, message_text, note_caller, warn
from graphwire.evolve.planner import UnknownOps
from graphwire.process import one_build_at_a_time, paused_gc
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.wire.archive.source import Readable
from graphwire.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from graphwire.bridge.context import DecodeRequest
    from graphwire.wire.weights.external_record import ExternalRecord
    from graphwire.wire.weights.matching import WeightRecord

R = TypeVar("R")


class LoadOptions(FileOptions, total=False):
    """The options of `load`."""

    method: str | None
    device: str | int | torch.device | None
    weights: LoadWeights
    copy: bool
    verify: bool
    unknown_ops: UnknownOps
    groups: Groups | None
    extra_files: MutableMapping[str, Any] | None
    report: Callable[[LoadReport], object] | None


def load_with(
    decode: Callable[[DecodeRequest], R],
    file: Readable,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: LoadWeights = AS_SAVED,
    copy: bool = False,
    verify: bool = False,
    unknown_ops: UnknownOps = "error",
    groups: Groups | None = None,
    extra_files: MutableMapping[str, Any] | None = None,
    report: Callable[[LoadReport], object] | None = None,
    **options: Unpack[FileOptions],
) -> R:
    """Load what `decode` makes of a program in a file. The options and errors are those of `load`."""
    from graphwire.bridge.binding import check_are_tensors

    check_report(report, DecodeError)
    names = group_names(groups)
    check_weights_choice(weights, tensors=True)
    given = weights if isinstance(weights, Mapping) else None
    if given is not None:
        check_are_tensors(given)
    graph_only = weights is None or given is not None
    check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
    check_extra_files_dict(extra_files)
    with paused_gc():
        source = AS_SAVED if graph_only else weights
        with open_within(file, weights_from=source, **options) as archive:
            name = archive.method(method)
            kept = (
                {}
                if extra_files is None
                else {each: archive.read_extra(each) for each in archive.extra_files}
            )
            archive.fetch(name)
            if archive.is_remote or verify:  # before what takes long
                with archive.boundary(name):
                    _check_plugins(archive, name, unknown_ops, graph_only)
            if archive.is_remote:
                archive.fetch(name, payloads=not graph_only)
            if verify and not graph_only:
                archive.program_of(name)  # Its own problems are reported before all weights are read.
                archive.check_payloads()
            loaded = decode_from(
                decode,
                archive,
                name,
                device=device,
                copy=copy,
                unknown_ops=unknown_ops,
                names=names,
                graph_only=graph_only,
                given=given,
                reports=report is not None,
            )
        del archive  # The garbage collector then has only the program to traverse.
    for text in loaded.warnings:
        warn(text)
    if report is not None and loaded.report is not None:
        try:
            report(loaded.report)
        except Exception as error:
            note_caller(error)
            raise
    if extra_files is not None:
        fill_extra_files(extra_files, kept)
    return loaded.value


class Loaded(NamedTuple, Generic[R]):
    """What was loaded, and what there is to tell of it."""

    value: R
    warnings: list[str]
    report: LoadReport | None
    """None if it is not wanted."""


def _check_plugins(archive: Archive, name: str, unknown_ops: UnknownOps, graph_only: bool) -> None:
    """Check that all plugins that a load needs are in force, before anything is said of its weights."""
    from graphwire.evolve.planner import check_plugins

    stores = [] if graph_only or archive.weights.is_given else archive.weights.plugins
    operators = unknown_ops == "error"
    check_plugins(archive.records_of(name).program, archive.registry, operators=operators, stores=stores)


def decode_from(
    decode: Callable[[DecodeRequest], R],
    archive: Archive,
    name: str,
    *,
    device: str | int | torch.device | None,
    copy: bool,
    unknown_ops: UnknownOps,
    names: Mapping[str, str],
    graph_only: bool = False,
    given: Mapping[str, Any] | None = None,
    reports: bool = False,
) -> Loaded[R]:
    """Decode a program of an archive, with its operators at the installed versions.

    Args:
        names: the process groups to use, by the names in the program.
        graph_only: whether to make weights without elements.
        given: the weights by name, if they are not those of the archive.
        reports: whether to make a report.
    """
    from graphwire.bridge.binding import check_process_groups
    from graphwire.bridge.context import DecodeRequest
    from graphwire.bridge.tensors.tensor_metas import target_device
    from graphwire.bridge.torch_compat.private import is_in_job

    turn = _turn(target_device(device), copied=copy or archive.is_remote)
    with archive.boundary(name), turn:
        _check_plugins(archive, name, unknown_ops, graph_only)
        program = archive.program_of(name)
        payloads = archive.payloads_of(name, copied=copy)
        payloads.check_read(program)
        if not graph_only:
            archive.check_weights(name)
        report = archive.report(name) if reports else None
        dropped: list[Omission] = []
        calls = archive.records_of(name).calls
        installed = at_installed_opsets(program, archive.registry, unknown_ops, calls)
        program = installed.program
        regrouped: list[StepReport] = []
        if names:
            program = with_group_names(program, names, regrouped)
        if is_in_job():
            check_process_groups(program, archive.registry, names)
        wanted, opaque = target_device(device), installed.origin
        request = DecodeRequest(
            program,
            payloads,
            archive.registry,
            wanted,
            graph_only,
            given,
            opaque,
            installed.propagates,
            dropped,
            installed.calls,
        )
        with installed.decoding():
            value = decode(request)
    steps = [StepReport(each.what, list(each.nodes)) for each in installed.rewritten] + regrouped
    texts = [*map(message_text, payloads.warnings), *(omission.as_loaded for omission in dropped)]
    return Loaded(value, texts, report and report.with_steps(steps).with_dropped(dropped))


def _turn(device: torch.device | None, *, copied: bool) -> AbstractContextManager[object]:
    """Return the turn to build a program. Copies are read while the lock is free: threads can read in parallel."""
    copied = copied or (device is not None and device.type not in ("cpu", "meta"))
    return nullcontext() if copied else one_build_at_a_time()


@public_function("file")
def load(
    file: Readable,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: LoadWeights = AS_SAVED,
    copy: bool = False,
    rank: int | None = None,
    verify: bool = False,
    unknown_ops: UnknownOps = "error",
    groups: Groups | None = None,
    registry: Registry | None = None,
    extra_files: MutableMapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
    cache: str | os.PathLike[str] | None = None,
    report: Callable[[LoadReport], object] | None = None,
) -> ExportedProgram:
    """Load a program from a file of `save`, or of `torch.export.save` since torch 2.1.

    The file is data: no part of it is executed, unpickled, or imported by name.

    Args:
        file: a path, a readable binary file object, or the file's bytes; or a URL that fsspec knows, or a path of
            universal_pathlib. Weights at a URL are read in parallel, and compared with their checksums. A file object is read
            from where it stands, and stays there; one at its end, as after a save, is read from its start.
        method: the name of the program to load, for a file with several.
        device: the device to move weights, metadata and the device arguments of nodes to. By default they keep theirs. Weights
            go to a GPU through two buffers of 16 MiB; the file is read, not mapped.
        weights: where the weights are. By default where the file states: in it, or in files below its folder. A file or folder
            of weights, a `Checkpoint` or `Blobs` has others; a mapping has tensors by name, which the program shares. Names,
            shapes and types are checked. None reads no weights and creates tensors without elements, on the meta device;
            `bind` gives them elements.
        copy: whether to read all weights now, and verify their checksums. By default files of more than 16 MiB are mapped into
            memory, copy-on-write, and each page is read on first access. Nothing may shorten such a file meanwhile, as `cp` and
            `torch.export.save` to its path do: the system would end the process (SIGBUS). `graphwire.save` replaces it.
        rank: for a program that is divided between ranks, the rank whose weights to load.
        verify: whether to verify the checksums of weights, constants and example inputs now, which reads all of them. The
            checksum of the program itself is always verified.
        unknown_ops: how to load operators that are not installed, or not in a version that upgrades can reach. "error"
            raises. "opaque" loads them as calls that can be inspected and saved again; running them raises an error.
        groups: the process groups of this job to use in place of those that the program's collectives name: each a name, or
            the `torch.distributed.ProcessGroup` itself, by the name in the program. Others keep their names. If process
            groups are initialized, those that torch's collectives name must exist here and have the sizes that they state.
        registry: the plugins to use. None uses the installed ones.
        extra_files: a dict to fill with the extra files, by path, after the program is loaded. Each value is text; it is bytes
            if the file is not UTF-8 or the dict already has bytes for its path (`{"a.png": b""}`).
        limits: bounds on the time and memory that reading the file may take.
        storage_options: as in `open`.
        cache: as in `open`.
        report: a function, called once before the program is returned, with a `LoadReport`: who wrote the file, every
            step and the nodes it changed, and what was derived, absent or dropped. `report=print` prints it.

    Raises:
        ArchiveError: the file is not an archive, is damaged, or does not contain that program.
        SchemaError: the document is not a valid program of a supported schema; a `ValidationError` lists all problems.
        MissingPluginError: the program needs plugins that are not available; the message names all of them.
        OpsetError: its operators cannot be brought to the installed versions.
        DecodeError: this installation lacks something that the program needs.
        WeightsError: weights are missing, changed, or do not fit; the error lists all of them.
        LimitError: the file exceeds `limits`.
    """
    from graphwire.bridge.program import decode_program

    return load_with(
        functools.partial(decode_program, spends=True),  # the file is open for this load alone
        file,
        method=method,
        device=device,
        weights=weights,
        copy=copy,
        rank=rank,
        verify=verify,
        unknown_ops=unknown_ops,
        groups=groups,
        registry=registry,
        extra_files=extra_files,
        limits=limits,
        storage_options=storage_options,
        cache=cache,
        report=report,
    )


@options_of(load)
def loads(data: bytes | bytearray | memoryview, **options: Unpack[LoadOptions]) -> ExportedProgram:
    """Load a program from the bytes of a file. Options and errors are those of `load`."""
    return load(data, **options)


@public_function("program")
def bind(
    program: ExportedProgram,
    weights: WeightChoice | Mapping[str, Any],
    *,
    registry: Registry | None = None,
    storage_options: StorageOptions = None,
) -> None:
    """Give a program that was loaded without weights its weights.

    The program is changed in place. Tied parameters, views and constants that share memory with weights do so again.

    Args:
        program: a program whose weights have no elements, such as one of `load(file, weights=None)`.
        weights: tensors by name, which the program shares; or a file or folder of weights, a `Checkpoint` or `Blobs`. A tied
            weight needs one of its names.
        registry: the plugins to use. None uses the installed ones.
        storage_options: as in `open`.

    Raises:
        WeightsError: weights are missing, or have other shapes or types; the error lists all of them. Nothing is changed.
        ArchiveError: no store recognizes the path.
    """
    from graphwire.bridge.binding import bind_weights, check_are_tensors, tensors_from_store
    from graphwire.bridge.program import check_is_exported_program
    from graphwire.wire.weights.opened_stores import find_store

    check_is_exported_program(program)
    weights = located_weights(weights, storage_options)
    check_weights_choice(weights, tensors=True)
    if isinstance(weights, Mapping):
        check_are_tensors(weights)
        bind_weights(program.state_dict, program.constants, weights)
        return
    if not isinstance(weights, STORE_CHOICES):
        raise ArchiveError(
            "bind needs weights", remedy="Pass a path, a Checkpoint, Blobs, or a mapping of names to tensors"
        )
    registry = registry_or_installed(registry)
    chosen = chosen_checkpoint(weights)
    place = find_store(registry, chosen.location, chosen.kind, links=True)
    with ExitStack() as opened:

        def records(wanted: dict[str, WeightRecord]) -> Mapping[str, ExternalRecord]:
            stores, found = records_in_store(wanted, chosen, place, registry)
            opened.enter_context(stores)
            return found

        bind_weights(program.state_dict, program.constants, tensors_from_store(program, records))


@public_function("program")
def full_tensors(program: ExportedProgram) -> None:
    """Give a program whole tensors in place of its DTensors: weights, constants and example inputs.

    The program is changed in place. Every process of the meshes must call it, since they exchange their shards. The program then
    needs no job to be saved, loaded and called: it computes on whole tensors what it computed on DTensors.

    Raises:
        DecodeError: a node takes the local shard of a DTensor (`to_local()` in the model). Nothing is changed.
    """
    from graphwire.bridge.program import check_is_exported_program
    from graphwire.bridge.torch_compat.dtensors import with_full_tensors

    check_is_exported_program(program)
    with_full_tensors(program)


@public_function("file")
@options_of(load)
def load_module(
    file: Readable, *, check_guards: bool = True, **options: Unpack[LoadOptions]
) -> torch.fx.GraphModule:
    """Load a program as a module that runs, to serve it.

    The module computes what `load(file).module()` computes, and has the same parameters, buffers and constants. It is made
    without an `ExportedProgram`, in a small part of the time: without fake tensors, and without the import of sympy and torch's
    compiler. Its nodes have no provenance in their metadata, and `val`, which describes a value, is made at the first look.

    A call checks its arguments first: their structure, the shapes, the literals, and the guards of the program.

    Args:
        file: as in `load`; so are the other options.
        check_guards: whether a node of the graph, `_guards_fn`, checks shapes, literals and guards. If false, a hook checks
            shapes and literals, and nothing checks the guards.

    Raises:
        GraphwireError: as `load`. A call of the module raises an `InputError` for arguments that do not fit.
    """
    with paused_gc():  # The collector would traverse all of torch meanwhile.
        from graphwire.bridge.module.module import decode_module

    return load_with(functools.partial(decode_module, check_guards=check_guards), file, **options)
