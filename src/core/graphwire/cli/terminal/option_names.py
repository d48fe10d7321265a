"""Translate remedies for the command line: Python arguments become command-line options."""

from __future__ import annotations

import re

__all__ = ["as_command"]

_ROWS: tuple[tuple[str, str], ...] = (
    (r"Raise Limits\.pickle\b", r"Raise a limit on pickles, such as --limit pickle.values=NUMBER,"),
    (r"Raise Limits\.(\w+)", r"Raise it with --limit \1=NUMBER"),
    (r"Pass method= to pick one", r"Pick one with --method"),
    (
        r"Or pass unknown_ops=\"opaque\" to look at the graph without running it",
        r"`graphwire inspect --nodes` shows the graph",
    ),
    (r"Write it with format=\"(\w+)\"", r"Write it with --format \1"),
    (r"Such as opset_version=\{\"(\w+)\": (\d+)\}", r"Such as --opset \1=\2"),
    (r"([Pp])ass weights=graphwire\.IN_FILE", r"\1ass --weights in-file"),
    (r"([Pp])ass weights=:? a file or folder of weights, .*? loads the graph alone", r"\1ass --weights-from"),
    (r"([Pp])ass weights=", r"\1ass --weights-from"),
    (r"Leave weights= out, or target=", r"Leave --weights or --target out"),
    (r"Pass rank=, such as torch\.distributed\.get_rank\(\)", r"Pass --rank"),
    (r"Pass rank= from", r"Pass --rank from"),
    (r"Leave rank= out", r"Leave --rank out"),
    (r"Pass (?:ranks|shard)=.*", r"Only Python divides weights between ranks"),
    (r"Pass Checkpoint\(…, names=\).*", r"Only Python names weights otherwise"),
    (
        r"; Checkpoint\(…, names=\) renames them, shard= divides them",
        r"; only Python names weights otherwise",
    ),
    (r"Pass groups=\{.*", r"Commands run no collectives"),
    (r"\bstorage_options=", r"--storage-options"),
    (r"Where its device is not there, pass device= with one that is", r"Commands look at no device"),
)
"""Patterns of remedies for Python, and their replacements for the command line."""


def as_command(message: str) -> str:
    """Return an error message with its remedy translated for the command line."""
    for pattern, text in _ROWS:
        message = re.sub(pattern, text, message)
    return message
