"""Load exported programs as modules that run: `load_module`."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Unpack

from graphwire.api.argument_checks import check_choice, group_names
from graphwire.api.error_boundary import reading
from graphwire.api.loading.programs import decode_from, load_with
from graphwire.api.options import Groups, LoadOptions, options_of
from graphwire.errors import GraphwireWarning
from graphwire.evolve.opsets import UnknownOps
from graphwire.wire.archive import Readable

if TYPE_CHECKING:
    import torch

    from graphwire.api.archive import Archive


@reading("file")
@options_of(load_with)
def load_module(
    file: Readable, *, check_guards: bool = True, **options: Unpack[LoadOptions]
) -> torch.fx.GraphModule:
    """Load a program as a module that runs, to serve it.

    The module computes what `load(file).module()` computes, and has the same parameters, buffers and constants. It is made
    without an `ExportedProgram`, in a small part of the time: without fake tensors, and without the import of sympy and torch's
    compiler. Its nodes have no `val` in their metadata, and no provenance.

    A call checks its arguments first: their structure, the shapes, the literals, and the guards of the program.

    Args:
        file: as in `load`; so are the other options.
        check_guards: whether a node of the graph, `_guards_fn`, checks shapes, literals and guards. If false, a hook checks
            shapes and literals, and nothing checks the guards.

    Raises:
        GraphwireError: as `load`. A call of the module raises an `InputError` for arguments that do not fit.
    """
    from graphwire.bridge.module import decode_module

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
    from graphwire.bridge.module import decode_module

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
