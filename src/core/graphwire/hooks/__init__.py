"""How do others extend graphwire?"""

from graphwire.hooks.discovery import PluginInfo, discover_plugins, load_plugin
from graphwire.hooks.hookspecs import PROJECT, hookimpl
from graphwire.hooks.interfaces import (
    BoundedFormat,
    ConstantCodec,
    FittingTreespecSerializer,
    MetadataKey,
    NodeCodec,
    OpHandler,
    OpsetStep,
    OpsetUpgrader,
    ProgramReader,
    PropagatingUpgrader,
    RecordFormat,
    Tree,
    TreespecSerializer,
    WireFormat,
)
from graphwire.hooks.provisions import step_name
from graphwire.hooks.registry import Registry, default_registry, in_force
from graphwire.hooks.remedies import is_older, of_fault, of_name, of_plugin, of_requirements, unavailable
from graphwire.hooks.treespec_types import TreespecType

__all__ = [
    "PROJECT",
    "BoundedFormat",
    "ConstantCodec",
    "FittingTreespecSerializer",
    "MetadataKey",
    "NodeCodec",
    "OpHandler",
    "OpsetStep",
    "OpsetUpgrader",
    "PluginInfo",
    "ProgramReader",
    "PropagatingUpgrader",
    "RecordFormat",
    "Registry",
    "Tree",
    "TreespecSerializer",
    "TreespecType",
    "WireFormat",
    "default_registry",
    "discover_plugins",
    "hookimpl",
    "in_force",
    "is_older",
    "load_plugin",
    "of_fault",
    "of_name",
    "of_plugin",
    "of_requirements",
    "step_name",
    "unavailable",
]
