"""The command `strip`, which writes files without what programs do not need to run."""

from __future__ import annotations

import argparse
from functools import partial

from graphwire.api.archive import open
from graphwire.api.files import convert
from graphwire.cli import files
from graphwire.cli.options import add_files, open_options
from graphwire.cli.terminal import Output


def add_strip(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from graphwire.analysis.load_report import STRIPPABLE

    parser.description = (
        "Write files without stack traces (source paths and lines), provenance, example inputs (they may be somebody's data) and"
        " extra files. Programs compute the same, and their content hashes stay. A file that has nothing of it is left as it is."
    )
    add_files(parser)
    files.add_rewriting(parser)
    parser.add_argument(
        "--only",
        metavar="KIND",
        choices=STRIPPABLE,
        action="append",
        help=f"drop only this kind, one of {', '.join(STRIPPABLE)}; may be repeated",
    )
    files.add_dry_run(parser)
    parser.set_defaults(run=partial(files.rewrite_files, _strip_file, "Writing"))


def _strip_file(
    each: files.Input, place: files.Destination | None, arguments: argparse.Namespace, output: Output
) -> int:
    if arguments.dry_run:
        place = None
    source = each.source.read() if each.name == files.STDIN else each.source  # type: ignore[union-attr] # a stream
    options = open_options(arguments)
    with open(source, **options) as archive:
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
            convert(source, place.file, strip=arguments.only or True, **options)
    if arguments.json and (place is None or not place.is_stream):  # else standard output has the file
        written = {"output": place and place.name, "size": place.nbytes if place and place.is_path else None}
        contains = [disclosure._asdict() for disclosure in found]
        output.json({"file": each.name, **written, "contains": contains}, indent=None)
        return files.OK
    say(f"{each.name}: {'' if found else 'nothing to do'}".rstrip(": "))
    for line in dict.fromkeys(disclosure.what for disclosure in found):
        say(f"  without {line}" if place is not None else f"  has {line}")
    if place is not None:
        files.tell_written(output, place)
    return files.OK
