"""The command `hash`, which prints content hashes, and compares files with a list of them."""

from __future__ import annotations

import argparse
import re
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
    for_each_file,
    input_named,
    inputs_of,
    is_address,
    regular,
)
from graphwire.cli.options import add_files, add_method, add_weight_source, open_options
from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError, escaped

_LINE = r"(\\?)(gw\d+w?:[0-9a-f]{64})  (.+)"
_ESCAPE = r"\\(?:([\\nrt])|x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))"
_CONTROLS = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def add_hash(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print the content hash of each program. It is equal for two exports of one model, in any file, with any release of"
        " graphwire. With --check, read such lines, and compare: the exit code is 1 if a hash differs."
    )
    add_files(parser, count="*")
    add_method(parser)
    parser.add_argument("--weights", action="store_true", help="include the elements of weights")
    parser.add_argument(
        "--check",
        metavar="LIST",
        action="append",
        help="compare with the lines of this file, or of standard input for -; any number of times",
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
        return max([_check(each, arguments, output) for each in arguments.check])

    def task(each: Input) -> int:
        found = _hashes(each, arguments, weights=arguments.weights, method=arguments.method)
        if arguments.json:
            output.json({"file": each.name, "hashes": found.hashes}, indent=None)
        for name, text in found.hashes.items() if not arguments.json else ():
            output.line(_line(text, each.name, name if found.several else ""))
        return OK

    inputs = inputs_of(arguments.files)
    return max(for_each_file(inputs, output, task, doing="Hashing", as_json=arguments.json), default=OK)


def _line(text: str, file: str, program: str) -> str:
    """Return the line of a hash. As with `sha256sum`, it begins with a backslash if a name has escapes.

    A colon divides a file from one of its programs. One inside a name is an escape, so that no two names have the same line.
    """
    names = [file, program] if program else [file]
    if not any(":" in each or escaped(each) != each for each in names):
        return f"{text}  {':'.join(names)}"
    shown = (escaped(each.replace("\\", "\\\\")).replace(":", r"\x3a") for each in names)
    return f"\\{text}  {':'.join(shown)}"


def _unescaped(name: str) -> str:
    """Return the name of a line that begins with a backslash."""

    def character(match: re.Match[str]) -> str:
        control, *digits = match.groups()
        return _CONTROLS[control] if control else chr(int(next(filter(None, digits)), 16))

    return re.sub(_ESCAPE, character, name)


class _Hashes(NamedTuple):
    """The hashes of a file."""

    hashes: dict[str, str]
    """By the name of the program."""
    several: bool
    """Whether the file has several programs, also if one was chosen."""


def _hashes(each: Input, arguments: argparse.Namespace, *, weights: bool, method: str | None) -> _Hashes:
    import graphwire

    with graphwire.open(each.source, **open_options(arguments)) as archive:
        names = archive.methods if method is None else (archive.method(method),)
        hashes = {name: graphwire.content_hash(archive, method=name, weights=weights) for name in names}
        return _Hashes(hashes, len(archive.methods) > 1)


class _Listed(NamedTuple):
    """A line of a list of hashes."""

    expected: str
    file: str
    method: str | None
    """The program, if the line names one behind a colon."""


def _check(list_file: str, arguments: argparse.Namespace, output: Output) -> int:
    codes: Counter[int] = Counter()
    for listed in _listed(list_file):

        def task(each: Input, listed: _Listed = listed) -> int:
            weights = listed.expected.startswith("gw1w")
            found = _hashes(each, arguments, weights=weights, method=listed.method).hashes
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

        each = regular(input_named(listed.file))
        codes += for_each_file([each], output, task, doing="Hashing", as_json=arguments.json)
    if not arguments.json:
        parts = [(codes[OK], "the same"), (codes[FOUND], "different"), (codes[FAILED], "not readable")]
        counts = ", ".join(f"{count:,} {what}" for count, what in parts if count)
        output.line(f"{list_file}: {counts}", problem=max(codes) > OK)
    return max(codes)


def _listed(list_file: str) -> list[_Listed]:
    """Return the lines of a list.

    Raises:
        ArchiveError: a line is not a hash and a name, or there are none.
    """
    from graphwire.wire.archive.source import read_named

    data = sys.stdin.buffer.read() if list_file == STDIN else read_named(list_file)
    found = []
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        match = re.fullmatch(_LINE, line.removesuffix("\r"))
        if match is None:
            problem = f"line {number} is not a content hash, two spaces and a file"
            raise ArchiveError(problem, remedy="Make the list with `graphwire hash FILE… > LIST`").of(
                list_file
            )
        path, colon, method = match[3].rpartition(":")
        if match[1]:
            path, method = _unescaped(path), _unescaped(method)
        elif method.startswith("//") or not (is_address(path) or Path(path).exists()):
            path, colon, method = "", "", match[3]
        found.append(_Listed(match[2], path, method) if colon else _Listed(match[2], method, None))
    if not found:
        raise ArchiveError("the list has no lines", remedy="Make it with `graphwire hash FILE… > LIST`").of(
            list_file
        )
    return found
