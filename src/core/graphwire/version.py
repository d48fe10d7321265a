"""The version of this distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("graphwire")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

PRODUCER = f"graphwire {__version__}"
"""The value of a document's `producer` field."""
