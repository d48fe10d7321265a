"""The command `graphwire slabs`, which prints the most frequent operators of files.

The command line imports this module for each command; what takes long to import belongs into `run`.
"""

from __future__ import annotations

import argparse

import graphwire
from graphwire import hookimpl
from graphwire.cli.files import Input, for_each_file, inputs_of
from graphwire.cli.options import add_files, open_options
from graphwire.cli.terminal import Output
from graphwire.hooks import Command

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""


class SlabsCommand:
    """The command `slabs`."""

    name = "slabs"
    help = "print the most frequent operators of files"

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        add_files(parser)
        parser.add_argument("--count", type=int, default=3, help="how many operators of each program")
        parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the operators, and return the exit code: 2 if a file cannot be read, 0 otherwise."""

    def task(file: Input) -> int:
        found = graphwire.inspect(file.source, **open_options(arguments))
        for method in found.methods:
            for operator, calls in list(method.summary.operators.items())[: arguments.count]:
                output.line(f"{file.name}: {calls:,} {operator}")
        return 0

    return max(for_each_file(inputs_of(arguments.files), output, task, doing="Reading"))


@hookimpl
def graphwire_commands() -> list[Command]:
    """Return the commands of this plugin."""
    return [SlabsCommand()]
