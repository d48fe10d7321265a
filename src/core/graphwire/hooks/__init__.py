"""How do plugins extend graphwire? Hook specifications, provider interfaces, discovery and the registry.

A plugin is a module with functions that are marked `@hookimpl`. Each returns a list of providers:

    hook                              a provider is                    for
    graphwire_wire_formats            WireFormat                       how a document becomes bytes
    graphwire_op_handlers             OpHandler                        the operators of a namespace
    graphwire_opset_upgraders         OpsetUpgrader, or OpsetStep      changes between versions of operators
    graphwire_treespec_serializers    TreespecSerializer               container types of inputs and outputs
    graphwire_constant_codecs         ConstantCodec                    weights that are no plain tensors
    graphwire_metadata_keys           MetadataKey                      data of passes on nodes
    graphwire_weight_stores           WeightStore                      weights outside of a program's file
    graphwire_commands                Command                          commands of the command line

help(graphwire.hooks.WireFormat) has the members of a provider.
"""

from graphwire.hooks.conflicts import (
    is_older,
    remedy_for_name,
    remedy_for_plugin,
    remedy_for_requirements,
    remedy_for_unavailable_name,
    unavailable_error,
)
from graphwire.hooks.discovery import PluginInfo, discover_plugins, load_plugin
from graphwire.hooks.hookspecs import PROJECT, hookimpl
from graphwire.hooks.interfaces import (
    OWN_COMMANDS,
    BoundedFormat,
    Command,
    ConstantCodec,
    CountingFormat,
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
from graphwire.hooks.registry import Registry, TreespecType, default_registry, registry_or_installed
from graphwire.hooks.weight_stores import (
    Chunk,
    NewTensor,
    PrunableFolder,
    PrunableStore,
    StoredTensor,
    StoreFile,
    StoreFolder,
    StoreIndex,
    UnusedFile,
    WeightStore,
)

__all__ = [
    "OWN_COMMANDS",
    "PROJECT",
    "BoundedFormat",
    "Chunk",
    "Command",
    "ConstantCodec",
    "CountingFormat",
    "FittingTreespecSerializer",
    "MetadataKey",
    "NewTensor",
    "NodeCodec",
    "OpHandler",
    "OpsetStep",
    "OpsetUpgrader",
    "PluginInfo",
    "ProgramReader",
    "PropagatingUpgrader",
    "PrunableFolder",
    "PrunableStore",
    "RecordFormat",
    "Registry",
    "StoreFile",
    "StoreFolder",
    "StoreIndex",
    "StoredTensor",
    "Tree",
    "TreespecSerializer",
    "TreespecType",
    "UnusedFile",
    "WeightStore",
    "WireFormat",
    "default_registry",
    "discover_plugins",
    "hookimpl",
    "is_older",
    "load_plugin",
    "registry_or_installed",
    "remedy_for_name",
    "remedy_for_plugin",
    "remedy_for_requirements",
    "remedy_for_unavailable_name",
    "step_name",
    "unavailable_error",
]
