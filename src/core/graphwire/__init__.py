"""Save and load exported PyTorch programs as data files: any wire format, any torch since 2.1, no code execution.

    graphwire.save(program, "model.pt2")
    program = graphwire.load("model.pt2")

For an ExportedProgram
    save, dumps               write a program to a file or bytes
    load, loads               read a program from a file or bytes, of graphwire or of torch since 2.1
    load_module               read a program as a module that runs, to serve it, in a fraction of the time
    bind                      give weights to a program that was loaded without
    full_tensors              give a program whole tensors in place of DTensors
    to_schema, from_schema    to records and payloads, and back

For files, without torch
    open                      an Archive: programs as records, payloads by name
    inspect, verify           an Inspection; a list of every Problem
    convert, upgrade          write again in another format, for another reader, with newer operators
    plan_upgrade, weights     a Plan of what upgrade would do; the weights of a program as WeightInfo

For a program in any form
    diff, view                the differences of two programs, as a Diff; a page for the browser, as a View
    content_hash              equal for equal programs; canonicalize returns the records that it covers
    supports, targets         what keeps a program from older releases of torch

For documents
    encode, decode            records to the bytes of a wire format, and back
    treespec_dumps, treespec_loads

For weights outside of a file
    Checkpoint, Piece, Blobs, IN_FILE, AS_SAVED

For plugins
    plugins, PluginInfo, Registry, hookimpl; the interfaces are in graphwire.hooks, contract suites in graphwire.testing

Options and results
    SaveOptions, LoadOptions, OpenOptions, Limits, PickleLimits, Attempts
    LoadReport, WriteReport, Payloads
    errors                    all are below errors.GraphwireError

help(graphwire.save) has the arguments and results of a function.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphwire import errors
    from graphwire.analysis.diff.program_diff import Diff
    from graphwire.analysis.load_report import LoadReport, WriteReport
    from graphwire.analysis.summary import Inspection
    from graphwire.api.archive import Archive, open
    from graphwire.api.compare import canonicalize, content_hash, diff, supports, targets
    from graphwire.api.documents import decode, encode, treespec_dumps, treespec_loads
    from graphwire.api.files import convert, inspect, plan_upgrade, plugins, upgrade, verify, weights
    from graphwire.api.loading import LoadOptions, bind, full_tensors, load, load_module, loads
    from graphwire.api.options import OpenOptions
    from graphwire.api.programs import SaveOptions, dumps, from_schema, save, to_schema
    from graphwire.api.saved_weights import WeightInfo
    from graphwire.api.viewing import View, view
    from graphwire.api.weights import AS_SAVED, IN_FILE, Blobs, Checkpoint
    from graphwire.errors import Problem
    from graphwire.evolve.planner import Plan
    from graphwire.registry.discovery import PluginInfo
    from graphwire.registry.interfaces import hookimpl
    from graphwire.registry.registry import Registry
    from graphwire.version import __version__
    from graphwire.wire.limits import Attempts, Limits, PickleLimits
    from graphwire.wire.payloads import Payloads
    from graphwire.wire.weights.matching import Piece

__all__ = [
    "AS_SAVED",
    "IN_FILE",
    "Archive",
    "Attempts",
    "Blobs",
    "Checkpoint",
    "Diff",
    "Inspection",
    "Limits",
    "LoadOptions",
    "LoadReport",
    "OpenOptions",
    "Payloads",
    "PickleLimits",
    "Piece",
    "Plan",
    "PluginInfo",
    "Problem",
    "Registry",
    "SaveOptions",
    "View",
    "WeightInfo",
    "WriteReport",
    "__version__",
    "bind",
    "canonicalize",
    "content_hash",
    "convert",
    "decode",
    "diff",
    "dumps",
    "encode",
    "errors",
    "from_schema",
    "full_tensors",
    "hookimpl",
    "inspect",
    "load",
    "load_module",
    "loads",
    "open",
    "plan_upgrade",
    "plugins",
    "save",
    "supports",
    "targets",
    "to_schema",
    "treespec_dumps",
    "treespec_loads",
    "upgrade",
    "verify",
    "view",
    "weights",
]

_NAMES = {
    "graphwire.analysis.diff.program_diff": "Diff",
    "graphwire.analysis.load_report": "LoadReport WriteReport",
    "graphwire.analysis.summary": "Inspection",
    "graphwire.api.archive": "Archive open",
    "graphwire.api.compare": "canonicalize content_hash diff supports targets",
    "graphwire.api.documents": "decode encode treespec_dumps treespec_loads",
    "graphwire.api.files": "convert inspect plan_upgrade plugins upgrade verify weights",
    "graphwire.api.loading": "LoadOptions bind full_tensors load load_module loads",
    "graphwire.api.options": "OpenOptions",
    "graphwire.api.programs": "SaveOptions dumps from_schema save to_schema",
    "graphwire.api.saved_weights": "WeightInfo",
    "graphwire.api.viewing": "View view",
    "graphwire.api.weights": "AS_SAVED Blobs Checkpoint IN_FILE",
    "graphwire.errors": "Problem",
    "graphwire.evolve.planner": "Plan",
    "graphwire.registry.discovery": "PluginInfo",
    "graphwire.registry.interfaces": "hookimpl",
    "graphwire.registry.registry": "Registry",
    "graphwire.version": "__version__",
    "graphwire.wire.limits": "Attempts Limits PickleLimits",
    "graphwire.wire.payloads": "Payloads",
    "graphwire.wire.weights.matching": "Piece",
}
"""The public names of each module. A module is imported when one is used, so that a command imports only what it needs."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name on first access."""
    if name in ("errors", "hooks", "schema", "testing"):
        return importlib.import_module(f"{__name__}.{name}")  # noqa: TID251 a module of this package
    if name not in _MODULES:
        # With the module, Python adds the name that is spelled alike.
        longer = [f"graphwire.{each}" for each in _MODULES if name in each.split("_")]
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}"
            + f"; there is {' and '.join(longer)}" * bool(longer),
            name=name,
            obj=sys.modules[__name__],
        )
    from graphwire.process import paused_gc

    with (
        paused_gc()
    ):  # Modules are no garbage: a collection, of all that torch has made, would take as long as the import.
        value = getattr(importlib.import_module(_MODULES[name]), name)  # noqa: TID251 a module of this package
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, and those of every module. What was imported on the way is no name to call."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
