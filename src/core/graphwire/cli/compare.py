"""The commands `diff` and `hash`, which compare programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwire.cli.sections import escaped, print_json, print_line
from graphwire.cli.weights import source_options

if TYPE_CHECKING:
    from graphwire.api import Archive

__all__ = ["add_commands"]

SAME, DIFFERENT = 0, 1
"""Exit codes of `diff`."""


def add_commands(
    commands: Any,
    common: argparse.ArgumentParser,
    data: argparse.ArgumentParser,
    source: argparse.ArgumentParser,
) -> None:
    """Add the commands `diff` and `hash` to a parser.

    Args:
        commands: what `add_subparsers` returned.
        common: the parent with the options of all commands.
        data: the parent with those of commands that can print JSON.
        source: the parent with those that name places of weights to read.
    """
    diff = commands.add_parser(
        "diff",
        parents=[common, data, source],
        help="list the differences of two files",
        description="List the differences of the programs in two files: nodes by module, inputs, outputs, ranges, versions,"
        " weights. The exit code is 0 if they are the same, 1 if they differ, and 2 if a file cannot be read.",
    )
    diff.add_argument("a", metavar="A", type=Path, help="a file")
    diff.add_argument("b", metavar="B", type=Path, help="another file")
    _add_options(diff)
    diff.add_argument(
        "--all", action="store_true", help="list every node that differs, however many there are"
    )
    diff.set_defaults(run=_diff)

    hashed = commands.add_parser(
        "hash",
        parents=[common, data, source],
        help="print a hash of what each program computes",
        description="Print the content hash of each program. It is equal for two exports of one model, in any file, with any"
        " release of graphwire.",
    )
    hashed.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    _add_options(hashed)
    hashed.set_defaults(run=_hash)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", metavar="NAME", help="use only this program of files with several")
    parser.add_argument("--weights", action="store_true", help="include the elements of weights")


def _diff(arguments: argparse.Namespace) -> int:
    import msgspec

    from graphwire import api
    from graphwire.analysis.diff import diff_lines
    from graphwire.cli.progress import progress

    options = source_options(arguments)
    with progress("Comparing"), api.open(arguments.a, **options) as a, api.open(arguments.b, **options) as b:
        names_a, names_b = (_methods(archive, arguments.method) for archive in (a, b))
        if len(names_a) == len(names_b) == 1:  # Each file has one program; names may differ.
            found = {names_a[0]: api.diff(a, b, method=arguments.method, weights=arguments.weights)}
            names_b = names_a
        else:
            common = [name for name in names_a if name in names_b]
            found = {name: api.diff(a, b, method=name, weights=arguments.weights) for name in common}
    removed = [name for name in names_a if name not in names_b]
    added = [name for name in names_b if name not in names_a]
    same = not removed and not added and all(each.same for each in found.values())
    if arguments.json:
        tree = {
            "same": same,
            "removed": removed,
            "added": added,
            "programs": {name: msgspec.to_builtins(each) for name, each in found.items()},
        }
        print_json(tree, sys.stdout)
        return SAME if same else DIFFERENT
    for name in [*(f"- program {name}" for name in removed), *(f"+ program {name}" for name in added)]:
        print_line(escaped(name), sys.stdout)
    for name, each in found.items():
        inside = f":{name}" if len(found) > 1 or removed or added else ""
        lines = diff_lines(
            each, a=f"{arguments.a}{inside}", b=f"{arguments.b}{inside}", limit=None if arguments.all else 200
        )
        for line in lines:
            print_line(escaped(line), sys.stdout)
    return SAME if same else DIFFERENT


def _hash(arguments: argparse.Namespace) -> int:
    from graphwire import api
    from graphwire.cli.progress import progress

    with progress("Hashing"), api.open(arguments.file, **source_options(arguments)) as archive:
        found = {
            name: api.content_hash(archive, method=name, weights=arguments.weights)
            for name in _methods(archive, arguments.method)
        }
    if arguments.json:
        print_json(found, sys.stdout)
        return SAME
    for name, each in found.items():
        inside = f":{name}" if len(found) > 1 else ""
        print_line(f"{each}  {escaped(f'{arguments.file}{inside}')}", sys.stdout)
    return SAME


def _methods(archive: Archive, method: str | None) -> list[str]:
    """Return the names of the requested programs."""
    return list(archive.methods) if method is None else [archive.method(method)]
