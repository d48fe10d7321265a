"""Contract suites for plugin authors: subclass one, name your provider, and pytest runs the contract on it.

The suites need pytest and hypothesis (`pip install graphwire[test]`); nothing in graphwire imports this package.
"""

from __future__ import annotations

from graphwire.testing.strategies import trees
from graphwire.testing.wire_format import WireFormatContract

__all__ = ["WireFormatContract", "trees"]
