"""The version of this distribution. `pyproject.toml` reads it from here."""

__version__ = "0.1.0"

PRODUCER = f"graphwire {__version__}"
"""The value of a document's `producer` field."""
