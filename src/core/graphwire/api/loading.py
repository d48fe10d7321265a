"""What do loads of any kind share, and how is a program loaded as a module that runs?"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, Unpack

from graphwire.analysis.load_report import LoadReport, Omission, StepReport, with_group_names
from graphwire.api.archive import Archive, open
from graphwire.api.error_boundary import reading
from graphwire.api.options import (
    Groups,
    LoadOptions,
    StorageOptions,
    check_choice,
    check_extra_files_dict,
    check_report,
    fill_extra_files,
    group_names,
    options_of,
)
from graphwire.api.targets import at_installed_opsets
from graphwire.api.weights import AS_SAVED, LoadWeights, check_weights_choice
from graphwire.errors import DecodeError, GraphwireWarning, message_text, note_caller
from graphwire.evolve.planner import UnknownOps
from graphwire.process import one_build_at_a_time, paused_gc
from graphwire.registry import Registry
from graphwire.schema import Program
from graphwire.wire.archive.source import Readable
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    import torch

# ------------------------------------------------ loads programs of files, as whatever a decoder makes of their records
# what `load` and `load_module` share.


R_co = TypeVar("R_co", covariant=True)


class Decoder(Protocol[R_co]):
    """What makes a program of records: `decode_program`, or `decode_module`."""

    def __call__(
        self,
        record: Program,
        payloads: Payloads,
        registry: Registry,
        *,
        device: torch.device | None,
        graph_only: bool,
        given: Mapping[str, torch.Tensor] | None,
        origin: Any,
        dropped: list[Omission] | None,
        propagates: frozenset[str],
    ) -> R_co: ...


def load_with(
    decode: Decoder[R_co],
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
) -> R_co:
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
        with open(
            file,
            registry=registry,
            limits=limits,
            weights_from=source,
            rank=rank,
            storage_options=storage_options,
            cache=cache,
        ) as archive:
            name = archive.method(method)
            kept = (
                {}
                if extra_files is None
                else {each: archive.read_extra(each) for each in archive.extra_files}
            )
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
    for omission in loaded.dropped:
        warnings.warn(omission.as_loaded, GraphwireWarning, stacklevel=4)
    if report is not None and loaded.findings is not None:
        try:
            report(loaded.findings.with_steps(loaded.steps).with_dropped(loaded.dropped))
        except Exception as error:
            note_caller(error)
            raise
    if extra_files is not None:
        fill_extra_files(extra_files, kept)
    return loaded.value


class Loaded(NamedTuple, Generic[R_co]):
    """What was loaded, and what there is to tell of it."""

    value: R_co
    dropped: list[Omission]
    steps: list[StepReport]
    findings: LoadReport | None


def decode_from(
    decode: Decoder[R_co],
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
) -> Loaded[R_co]:
    """Decode a program of an archive, with its operators at the installed versions.

    Args:
        names: the process groups to use, by the names in the program.
        graph_only: whether to make weights without elements.
        given: the weights by name, if they are not those of the archive.
        reports: whether to make the findings.
    """
    from graphwire.bridge.binding import check_process_groups
    from graphwire.bridge.tensors.tensor_metas import target_device
    from graphwire.bridge.torch_compat.private import modes_set_aside

    turn = _turn(target_device(device), copied=copy or archive.is_remote)
    with archive.boundary(name), turn, modes_set_aside():
        program = archive.program_of(name)
        if not graph_only and not archive.weights.is_given and archive.weights.plugins:
            from graphwire.evolve.requirements import check_plugins

            operators = unknown_ops == "error"
            check_plugins(program, archive.registry, operators=operators, stores=archive.weights.plugins)
        payloads = archive.payloads_of(name, copied=copy)
        payloads.check_read(program)
        if not graph_only:
            archive.check_weights(name)
        for warning in payloads.warnings:
            warnings.warn(message_text(warning), GraphwireWarning, stacklevel=5)
        findings = archive.report(name) if reports else None
        dropped: list[Omission] = []
        program, origin, rewritten, propagates = at_installed_opsets(program, archive.registry, unknown_ops)
        regrouped: list[StepReport] = []
        program = with_group_names(program, names, regrouped)
        check_process_groups(program, archive.registry, names)
        value = decode(
            program,
            payloads,
            archive.registry,
            device=target_device(device),
            graph_only=graph_only,
            given=given,
            origin=origin,
            dropped=dropped,
            propagates=propagates,
        )
    steps = [StepReport(each.what, list(each.nodes)) for each in rewritten] + regrouped
    return Loaded(value, dropped, steps, findings)


def _turn(device: torch.device | None, *, copied: bool) -> AbstractContextManager[object]:
    """Return the turn to build a program. Copies are read while the lock is free: threads can read in parallel."""
    copied = copied or (device is not None and device.type not in ("cpu", "meta"))
    return nullcontext() if copied else one_build_at_a_time()


# ------------------------------------------------------------ load exported programs as modules that run: `load_module`


@reading("file")
@options_of(load_with)
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
    from graphwire.bridge.module.module import decode_module

    return load_with(functools.partial(decode_module, check_guards=check_guards), file, **options)


def module_of(
    archive: Archive,
    method: str | None,
    *,
    device: str | int | torch.device | None,
    copy: bool,
    unknown_ops: UnknownOps,
    groups: Groups | None,
    check_guards: bool,
) -> torch.fx.GraphModule:
    """Return a program of an archive as a module that runs. The options and errors are those of `load_module`."""
    from graphwire.bridge.module.module import decode_module

    check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
    loaded = decode_from(
        functools.partial(decode_module, check_guards=check_guards),
        archive,
        archive.method(method),
        device=device,
        copy=copy,
        unknown_ops=unknown_ops,
        names=group_names(groups),
    )
    for omission in loaded.dropped:
        warnings.warn(omission.as_loaded, GraphwireWarning, stacklevel=4)
    return loaded.value
