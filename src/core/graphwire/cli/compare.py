"""The command `diff`, which compares two files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphwire.cli.files import FOUND, OK, Input, inputs_of
from graphwire.cli.options import add_json, add_limits, add_method, add_weight_source, open_options
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError

if TYPE_CHECKING:
    from graphwire.api.archive import Archive


def add_diff(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "List the differences of the programs in two files: nodes by module, inputs, outputs, ranges, versions, weights by"
        " the checksums that both files list. The exit code is 0 if they are the same, 1 if they differ, and 2 if a file"
        " cannot be read."
    )
    parser.add_argument("a", metavar="A", help="a file, or - for standard input")
    parser.add_argument("b", metavar="B", help="another file")
    add_limits(parser)
    shown = parser.add_mutually_exclusive_group()
    add_method(parser)
    parser.add_argument(
        "--weights",
        action="store_true",
        help="also read the elements of weights, and print how much each one changed",
    )
    add_json(shown)
    shown.add_argument(
        "--format",
        choices=("text", "markdown"),
        default="text",
        help="markdown: for a comment on a pull request",
    )
    parser.add_argument(
        "--all", action="store_true", help="list every node that differs, however many there are"
    )
    add_weight_source(parser)
    parser.set_defaults(run=_diff)


def _diff(arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire
    from graphwire.analysis.diff.text import diff_lines, markdown_lines, program_lines

    options = open_options(arguments)
    one, other = (_input_of(word) for word in (arguments.a, arguments.b))
    with (
        output.progress("Comparing"),
        graphwire.open(one.source, **options) as a,
        graphwire.open(other.source, **options) as b,
    ):
        names_a, names_b = (_methods(archive, arguments.method) for archive in (a, b))
        if len(names_a) == len(names_b) == 1:  # Each file has one program; names may differ.
            found = {names_a[0]: graphwire.diff(a, b, method=arguments.method, weights=arguments.weights)}
            names_b = names_a
        else:
            common = [name for name in names_a if name in names_b]
            found = {name: graphwire.diff(a, b, method=name, weights=arguments.weights) for name in common}
    removed = [name for name in names_a if name not in names_b]
    added = [name for name in names_b if name not in names_a]
    same = not removed and not added and all(each.same for each in found.values())
    if arguments.json:
        tree = {
            "a": one.name,
            "b": other.name,
            "same": same,
            "removed": removed,
            "added": added,
            "programs": {name: msgspec.to_builtins(each) for name, each in found.items()},
        }
        output.json(tree, problem=not same)
        return OK if same else FOUND
    is_markdown = arguments.format == "markdown"
    names = (one.name, other.name)
    blocks = [list(program_lines(removed, added, a=names[0], b=names[1], markdown=is_markdown))]
    for name, each in found.items():
        shown_a, shown_b = (
            f"{file}:{name}" if len(found) > 1 or removed or added else file for file in names
        )
        if not (each.same and output.quiet):
            lines_of = markdown_lines if is_markdown else diff_lines
            blocks.append(list(lines_of(each, a=shown_a, b=shown_b, limit=None if arguments.all else 200)))
    if not found:
        remedy = "--method NAME compares that one with the only program of the other file"
        blocks.append([f"Compared: nothing, since no program is in both; {remedy}"])
    for index, lines in enumerate(filter(None, blocks)):
        for line in ["", *lines] if index and (is_markdown or len(lines) > 1) else lines:
            output.line(line, "" if is_markdown else _style(line), problem=not same)
    return OK if same else FOUND


_STYLES = {"+": "added", "-": "removed", "~": "changed", ">": "changed"}


def _style(line: str) -> str:
    sign = line.lstrip()[:1]
    return _STYLES.get(sign, "" if line.startswith(" ") or not line else "title")


def _input_of(word: str) -> Input:
    (found, *more) = inputs_of([word])
    if found.error is not None:
        raise found.error
    if more:
        raise ArchiveError("diff compares two files, and this names several", remedy="Name one").of(word)
    return found


def _methods(archive: Archive, method: str | None) -> list[str]:
    """Return the names of the requested programs. The only program of a file needs no name."""
    return list(archive.methods) if method is None or len(archive.methods) == 1 else [archive.method(method)]
