"""The former place of `measure_tree` and `MAX_DEPTH`, now in `graphwire.hooks`. It goes with the release after the next one."""

from graphwire.errors import warn
from graphwire.wire.document import MAX_DEPTH, measure_tree

__all__ = ["MAX_DEPTH", "measure_tree"]

warn("graphwire.wire.plain_trees is deprecated: import its names from graphwire.hooks", DeprecationWarning)
