"""The actions that read files into a catalogue: `inspect`, `verify` and `targets`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from graphwire.cli.files import FAILED, FOUND, OK
from graphwire.cli.options import open_options
from graphwire.cli.terminal import Output
from graphwire_fleet.commands.options import add_engine, add_patterns, engine_options, listed


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inspect`."""
    _add(parser, "inspect", "nodes", "digests")
    parser.add_argument(
        "--no-nodes", dest="nodes", action="store_false", help="write no row for each node, only their counts"
    )
    parser.add_argument(
        "--digests",
        action="store_true",
        help="read the weights too, for the digests that files do not list",
    )


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verify`."""
    _add(parser, "verify", "sha256")
    parser.add_argument("--sha256", action="store_true", help="compute the digest of each file too")


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `targets`."""
    _add(parser, "targets")


def _add(parser: argparse.ArgumentParser, what: str, *settings: str) -> None:
    add_patterns(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the folder or URL of the catalogue; what it has is kept",
    )
    add_engine(parser)
    parser.set_defaults(run=_run, what=what, settings=settings)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire_fleet.catalogue import folder_at, open_catalogue, roots_of
    from graphwire_fleet.engine import run
    from graphwire_fleet.reading import READINGS

    given = {name: getattr(arguments, name) for name in arguments.settings}
    work = READINGS[arguments.what](dict(open_options(arguments)), **given)
    files = listed(arguments, output)
    if next(files.counted(), None) is None and not folder_at(
        arguments.output, arguments.storage_options
    ).names(""):
        list(files)  # which tells why there is none; a catalogue of nothing is of no use
        return FAILED if files.problems else OK
    with open_catalogue(arguments.output, work, arguments.storage_options) as catalogue:
        summary = run(files, work, catalogue, output, doing=arguments.what, **engine_options(arguments))
        if not files.problems:  # Otherwise what was not listed may well be there.
            gone = catalogue.forget_vanished(
                roots_of(arguments.patterns), _existence(arguments.storage_options)
            )
            if gone:
                output.remark(f"{gone:,} files are gone, and left the catalogue")
        catalogue.tidy()
        unchanged = catalogue.unchanged
    for code, words in ((FAILED, "failed before"), (FOUND, "have problems")):
        if unchanged[code]:
            output.remark(f"{unchanged[code]:,} of those that are unchanged {words}")
    code = max(summary.report(output), *unchanged, OK)
    if code != OK:
        output.remark(f"to list them: graphwire fleet failures {arguments.output}")
    return max(code, FAILED if files.problems else OK)


def _existence(storage_options: Mapping[str, Any] | None) -> Callable[[str], bool]:
    """Return a function that tells whether there is a file of a name in the catalogue."""
    from graphwire.wire.archive.source import RemoteFile, located
    from graphwire_fleet.sources import has_local_file

    def exists(name: str) -> bool:
        place = located(name, storage_options)
        if isinstance(place, RemoteFile):
            try:
                place.ask("find the file", "info", place.path)
            except FileNotFoundError:
                return False
            return True
        return has_local_file(str(place))

    return exists
