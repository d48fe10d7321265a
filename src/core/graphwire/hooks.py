"""What authors of plugins import: hook interfaces, and what their providers need of graphwire.

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

help(graphwire.hooks.WireFormat) has the members of a provider. The names here stay; the modules that define them may move.
"""

from graphwire.cli.files import (
    FAILED,
    FOUND,
    OK,
    Input,
    ReadFiles,
    add_output,
    destination_of,
    for_each_file,
    inputs_of,
)
from graphwire.cli.options import add_files, open_options
from graphwire.cli.terminal import Output, Section
from graphwire.evolve.node_editor import NodeEditor
from graphwire.evolve.planner import opset_steps
from graphwire.registry import (
    BoundedFormat,
    Chunk,
    Command,
    ConstantCodec,
    CountingFormat,
    FittingTreespecSerializer,
    MetadataKey,
    NewTensor,
    NodeCodec,
    OpHandler,
    OpsetStep,
    OpsetUpgrader,
    PluginInfo,
    ProgramReader,
    PropagatingUpgrader,
    PrunableFolder,
    PrunableStore,
    RecordFormat,
    Registry,
    StoredBytes,
    StoredTensor,
    StoreFile,
    StoreFolder,
    StoreIndex,
    Tree,
    TreespecSerializer,
    UnusedFile,
    WeightStore,
    WireFormat,
    default_registry,
    hookimpl,
)
from graphwire.schema.texts.infix import format_infix
from graphwire.schema.texts.operations import parse_expression
from graphwire.schema.texts.treespec import TreeSpec, dump_json, load_json
from graphwire.wire.document import MAX_DEPTH, measure_tree
from graphwire.wire.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "DEFAULT_LIMITS",
    "FAILED",
    "FOUND",
    "MAX_DEPTH",
    "OK",
    "BoundedFormat",
    "Chunk",
    "Command",
    "ConstantCodec",
    "CountingFormat",
    "FittingTreespecSerializer",
    "Input",
    "Limits",
    "MetadataKey",
    "NewTensor",
    "NodeCodec",
    "NodeEditor",
    "OpHandler",
    "OpsetStep",
    "OpsetUpgrader",
    "Output",
    "PluginInfo",
    "ProgramReader",
    "PropagatingUpgrader",
    "PrunableFolder",
    "PrunableStore",
    "ReadFiles",
    "RecordFormat",
    "Registry",
    "Section",
    "StoreFile",
    "StoreFolder",
    "StoreIndex",
    "StoredBytes",
    "StoredTensor",
    "Tree",
    "TreeSpec",
    "TreespecSerializer",
    "UnusedFile",
    "WeightStore",
    "WireFormat",
    "add_files",
    "add_output",
    "default_registry",
    "destination_of",
    "dump_json",
    "for_each_file",
    "format_infix",
    "hookimpl",
    "inputs_of",
    "load_json",
    "measure_tree",
    "open_options",
    "opset_steps",
    "parse_expression",
]
