"""The commands `neutral` and `conformance`: what a reader finds in a file, and whether it keeps the rules of the format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

__all__ = ["add_conformance"]

OK, REFUSED = 0, 1
"""Exit codes: the file is valid, or it violates rules of the format."""


def add_conformance(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    Args:
        commands: what `add_subparsers` returned.
        common: the parent with the options of all commands.
    """
    neutral = commands.add_parser(
        "neutral",
        parents=[common],
        help="print what a reader finds in a file, as neutral JSON",
        description="Check a whole file, and print its programs and the digests of its weights as neutral JSON, the form in which"
        " readers in any language are compared. The exit code is 0 for a valid file, and 1 for any other.",
    )
    neutral.add_argument("file", metavar="FILE", type=Path, help="an archive, or a tree in a wire format")
    neutral.set_defaults(run=_neutral)


def _neutral(arguments: argparse.Namespace) -> int:
    from graphwire.api.conformance import neutral
    from graphwire.cli.sections import escaped, print_line
    from graphwire.errors import GraphwireError

    try:
        data = neutral(arguments.file)
    except GraphwireError as error:
        if arguments.debug:
            raise
        print_line(f"graphwire: refused: {escaped(' '.join(str(error).split()))}", sys.stderr)
        return REFUSED
    sys.stdout.buffer.write(data)
    return OK
