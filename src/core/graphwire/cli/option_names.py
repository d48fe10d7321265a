"""Remedies as the command line can follow them: arguments of Python functions become options, or are left out."""

from __future__ import annotations

import re

__all__ = ["as_command"]

_ROWS: tuple[tuple[str, str], ...] = (
    (
        r"Raise (Limits\.\w+)( for a file that you trust)?",
        r"Only Python can raise \1\2; commands keep the defaults",
    ),
    (r"Pass method= to pick one", r"Pick one with --method"),
    (
        r"Or pass unknown_ops=\"opaque\" to look at the graph without running it",
        r"`graphwire inspect --nodes` shows the graph",
    ),
    (r"Write it with format=\"(\w+)\"", r"Write it with --format \1"),
    (r"Such as opset_version=\{\"(\w+)\": (\d+)\}", r"Such as --opset \1=\2"),
    (r"Pass weights=\"(\w+)\"", r"Only Python reads weights in another way"),
    (r"Where its device is not there, pass device= with one that is", r"Commands look at no device"),
)
"""What Python is told, and what a command line is told instead."""


def as_command(message: str) -> str:
    """A message of an error for somebody who typed a command."""
    for pattern, text in _ROWS:
        message = re.sub(pattern, text, message)
    return message
