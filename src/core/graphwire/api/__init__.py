"""What can users call?

This module is the only list of public names.

    save:  ExportedProgram → bridge.encode → Program + payloads → tree → WireFormat → archive
    load:  archive → WireFormat → tree → schema steps → Program → validate → opset steps → bridge.decode → ExportedProgram

Only the functions that take or return an `ExportedProgram` import torch.
"""

from graphwire import errors
from graphwire.analysis.inspection import LoadReport, WriteReport
from graphwire.api.archive import Archive, open
from graphwire.api.compare import canonicalize, content_hash, diff, supports, targets
from graphwire.api.documents import decode, encode, treespec_dumps, treespec_loads
from graphwire.api.files import convert, inspect, plan_upgrade, plugins, upgrade, verify, weights
from graphwire.api.options import LoadOptions, OpenOptions, SaveOptions
from graphwire.api.programs import bind, dumps, from_schema, load, loads, save, to_schema
from graphwire.api.weights import AS_SAVED, IN_FILE, Blobs, Checkpoint, WeightInfo
from graphwire.hooks import PluginInfo, Registry, hookimpl
from graphwire.version import __version__
from graphwire.wire import Attempts, Limits, PickleLimits
from graphwire.wire.weights import Piece

__all__ = [
    "AS_SAVED",
    "IN_FILE",
    "Archive",
    "Attempts",
    "Blobs",
    "Checkpoint",
    "Limits",
    "LoadOptions",
    "LoadReport",
    "OpenOptions",
    "PickleLimits",
    "Piece",
    "PluginInfo",
    "Registry",
    "SaveOptions",
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
    "hookimpl",
    "inspect",
    "load",
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
    "weights",
]
