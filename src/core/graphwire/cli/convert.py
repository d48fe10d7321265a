"""The command `convert`, which writes files again in another wire format, or for an older torch."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any

from graphwire.cli import files
from graphwire.cli.options import add_files, add_target, add_weight_source, open_options, place_of
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = (
        "graphwire convert [OPTIONS] FILE ... DST\n       graphwire convert [OPTIONS] FILE ... -o DST"
    )
    parser.description = (
        "Write files again in another wire format, or for an older torch, with the same weights. The last word is DST, unless"
        " --output or --in-place is given. Several files, or a folder, go into the folder DST."
    )
    add_files(parser)
    files.add_rewriting(parser)
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="the wire format, such as json or msgpack; by default that of the file, and json with --target",
    )
    add_target(
        parser,
        "write for this release of torch (with json), such as 2.6; torch is the installed one",
        dest="reader",
    )
    parser.add_argument(
        "--stored",
        action="store_true",
        help="store documents uncompressed, for readers that cannot inflate",
    )
    parser.add_argument(
        "--ranges",
        choices=("exact", "narrowed"),
        default="exact",
        help="narrowed: write a minimum of 2 for sizes that may be 0 or 1, which torch up to 2.3 cannot read",
    )
    parser.add_argument(
        "--rename",
        action="store_true",
        help="give other names to weights, constants and modules whose names no reader accepts",
    )
    parser.add_argument(
        "--weights",
        metavar="PLACE",
        help="where the weights go: in-file, none, a new file such as model.safetensors, blobs:FOLDER, or checkpoint:PATH for"
        " one that exists; by default they stay where they are",
    )
    files.add_dry_run(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_convert)


def _convert(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.output is None and not arguments.in_place:
        if len(arguments.files) < 2:
            raise ArchiveError(
                "where to write is missing", remedy="Name DST behind the file, or pass --in-place"
            )
        *arguments.files, arguments.output = arguments.files
        is_input = any(
            os.path.realpath(each) == os.path.realpath(arguments.output) for each in arguments.files
        )
        if os.path.isfile(arguments.output) and not is_input:  # noqa: PTH113 it may be a URL
            raise ArchiveError(
                "this file is there already, and would be replaced",
                remedy="Name it with --output to replace it",
            ).of(arguments.output)
    return files.rewrite_files(_convert_file, "Converting", arguments, output)


def _convert_file(
    each: files.Input, place: files.Destination | None, arguments: argparse.Namespace, output: Output
) -> int:
    import msgspec

    import graphwire

    assert place is not None  # `_convert` asks for one
    reports: list[Any] = []
    weights = place_of(arguments.weights)
    if (
        place.is_path
        and isinstance(weights, str)
        and os.path.realpath(weights) == os.path.realpath(place.name)
    ):
        raise ArchiveError("this is to be the program and its weights", remedy="Name two files").of(
            place.name
        )
    with nullcontext() if arguments.dry_run else place.folder_made():
        graphwire.convert(
            each.source,
            place.file,
            format=arguments.format,
            target=arguments.reader,
            ranges=arguments.ranges,
            names="renamed" if arguments.rename else "exact",
            compress=not arguments.stored,
            weights=weights,
            dry_run=arguments.dry_run,
            report=reports.append,
            **open_options(arguments),
        )
    if arguments.json and not place.is_stream:  # else standard output has the file
        nbytes = place.nbytes if place.is_path and not arguments.dry_run else None
        tree = {"file": each.name, "output": place.name, "size": nbytes}
        output.json(tree | msgspec.to_builtins(reports[0]), indent=None)
        return files.OK
    say = output.remark if place.is_stream else output.line
    for narrowed in reports[0].narrowed:
        begins = f"begins at {narrowed.written}, in the program at {narrowed.given}"
        say(f"{place.name}:{narrowed.method}: {narrowed.symbol} {begins}")
    for left in reports[0].not_for_torch:
        say(f"{place.name}:{left.method}: torch does not find the {left.what} ({left.reason})")
    format = arguments.format or ("json" if arguments.reader else "")
    files.tell_written(output, place, format, dry_run=arguments.dry_run)
    return files.OK
