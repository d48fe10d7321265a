"""The former place of `NodeEditor`, now in `graphwire.hooks`. It goes with the release after the next one."""

import warnings

from graphwire.evolve.node_editor import NodeEditor

__all__ = ["NodeEditor"]

warnings.warn(
    "graphwire.evolve.opsets is deprecated: import its names from graphwire.hooks",
    DeprecationWarning,
    stacklevel=2,
)
