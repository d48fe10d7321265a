"""Literal values of documents as text."""

from __future__ import annotations

from typing import Any, Final

from graphwire.analysis.validation import number_text

UNKNOWN: Final = "?"
"""The text of what cannot be determined."""


def literal_text(value: Any) -> str:
    """Return a literal as text: numbers and truth values as Python prints them, text itself, lists in brackets."""
    if type(value) is int:
        return number_text(value)
    if isinstance(value, str | bool | float):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal_text, value))}]"
    return UNKNOWN
