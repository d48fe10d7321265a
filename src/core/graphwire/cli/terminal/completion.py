"""Completion of commands, options and files in a shell, by argcomplete.

The shell runs `graphwire` with the line so far in its environment, and reads the words that it may continue with.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from graphwire.cli.terminal.output import Output
from graphwire.errors import PluginError

__all__ = ["add_completion", "complete"]

_SHELLS = ("bash", "zsh", "fish")


def complete(parser_of: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer the shell, and end the process.

    Args:
        parser_of: returns the parser for the command that the line names.
    """
    try:
        from argcomplete import autocomplete
    except ModuleNotFoundError:
        return
    words = os.environ.get("COMP_LINE", "").split()[1:]
    autocomplete(parser_of(next((word for word in words if not word.startswith("-")), "")))


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print the lines that complete commands, options and files in a shell, for its start-up file. Needs the extra"
        " graphwire[completion]."
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace, output: Output) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError as error:
        raise PluginError(
            "argcomplete is not installed", remedy="Run: pip install 'graphwire[completion]'"
        ) from error
    output.stdout.write(shellcode(["graphwire"], shell=arguments.shell))
    return 0
