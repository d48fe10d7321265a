"""The commands `convert`, `upgrade` and `strip`, which write files again."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from graphwire.cli import files, outputs
from graphwire.cli.options import (
    add_files,
    add_opset,
    add_target,
    add_weight_source,
    open_options,
    place_of,
)
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError

if TYPE_CHECKING:
    from graphwire.evolve.planner import Plan

# ---------------------------------------------------------- `convert`: in another wire format, or for an older torch


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
    outputs.add_rewriting(parser)
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
    outputs.add_dry_run(parser)
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
    return outputs.rewrite_files(_convert_file, "Converting", arguments, output)


def _convert_file(
    each: files.Input, place: outputs.Destination | None, arguments: argparse.Namespace, output: Output
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
    outputs.tell_written(output, place, format, dry_run=arguments.dry_run)
    return files.OK


# ------------------------------------------------------------------- `upgrade`: with operators at other versions


def add_upgrade(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write files again with their operators at the installed versions, or at others. The exit code is 2 if that is"
        " impossible, and 1 if --dry-run finds that it is. A file with nothing to do is left as it is."
    )
    add_files(parser)
    outputs.add_rewriting(parser)
    parser.add_argument(
        "--dry-run",
        "--plan",
        action="store_true",
        help="show the steps and the nodes that each changes, and write nothing",
    )
    add_opset(parser)
    parser.add_argument(
        "--format", metavar="NAME", help="the wire format to write; by default that of the file"
    )
    parser.set_defaults(run=partial(outputs.rewrite_files, _upgrade_file, "Upgrading"))


def _upgrade_file(
    each: files.Input, place: outputs.Destination | None, arguments: argparse.Namespace, output: Output
) -> int:
    import graphwire

    wanted = dict(arguments.opset) if arguments.opset else None
    options = open_options(arguments)
    if arguments.dry_run:
        place = None
    if place is None:
        plans = graphwire.plan_upgrade(each.source, opset_version=wanted, **options)
    else:
        with place.folder_made():
            plans = graphwire.upgrade(
                each.source, place.file, format=arguments.format, opset_version=wanted, **options
            )
    impossible = any(plan.problems for plan in plans.values())
    if place is not None and place.is_stream:
        return files.OK  # Standard output has the file.
    if arguments.json:
        tree = {"file": each.name, "programs": {name: plan.to_tree() for name, plan in plans.items()}}
        output.json(tree, indent=None, problem=impossible)
    else:
        _print_plans(each.name, plans, output, problem=impossible)
        if arguments.output and place is not None:
            outputs.tell_written(output, place)
    return files.FOUND if impossible else files.OK


def _print_plans(file: str, plans: Mapping[str, Plan], output: Output, *, problem: bool) -> None:
    for name, plan in plans.items():
        output.line(f"{file}: {name}" if len(plans) > 1 else file, "title", problem=problem)
        for line in plan.lines():
            output.line(f"  {line}", problem=problem)


# ------------------------------------------------------------- `strip`: without what programs do not need to run


def add_strip(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from graphwire.analysis.load_report import STRIPPABLE

    parser.description = (
        "Write files without stack traces (source paths and lines), provenance, example inputs (they may be somebody's data) and"
        " extra files. Programs compute the same, and their content hashes stay. A file that has nothing of it is left as it is."
    )
    add_files(parser)
    outputs.add_rewriting(parser)
    parser.add_argument(
        "--only",
        metavar="KIND",
        choices=STRIPPABLE,
        action="append",
        help=f"drop only this kind, one of {', '.join(STRIPPABLE)}; may be repeated",
    )
    outputs.add_dry_run(parser)
    parser.set_defaults(run=partial(outputs.rewrite_files, _strip_file, "Writing"))


def _strip_file(
    each: files.Input, place: outputs.Destination | None, arguments: argparse.Namespace, output: Output
) -> int:
    import graphwire

    if arguments.dry_run:
        place = None
    source = each.source.read() if each.name == files.STDIN else each.source  # type: ignore[union-attr] # a stream
    options = open_options(arguments)
    with graphwire.open(source, **options) as archive:
        found = [
            disclosure
            for name in archive.methods
            for disclosure in archive.disclosures(name)
            if arguments.only is None or disclosure.kind in arguments.only
        ]
    say = output.remark if place is not None and place.is_stream else output.line
    if not found and arguments.in_place:
        place = None
    if place is not None:
        with place.folder_made():
            graphwire.convert(source, place.file, strip=arguments.only or True, **options)
    if arguments.json and (place is None or not place.is_stream):  # else standard output has the file
        written = {"output": place and place.name, "size": place.nbytes if place and place.is_path else None}
        contains = [disclosure._asdict() for disclosure in found]
        output.json({"file": each.name, **written, "contains": contains}, indent=None)
        return files.OK
    say(f"{each.name}: {'' if found else 'nothing to do'}".rstrip(": "))
    for line in dict.fromkeys(disclosure.what for disclosure in found):
        say(f"  without {line}" if place is not None else f"  has {line}")
    if place is not None:
        outputs.tell_written(output, place)
    return files.OK
