"""The command `view`, which shows a program, or the difference of two, in the browser."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphwire.cli.files import OK, inputs_of
from graphwire.cli.options import add_limits, add_method, add_weight_source, open_options
from graphwire.cli.outputs import ReadFiles, add_output, destination_of, tell_written
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError


def add_view(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show a program, or the difference of two, in the browser. The page is one file, which loads nothing from anywhere and"
        " contains no elements of weights. Nothing in FILE is executed."
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="one file, or two to compare; - for standard input"
    )
    add_output(
        parser,
        "write the page to this file, such as page.html, replaced if it exists; or - for standard output",
        metavar="PAGE",
    )
    parser.add_argument(
        "--overlay",
        metavar="NUMBERS",
        dest="overlays",
        type=Path,
        action="append",
        default=[],
        help="colour nodes and modules by the numbers in a CSV file (node,NAME,…), a JSON file or a trace; may be repeated",
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="without --output: write the page to a temporary file, and do not open it",
    )
    parser.add_argument(
        "--open", action="store_true", help="with --output: open the page in the browser, too"
    )
    parser.add_argument(
        "--torch",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="import torch, for the schemas of operators",
    )
    parser.add_argument(
        "--targets", action="store_true", help="list the torch releases that can read the programs"
    )
    parser.add_argument(
        "--weights",
        action="store_true",
        help="read the elements of weights: histograms, and how much they changed",
    )
    add_limits(parser)
    add_method(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_view)


def _view(arguments: argparse.Namespace, output: Output) -> int:
    import graphwire
    from graphwire.viewer import read_overlays

    inputs = inputs_of(arguments.files)
    for each in inputs:
        if each.error is not None:
            raise each.error
    if len(inputs) > 2:
        raise ArchiveError(
            f"a page shows one file or the difference of two, not {len(inputs)}", remedy="Name one or two"
        )
    place = (
        None if arguments.output is None else destination_of(arguments.output, ReadFiles(inputs, arguments))
    )
    overlay: dict[str, dict[str, Any]] = {}
    for path in arguments.overlays:
        overlay |= read_overlays(path)
    asked = "--weights, which reads elements" if arguments.weights else "--torch" if arguments.torch else ""
    is_next = asked and "torch" not in sys.modules and find_spec("torch") is not None
    with output.progress(
        f"Importing torch for {asked}, and writing the page" if is_next else "Writing the page"
    ):
        made = graphwire.view(
            *(each.source for each in inputs),
            overlay=overlay,
            method=arguments.method,
            weights=arguments.weights,
            targets=arguments.targets,
            use_torch=arguments.torch,
            **open_options(arguments),
        )
    if place is not None:
        page = made.html.encode("utf-8")
        place.write(page, arguments.storage_options)
        tell_written(output, place)
    if place is None or arguments.open:
        import webbrowser

        is_here = place is not None and Path(arguments.output).is_file()
        path = Path(arguments.output).absolute() if is_here else made.show(browser=False)
        if arguments.no_browser:
            output.line(f"{path}: written")
        elif webbrowser.open(path.as_uri()):
            output.line(f"{path}: opened in the browser")
        else:
            output.line(f"{path}: written. No browser was found: open this file in one")
    return OK
