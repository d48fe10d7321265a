"""The former place of `TreeSpec` and its functions, now in `graphwire.hooks`. It goes with the release after the next one."""

from graphwire.errors import warn
from graphwire.schema.texts.treespec import TreeSpec, dump_json, load_json

__all__ = ["TreeSpec", "dump_json", "load_json"]

warn("graphwire.schema.treespec is deprecated: import its names from graphwire.hooks", DeprecationWarning)
