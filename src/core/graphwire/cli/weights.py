"""The command `weights`, and how the other commands name places of weights."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from graphwire.cli.sections import Section, escaped, print_json, print_line, print_sections, size_text


def add_weights(
    commands: Any,
    common: argparse.ArgumentParser,
    data: argparse.ArgumentParser,
    source: argparse.ArgumentParser,
) -> None:
    """Add the command `weights`.

    Args:
        commands: what `add_subparsers` returned.
        common: the parent with the options of all commands.
        data: the parent with those of commands that can print JSON.
        source: the parent with those that name places of weights to read.
    """
    weights = commands.add_parser(
        "weights",
        parents=[common, data, source],
        help="list the weights of a program and where they are",
        description="List the weights of a program: name, element type, shape, size, and where the elements are.",
    )
    weights.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    weights.add_argument("--method", metavar="NAME", help="the program of a file with several")
    weights.add_argument(
        "--export",
        metavar="NEW",
        type=Path,
        help="write the weights to a new file, such as model.safetensors",
    )
    weights.set_defaults(run=_weights)


def weight_source() -> argparse.ArgumentParser:
    """Return the parent of commands that read weights: where they are."""
    source = argparse.ArgumentParser(add_help=False)
    source.add_argument(
        "--weights-from",
        metavar="PATH",
        help="the file or folder of the weights; by default where FILE states",
    )
    source.add_argument(
        "--rank",
        metavar="N",
        type=int,
        help="the rank whose weights are read, of a program divided between ranks",
    )
    return source


def source_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `graphwire.open` that the arguments of `weight_source` name."""
    options: dict[str, Any] = {"rank": arguments.rank}
    return options | ({} if arguments.weights_from is None else {"weights_from": arguments.weights_from})


def place_of(text: str | None) -> Any:
    """Return the place that `--weights` names: `in-file`, `none`, `blobs:FOLDER`, `checkpoint:PATH` or a path."""
    from graphwire import api

    match (text or "").partition(":"):
        case ("", _, _):
            return api.AS_SAVED
        case ("in-file", "", _):
            return api.IN_FILE
        case ("none", "", _):
            return None
        case ("blobs", ":", folder):
            return api.Blobs(folder)
        case ("checkpoint", ":", path):
            return api.Checkpoint(path)
    return text


def _weights(arguments: argparse.Namespace) -> int:
    import msgspec

    from graphwire import api
    from graphwire.cli.progress import progress

    options = source_options(arguments)
    if arguments.export is None:
        found = api.weights(arguments.file, method=arguments.method, **options)
    else:
        with progress("Writing"):
            found = api.weights(arguments.file, method=arguments.method, export=arguments.export, **options)
    if arguments.json:
        print_json(msgspec.to_builtins(found), sys.stdout)
        return 0
    rows = [
        (
            each.name,
            each.dtype,
            str(each.shape),
            size_text(each.nbytes),
            each.tied_to,
            each.place,
        )
        for each in found
    ]
    heads = ("name", "type", "shape", "size", "tied to", "where")
    print_sections([Section("Weights", heads, rows, frozenset({3}))], sys.stdout)
    if not found:
        print_line(f"{escaped(str(arguments.file))}: no weights", sys.stdout)
    return 0
