"""The command `weights`, which lists the weights of a program, or writes them to a file."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from graphwire.cli import files, outputs
from graphwire.cli.options import (
    add_json,
    add_limits,
    add_method,
    add_selection,
    add_weight_source,
    open_options,
)
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""

    parser.description = (
        "List the weights of a program: name, element type, shape, size, and where the elements are."
    )
    parser.add_argument("file", metavar="FILE", help="the file to read, its URL, or - for standard input")
    add_limits(parser)
    add_json(parser)
    add_method(parser)
    add_selection(parser)
    outputs.add_output(parser, "write the weights to this new file, such as model.safetensors")
    outputs.add_dry_run(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_weights)


def _weights(arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire
    from graphwire.cli.inspect_file import selected

    options = open_options(arguments)
    place = new = None
    read = files.input_named(arguments.file)
    if arguments.output is not None:
        place = outputs.destination_of(arguments.output, outputs.ReadFiles([read], arguments))
        if place.name == files.STDIN:
            raise ArchiveError(
                "weights cannot go to standard output", remedy="Name a file such as model.safetensors"
            )
        new = None if arguments.dry_run else place.file
    with (
        place.folder_made() if place is not None and new is not None else nullcontext(),
        output.progress("Writing" if new is not None else "Reading"),
    ):
        found = graphwire.weights(read.source, method=arguments.method, export=new, **options)
    listed = selected(found, arguments)
    if arguments.json:
        tree = msgspec.to_builtins(listed.shown)
        output.json(tree if arguments.top is None else {"weights": tree, "more": listed.more_tree()})
        return 0
    output.sections([listed.section()])
    if place is not None:
        outputs.tell_written(output, place, dry_run=arguments.dry_run)
    if not found:
        output.line(f"{arguments.file}: no weights")
    return 0
