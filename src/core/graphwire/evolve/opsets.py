"""The former place of `NodeEditor`, now in `graphwire.hooks`. It goes with the release after the next one."""

from graphwire.errors import warn
from graphwire.evolve.node_editor import NodeEditor

__all__ = ["NodeEditor"]

warn("graphwire.evolve.opsets is deprecated: import its names from graphwire.hooks", DeprecationWarning)
