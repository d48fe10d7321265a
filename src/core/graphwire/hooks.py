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
    FAILED as FAILED,
    FOUND as FOUND,
    OK as OK,
    Input as Input,
    for_each_file as for_each_file,
    inputs_of as inputs_of,
)
from graphwire.cli.options import (
    add_files as add_files,
    open_options as open_options,
)
from graphwire.cli.outputs import (
    ReadFiles as ReadFiles,
    add_output as add_output,
    destination_of as destination_of,
)
from graphwire.cli.terminal import Output as Output
from graphwire.display import Section as Section
from graphwire.evolve.node_editor import NodeEditor as NodeEditor
from graphwire.evolve.planner import opset_steps as opset_steps
from graphwire.registry.discovery import PluginInfo as PluginInfo
from graphwire.registry.interfaces import (
    BoundedFormat as BoundedFormat,
    Chunk as Chunk,
    Command as Command,
    ConstantCodec as ConstantCodec,
    CountingFormat as CountingFormat,
    FittingTreespecSerializer as FittingTreespecSerializer,
    MetadataKey as MetadataKey,
    NewTensor as NewTensor,
    NodeCodec as NodeCodec,
    OpHandler as OpHandler,
    OpsetStep as OpsetStep,
    OpsetUpgrader as OpsetUpgrader,
    ProgramReader as ProgramReader,
    PropagatingUpgrader as PropagatingUpgrader,
    PrunableFolder as PrunableFolder,
    PrunableStore as PrunableStore,
    RecordFormat as RecordFormat,
    StoredBytes as StoredBytes,
    StoredTensor as StoredTensor,
    StoreFile as StoreFile,
    StoreFolder as StoreFolder,
    StoreIndex as StoreIndex,
    Tree as Tree,
    TreespecSerializer as TreespecSerializer,
    UnusedFile as UnusedFile,
    WeightStore as WeightStore,
    WireFormat as WireFormat,
    hookimpl as hookimpl,
)
from graphwire.registry.registry import Registry as Registry, default_registry as default_registry
from graphwire.schema.texts.infix import format_infix as format_infix
from graphwire.schema.texts.operations import parse_expression as parse_expression
from graphwire.schema.texts.treespec import (
    TreeSpec as TreeSpec,
    dump_json as dump_json,
    load_json as load_json,
)
from graphwire.wire.document import (
    MAX_DEPTH as MAX_DEPTH,
    measure_tree as measure_tree,
)
from graphwire.wire.limits import (
    DEFAULT_LIMITS as DEFAULT_LIMITS,
    Limits as Limits,
)
