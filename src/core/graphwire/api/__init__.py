"""The public functions. Each composes steps of the layers below, and holds no logic of its own.

    save:  ExportedProgram → bridge.encode → Program + payloads → tree → WireFormat → archive
    load:  archive → WireFormat → tree → schema steps → Program → validate → opset steps → bridge.decode → ExportedProgram

torch is imported only by the functions that take or give a program of torch.
"""

from graphwire.api.archive import Archive, open
from graphwire.api.compare import canonicalize, content_hash, diff, supports, targets
from graphwire.api.documents import decode, encode, treespec_dumps, treespec_loads
from graphwire.api.files import convert, inspect, plan_upgrade, plugins, upgrade, verify
from graphwire.api.programs import dumps, from_schema, load, loads, save, to_schema

__all__ = [
    "Archive",
    "canonicalize",
    "content_hash",
    "convert",
    "decode",
    "diff",
    "dumps",
    "encode",
    "from_schema",
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
]
