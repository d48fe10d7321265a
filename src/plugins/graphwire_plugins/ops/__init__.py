"""Operator handlers for what torch itself brings: library overloads, higher-order operators, functions on symbols."""

from __future__ import annotations

from graphwire.hooks.hookspecs import hookimpl
from graphwire.hooks.interfaces import OpHandler
from graphwire_plugins.ops.functions import PredispatchFunctions, SymbolFunctions
from graphwire_plugins.ops.higher_order import HigherOrderOperators
from graphwire_plugins.ops.overloads import LibraryOverloads

__all__ = ["graphwire_op_handlers"]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """The four handlers that every graph of `torch.export` needs."""
    return [LibraryOverloads(), HigherOrderOperators(), SymbolFunctions(), PredispatchFunctions()]
