"""The command `convert`, which writes files again in another wire format, or for an older torch."""

from __future__ import annotations

import argparse
from typing import Any

from graphwire.cli.files import (
    OK,
    STDIN,
    Destination,
    Input,
    add_dry_run,
    add_files,
    add_json,
    add_weight_source,
    destinations,
    for_each_file,
    inputs_of,
    open_options,
)
from graphwire.cli.terminal import Output, size_text

__all__ = ["add_convert", "place_of"]


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write files again in another wire format, or for an older torch, with the same weights. Several files, or a folder, go"
        " into the folder DST."
    )
    add_files(parser)
    add_json(parser, "print a JSON object for each file, on a line of its own")
    parser.add_argument(
        "target",
        metavar="DST",
        help="the file to write, replaced if it exists; a folder for several; or - for standard output",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="the wire format, such as json or msgpack; by default that of the file, and json with --target",
    )
    parser.add_argument(
        "--target",
        dest="reader",
        metavar="RELEASE",
        help="write for torch (with json): torch for the installed release, or a release such as torch-2.6",
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
        "--weights",
        metavar="PLACE",
        help="where the weights go: in-file, none, a new file such as model.safetensors, blobs:FOLDER, or checkpoint:PATH for"
        " one that exists; by default they stay where they are",
    )
    add_dry_run(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_convert)


def _convert(arguments: argparse.Namespace, output: Output) -> int:
    inputs = inputs_of(arguments.files)
    pairs = destinations(inputs, arguments.files, arguments.target)
    places = dict(pairs)

    def task(each: Input) -> int:
        return _convert_file(each, places[each], arguments, output)

    codes = for_each_file(
        [each for each, _ in pairs], output, task, doing="Converting", as_json=arguments.json
    )
    return max(codes, default=OK)


def _convert_file(each: Input, place: Destination, arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire

    reports: list[Any] = []
    if not arguments.dry_run:
        place.make_folder()
    graphwire.convert(
        each.source,
        place.file,
        format=arguments.format,
        target=arguments.reader,
        ranges=arguments.ranges,
        compress=not arguments.stored,
        weights=place_of(arguments.weights),
        dry_run=arguments.dry_run,
        report=reports.append,
        **open_options(arguments),
    )
    if arguments.json and place.name != STDIN:  # else standard output has the file
        nbytes = place.nbytes if place.is_path and not arguments.dry_run else None
        tree = {"file": each.name, "output": place.name, "size": nbytes}
        output.json(tree | msgspec.to_builtins(reports[0]), indent=None)
        return OK
    say = output.remark if place.name == STDIN else output.line
    for narrowed in reports[0].narrowed:
        begins = f"begins at {narrowed.written}, in the program at {narrowed.given}"
        say(f"{place.name}:{narrowed.method}: {narrowed.symbol} {begins}")
    for left in reports[0].not_for_torch:
        say(f"{place.name}:{left.method}: torch does not find the {left.what} ({left.reason})")
    format = arguments.format or ("json" if arguments.reader else "")
    size = "not written" if arguments.dry_run else size_text(place.nbytes) if place.is_path else ""
    if facts := ", ".join(filter(None, (format, size))):
        say(f"{place.name}: {facts}")
    return OK


def place_of(text: str | None) -> Any:
    """Return the place that `--weights` names: `in-file`, `none`, `blobs:FOLDER`, `checkpoint:PATH` or a path."""
    import graphwire

    match (text or "").partition(":"):
        case ("", _, _):
            return graphwire.AS_SAVED
        case ("in-file", "", _):
            return graphwire.IN_FILE
        case ("none", "", _):
            return None
        case ("blobs", ":", folder):
            return graphwire.Blobs(folder)
        case ("checkpoint", ":", path):
            return graphwire.Checkpoint(path)
    return text
