"""The former place of `TreeSpec` and its functions, now in `graphwire.hooks`. It goes with the release after the next one."""

import warnings

from graphwire.schema.texts.treespec import TreeSpec, dump_json, load_json

__all__ = ["TreeSpec", "dump_json", "load_json"]

warnings.warn(
    "graphwire.schema.treespec is deprecated: import its names from graphwire.hooks",
    DeprecationWarning,
    stacklevel=2,
)
