"""Contract suites for plugin authors: subclass one, name your provider, and pytest runs the contract on it.

The suites and strategies need pytest and hypothesis (`pip install graphwire[test]`). What compares programs
(`graphwire.testing.programs`, `.portraits`) needs what graphwire needs. Nothing in graphwire imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphwire.testing.strategies import trees
    from graphwire.testing.wire_format import WireFormatContract

__all__ = ["WireFormatContract", "trees"]


def __getattr__(name: str) -> Any:
    """Import a suite or strategy when it is asked for, so that modules beside it load without pytest and hypothesis."""
    if name == "WireFormatContract":
        from graphwire.testing.wire_format import WireFormatContract

        return WireFormatContract
    if name == "trees":
        from graphwire.testing.strategies import trees

        return trees
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
