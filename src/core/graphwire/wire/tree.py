"""The former place of `measure_tree` and `MAX_DEPTH`, now in `graphwire.hooks`. It goes with the release after the next one."""

import warnings

from graphwire.wire.document import MAX_DEPTH, measure_tree

__all__ = ["MAX_DEPTH", "measure_tree"]

warnings.warn(
    "graphwire.wire.tree is deprecated: import its names from graphwire.hooks",
    DeprecationWarning,
    stacklevel=2,
)
