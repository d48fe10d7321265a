"""A plugin for graphwire: treespec, codec, store, metadata, command."""

from graphwire_slabs.codec import graphwire_constant_codecs
from graphwire_slabs.command import graphwire_commands
from graphwire_slabs.metadata import graphwire_metadata_keys
from graphwire_slabs.store import graphwire_weight_stores
from graphwire_slabs.treespec import graphwire_treespec_serializers

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this package uses."""

__all__ = [
    "graphwire_commands",
    "graphwire_constant_codecs",
    "graphwire_metadata_keys",
    "graphwire_treespec_serializers",
    "graphwire_weight_stores",
]
