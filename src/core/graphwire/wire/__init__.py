"""How do programs become bytes, and bytes programs again?"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Return what plugins of before import from here. It goes with the release after the next one."""
    if name != "measure_tree":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphwire.errors import warn
    from graphwire.wire.document import measure_tree

    warn("graphwire.wire is deprecated: import its names from graphwire.hooks", DeprecationWarning)
    return measure_tree
