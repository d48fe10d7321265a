"""Operator handlers for torch's own operators: library overloads, higher-order operators and functions on symbols.

It also declares the metadata keys of torch's own passes.
"""

from __future__ import annotations

from graphwire.hooks import MetadataKey, OpHandler, hookimpl
from graphwire_plugins.ops.functions import PredispatchFunctions, SymbolFunctions
from graphwire_plugins.ops.higher_order import HigherOrderOperators
from graphwire_plugins.ops.overloads import LibraryOverloads

_KEYS = (
    "ac_graph_id dynamo_flat_name_to_original_fqn has_backward_hook partitioner_tag quantization_tag recompute "
    "_numeric_debug_handle"
).split()
"""The keys that `torch.fx` copies when it retraces a graph (`torch/fx/proxy.py`), and that the inductor reads from a
graph module."""


@hookimpl
def graphwire_metadata_keys() -> list[MetadataKey]:
    """Return the metadata keys that torch's passes write and read."""
    return [MetadataKey(name) for name in _KEYS]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """Return the four handlers that every graph of `torch.export` needs."""
    return [LibraryOverloads(), HigherOrderOperators(), SymbolFunctions(), PredispatchFunctions()]
