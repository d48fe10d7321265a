"""The command `weights`, which lists the weights of a program, or writes them to a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphwire.cli.files import add_dry_run, add_json, add_limits, add_method, add_weight_source, open_options
from graphwire.cli.terminal import Output

__all__ = ["add_weights"]


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "List the weights of a program: name, element type, shape, size, and where the elements are."
    )
    parser.add_argument("file", metavar="FILE", help="the file to read, or its URL")
    add_limits(parser)
    add_json(parser)
    add_method(parser)
    parser.add_argument(
        "--export",
        metavar="NEW",
        type=Path,
        help="write the weights to a new file, such as model.safetensors",
    )
    add_dry_run(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_weights)


def _weights(arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire
    from graphwire.cli.reading.inspection import weight_section

    options = open_options(arguments)
    if arguments.export is None or arguments.dry_run:
        found = graphwire.weights(arguments.file, method=arguments.method, **options)
    else:
        with output.progress("Writing"):
            found = graphwire.weights(
                arguments.file, method=arguments.method, export=arguments.export, **options
            )
    if arguments.json:
        output.json(msgspec.to_builtins(found))
        return 0
    output.sections([weight_section(found)])
    if not found:
        output.line(f"{arguments.file}: no weights")
    return 0
