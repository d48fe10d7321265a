"""Exported PyTorch programs as durable data: any wire format, any version, nothing executed on load.

import graphwire

graphwire.save(program, "model.gw", format="msgpack")
program = graphwire.load("model.gw")
"""

from graphwire import errors
from graphwire.analysis.report import LoadReport, WriteReport
from graphwire.api import (
    Archive,
    canonicalize,
    content_hash,
    convert,
    decode,
    diff,
    dumps,
    encode,
    from_schema,
    inspect,
    load,
    loads,
    open,
    plan_upgrade,
    plugins,
    save,
    supports,
    targets,
    to_schema,
    treespec_dumps,
    treespec_loads,
    upgrade,
    verify,
)
from graphwire.hooks.hookspecs import hookimpl
from graphwire.hooks.registry import PluginInfo, Registry
from graphwire.version import __version__
from graphwire.wire.limits import Limits
from graphwire.wire.pickle_limits import PickleLimits

__all__ = [
    "Archive",
    "Limits",
    "LoadReport",
    "PickleLimits",
    "PluginInfo",
    "Registry",
    "WriteReport",
    "__version__",
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
]
