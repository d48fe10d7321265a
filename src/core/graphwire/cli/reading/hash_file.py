"""The command `hash`, which prints content hashes, and compares files with a list of them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from graphwire.cli.files import (
    FAILED,
    FOUND,
    OK,
    STDIN,
    Input,
    add_files,
    add_json,
    add_method,
    add_weight_source,
    for_each_file,
    input_named,
    inputs_of,
    open_options,
)
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError
from graphwire.lazy import pattern

__all__ = ["add_hash"]

_LINE = pattern(r"(gw\d+w?:[0-9a-f]{64})  (.+)")


def add_hash(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print the content hash of each program. It is equal for two exports of one model, in any file, with any release of"
        " graphwire. With --check, read such lines, and compare: the exit code is 1 if a hash differs."
    )
    add_files(parser, count="*")
    add_json(parser, "print a JSON object for each file, on a line of its own")
    add_method(parser)
    parser.add_argument("--weights", action="store_true", help="include the elements of weights")
    parser.add_argument(
        "--check", metavar="LIST", help="compare with the lines of this file, or of standard input for -"
    )
    add_weight_source(parser)
    parser.set_defaults(run=_hash)


def _hash(arguments: argparse.Namespace, output: Output) -> int:
    if (arguments.check is None) == (not arguments.files):
        problem = (
            "the files and --check exclude each other" if arguments.files else "there are no files to hash"
        )
        raise ArchiveError(problem, remedy="Name files, or a list with --check")
    if arguments.check is not None:
        return _check(arguments, output)

    def task(each: Input) -> int:
        found = _hashes(each, arguments, weights=arguments.weights, method=arguments.method)
        if arguments.json:
            output.json({"file": each.name, "hashes": found}, indent=None)
        for name, text in found.items() if not arguments.json else ():
            output.line(f"{text}  {each.name}{f':{name}' if len(found) > 1 else ''}")
        return OK

    inputs = inputs_of(arguments.files)
    return max(for_each_file(inputs, output, task, doing="Hashing", as_json=arguments.json), default=OK)


def _hashes(
    each: Input, arguments: argparse.Namespace, *, weights: bool, method: str | None
) -> dict[str, str]:
    import graphwire

    with graphwire.open(each.source, **open_options(arguments)) as archive:
        names = archive.methods if method is None else (archive.method(method),)
        return {name: graphwire.content_hash(archive, method=name, weights=weights) for name in names}


class _Listed(NamedTuple):
    """A line of a list of hashes."""

    expected: str
    file: str
    method: str | None
    """The program, if the line names one behind a colon."""


def _check(arguments: argparse.Namespace, output: Output) -> int:
    codes: Counter[int] = Counter()
    for listed in _listed(arguments.check):

        def task(each: Input, listed: _Listed = listed) -> int:
            weights = listed.expected.startswith("gw1w")
            found = _hashes(each, arguments, weights=weights, method=listed.method)
            same = [*found.values()] == [listed.expected]
            name = f"{each.name}:{listed.method}" if listed.method else each.name
            if arguments.json:
                tree = {"file": each.name, "hashes": found, "expected": listed.expected, "same": same}
                output.json(tree, problem=not same, indent=None)
            elif same:
                output.line(f"{name}: same", "good")
            else:
                output.line(f"{name}: DIFFERENT", "bad", problem=True)
            return OK if same else FOUND

        each = input_named(listed.file)
        codes += for_each_file([each], output, task, doing="Hashing", as_json=arguments.json)
    if not arguments.json:
        parts = [(codes[OK], "the same"), (codes[FOUND], "different"), (codes[FAILED], "not readable")]
        counts = ", ".join(f"{count:,} {what}" for count, what in parts if count)
        output.line(f"{arguments.check}: {counts}", problem=max(codes) > OK)
    return max(codes)


def _listed(list_file: str) -> list[_Listed]:
    """Return the lines of a list.

    Raises:
        ArchiveError: a line is not a hash and a name, or there are none.
    """
    text = sys.stdin.read() if list_file == STDIN else Path(list_file).read_text("utf-8")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ArchiveError(f"line {number} is not a content hash, two spaces and a file").of(list_file)
        path, colon, method = match[2].rpartition(":")
        if colon and not method.startswith("//") and not Path(match[2]).exists():
            found.append(_Listed(match[1], path, method))
        else:
            found.append(_Listed(match[1], match[2], None))
    if not found:
        raise ArchiveError("the list has no lines").of(list_file)
    return found
