"""The version of this distribution. `pyproject.toml` reads it from here."""

from __future__ import annotations

__version__ = "0.1.0"

PRODUCER = f"graphwire {__version__}"
"""The value of a document's `producer` field."""

OLDEST_TORCH = (2, 8)
"""The oldest release of torch that graphwire supports and is tested on."""
NEWEST_TORCH = (2, 15)
"""The newest release of torch that graphwire is tested on."""
TESTED_TORCH = f"torch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} to {NEWEST_TORCH[0]}.{NEWEST_TORCH[1]}"
