"""The six hooks. Each is called once, when a registry is built, and returns what the plugin provides."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from graphwire.hooks.interfaces import (
    ConstantCodec,
    MetadataKey,
    OpHandler,
    OpsetUpgrader,
    TreespecSerializer,
    WireFormat,
)

PROJECT = "graphwire"
"""The pluggy project name, and the entry-point group that plugins register under."""

API_VERSION = 1
"""The version of this interface: the hooks, and the Protocols of what they return. A change that an older plugin would not
survive makes it one more; so does a hook or a method that a newer plugin may rely on."""
API_ATTRIBUTE = "GRAPHWIRE_API"
"""The attribute by which a plugin says the version that it is written for; 1 where it does not."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def graphwire_wire_formats() -> Iterable[WireFormat]:  # type: ignore[empty-body]
    """Wire formats: ways to write a program as bytes."""


@hookspec
def graphwire_op_handlers() -> Iterable[OpHandler]:  # type: ignore[empty-body]
    """Operator handlers: namespaces of operator names, and how their nodes are written."""


@hookspec
def graphwire_treespec_serializers() -> Iterable[TreespecSerializer]:  # type: ignore[empty-body]
    """Treespec serializers: container types of inputs and outputs."""


@hookspec
def graphwire_opset_upgraders() -> Iterable[OpsetUpgrader]:  # type: ignore[empty-body]
    """Opset upgraders: steps between versions of an operator namespace."""


@hookspec
def graphwire_constant_codecs() -> Iterable[ConstantCodec]:  # type: ignore[empty-body]
    """Constant codecs: weights and constants that are no plain strided tensors."""


@hookspec
def graphwire_metadata_keys() -> Iterable[MetadataKey]:  # type: ignore[empty-body]
    """Metadata keys: what nodes and graphs note of themselves, and keep."""
