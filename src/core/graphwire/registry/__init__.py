"""How are plugins found, checked and looked up? Hook specifications, provider interfaces, discovery and the registry."""

from graphwire.registry.calls import (
    BLOCK_VARIABLE as BLOCK_VARIABLE,
    REMEDY_OF_BROKEN as REMEDY_OF_BROKEN,
    blamed as blamed,
    calling as calling,
)
from graphwire.registry.discovery import (
    REMEDY_OF_CONFLICT as REMEDY_OF_CONFLICT,
    REMEDY_OF_HEAVY as REMEDY_OF_HEAVY,
    GraphwirePluginWarning as GraphwirePluginWarning,
    PluginInfo as PluginInfo,
    discover_plugins as discover_plugins,
    load_plugin as load_plugin,
    remedy_for_name as remedy_for_name,
    remedy_for_plugin as remedy_for_plugin,
    remedy_for_unavailable_name as remedy_for_unavailable_name,
    unavailable_error as unavailable_error,
)
from graphwire.registry.entry_points import normal_name as normal_name
from graphwire.registry.interfaces import (
    OWN_COMMANDS as OWN_COMMANDS,
    OWN_METADATA as OWN_METADATA,
    PROJECT as PROJECT,
    TORCH_METADATA as TORCH_METADATA,
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
from graphwire.registry.provisions import step_name as step_name
from graphwire.registry.registry import (
    Registry as Registry,
    TreespecType as TreespecType,
    default_registry as default_registry,
    registry_or_installed as registry_or_installed,
)
from graphwire.registry.requirements import (
    is_older as is_older,
    is_provided as is_provided,
    missing_error as missing_error,
    missing_of as missing_of,
    parts_of as parts_of,
    remedy_for_requirements as remedy_for_requirements,
)
