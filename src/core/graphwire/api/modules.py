"""Load exported programs as modules that run: `load_module`."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from graphwire.analysis.inspection import LoadReport
from graphwire.api.argument_checks import StorageOptions, check_choice, group_names
from graphwire.api.error_boundary import reading
from graphwire.api.options import Groups
from graphwire.api.programs import decode_from, load_with
from graphwire.api.weights import AS_SAVED, LoadWeights
from graphwire.errors import GraphwireWarning
from graphwire.evolve.opsets import UnknownOps
from graphwire.hooks import Registry
from graphwire.wire import DEFAULT_LIMITS, Limits
from graphwire.wire.archive import Readable

if TYPE_CHECKING:
    import torch

    from graphwire.api.archive import Archive


@reading("file")
def load_module(
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
    check_guards: bool = True,
    report: Callable[[LoadReport], object] | None = None,
) -> torch.fx.GraphModule:
    """Load a program as a module that runs, to serve it.

    The module computes what `load(file).module()` computes, and has the same parameters, buffers and constants. It is made
    without an `ExportedProgram`, in a small part of the time: without fake tensors, and without the import of sympy and torch's
    compiler. Its nodes have no `val` in their metadata, and no provenance.

    A call checks its arguments first: their structure, the shapes, the literals, and the guards of the program.

    Args:
        file: as in `load`; so are the other options, but for `check_guards`.
        check_guards: whether a node of the graph, `_guards_fn`, checks shapes, literals and guards. If false, a hook checks
            shapes and literals, and nothing checks the guards.

    Raises:
        GraphwireError: as `load`. A call of the module raises an `InputError` for arguments that do not fit.
    """
    from graphwire.bridge.program import decode_module

    return load_with(
        functools.partial(decode_module, check_guards=check_guards),
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
    from graphwire.bridge.program import decode_module

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
    for omission in loaded.left_out:
        warnings.warn(omission.as_loaded, GraphwireWarning, stacklevel=4)
    return loaded.value
