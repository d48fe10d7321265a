"""Operator handlers for what torch itself brings: library overloads, higher-order operators, functions on symbols; and the
metadata that torch's own passes keep of nodes."""

from __future__ import annotations

from graphwire.hooks import MetadataKey, OpHandler, hookimpl
from graphwire_plugins.ops.functions import PredispatchFunctions, SymbolFunctions
from graphwire_plugins.ops.higher_order import HigherOrderOperators
from graphwire_plugins.ops.overloads import LibraryOverloads

__all__ = ["graphwire_metadata_keys", "graphwire_op_handlers"]

_KEYS = (
    "ac_graph_id",
    "dynamo_flat_name_to_original_fqn",
    "has_backward_hook",
    "partitioner_tag",
    "quantization_tag",
    "recompute",
    "_numeric_debug_handle",
)
"""What `torch.fx` copies when it traces a graph again (`torch/fx/proxy.py`), and what the inductor reads of a graph module."""


@hookimpl
def graphwire_metadata_keys() -> list[MetadataKey]:
    """The keys that passes of torch write and read."""
    return [MetadataKey(name) for name in _KEYS]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """The four handlers that every graph of `torch.export` needs."""
    return [LibraryOverloads(), HigherOrderOperators(), SymbolFunctions(), PredispatchFunctions()]
