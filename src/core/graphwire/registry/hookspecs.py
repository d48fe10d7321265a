"""The eight hooks. Building a registry calls each once; it returns what the plugin provides."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from graphwire.registry.interfaces import (
    Command,
    ConstantCodec,
    MetadataKey,
    OpHandler,
    OpsetUpgrader,
    TreespecSerializer,
    WireFormat,
)
from graphwire.registry.weight_stores import WeightStore

PROJECT = "graphwire"
"""The pluggy project name, and the entry-point group that plugins register under."""

API_VERSION = 1
"""The version of the plugin interface: the hooks, and the Protocols of what they return. It increases with each change
that breaks older plugins, and with each hook or method that newer plugins may rely on."""
API_ATTRIBUTE = "GRAPHWIRE_API"
"""The attribute in which a plugin declares the interface version that it is written for; 1 if absent."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def graphwire_wire_formats() -> Iterable[WireFormat]:  # type: ignore[empty-body]
    """Return wire formats: ways to write a program as bytes."""


@hookspec
def graphwire_op_handlers() -> Iterable[OpHandler]:  # type: ignore[empty-body]
    """Return operator handlers: namespaces of operator names, and how their nodes are written."""


@hookspec
def graphwire_treespec_serializers() -> Iterable[TreespecSerializer]:  # type: ignore[empty-body]
    """Return treespec serializers: container types of inputs and outputs."""


@hookspec
def graphwire_opset_upgraders() -> Iterable[OpsetUpgrader]:  # type: ignore[empty-body]
    """Return opset upgraders: steps between versions of an operator namespace."""


@hookspec
def graphwire_constant_codecs() -> Iterable[ConstantCodec]:  # type: ignore[empty-body]
    """Return constant codecs: for weights and constants that are not plain strided tensors."""


@hookspec
def graphwire_metadata_keys() -> Iterable[MetadataKey]:  # type: ignore[empty-body]
    """Return metadata keys: entries of `node.meta` and `graph_module.meta` that files keep."""


@hookspec
def graphwire_weight_stores() -> Iterable[WeightStore]:  # type: ignore[empty-body]
    """Return weight stores: where the weights of programs are, if not in the program's file."""


@hookspec
def graphwire_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Return commands of the command line."""
