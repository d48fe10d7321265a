"""The interface of commands (hook `graphwire_commands`): what `graphwire NAME` does on the command line."""

from __future__ import annotations

import argparse
from typing import Final, Protocol, runtime_checkable

OWN_COMMANDS: Final = frozenset(
    "inspect verify view diff hash targets convert upgrade strip weights blobs plugins new-plugin check-plugin doctor"
    " completion schema neutral conformance".split()
)
"""The commands of graphwire itself, whose names no plugin can claim."""


@runtime_checkable
class Command(Protocol):
    """A command (hook `graphwire_commands`)."""

    @property
    def name(self) -> str:
        """The word after `graphwire`, such as `fleet`: lower-case letters, digits and dashes, a letter first."""
        ...

    @property
    def help(self) -> str:
        """What it does, in one line, for the list of commands."""
        ...

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments, and set the default `run`: a function that is called with the parsed arguments and an
        `Output`, and returns the exit code. The options `--color`, `--quiet` and `--debug` are there already.

        It is called when the command is chosen or its help is shown; what takes long to import belongs into `run`."""
        ...
