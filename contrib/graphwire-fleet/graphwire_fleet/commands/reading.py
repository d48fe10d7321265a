"""The actions that read files into a catalogue: `inspect`, `verify` and `targets`."""

from __future__ import annotations

import argparse

from graphwire.cli.files import FAILED, OK, open_options
from graphwire.cli.terminal import Output
from graphwire_fleet.commands.options import add_engine, add_patterns, engine_options, listed

__all__ = ["add_inspect", "add_targets", "add_verify"]


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inspect`."""
    _add(parser, "inspect")


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verify`."""
    _add(parser, "verify")


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `targets`."""
    _add(parser, "targets")


def _add(parser: argparse.ArgumentParser, what: str) -> None:
    add_patterns(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the folder of the catalogue; what it has is kept",
    )
    add_engine(parser)
    parser.set_defaults(run=_run, what=what)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    # `open_catalogue(folder, table)` gives a context with a `Consumer`; `work_named(name, options)` a `Work`.
    from graphwire_fleet.catalogue import open_catalogue, work_named
    from graphwire_fleet.engine import run

    work, files = work_named(arguments.what, open_options(arguments)), listed(arguments, output)
    with open_catalogue(arguments.output, arguments.what) as catalogue:
        summary = run(files, work, catalogue, output, doing=arguments.what, **engine_options(arguments))
    return max(summary.report(output), FAILED if files.problems else OK)
