"""Where a command writes: a file, a folder that gets a file for each one read, or standard output."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphwire.cli.files.inputs import STDIN, Input, inputs_of, is_address
from graphwire.cli.files.read_files import ReadFiles
from graphwire.errors import ArchiveError, GraphwireError

__all__ = ["Destination", "add_dry_run", "add_output", "add_rewriting", "destination_of", "rewritten"]


class Destination(NamedTuple):
    """Where the file of one input is written."""

    name: str
    file: Any
    """A path, an address, or a binary stream."""

    @property
    def is_path(self) -> bool:
        """Whether it is a local file."""
        return isinstance(self.file, Path)

    @property
    def nbytes(self) -> int:
        """The size of the written file; 0 for a stream."""
        return self.file.stat().st_size if self.is_path else 0

    def write(self, data: bytes, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the whole file at once; a path is replaced atomically.

        Args:
            storage_options: those of a URL.
        """
        from graphwire.wire.archive import atomic_write, write_all
        from graphwire.wire.remote import located

        if self.name == STDIN:
            write_all(self.file, data)
            return
        replacement = atomic_write(located(self.file, storage_options))
        with replacement as stream, replacement:
            write_all(stream, data)

    def make_folder(self) -> None:
        """Create the folder of the file, if it is missing."""
        if self.is_path:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(errno.ENOTDIR, "this is not a folder", error.filename) from None


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the option `--dry-run`."""
    parser.add_argument(
        "--dry-run", action="store_true", help="check and show what would be written, and write nothing"
    )


def add_output(
    parser: argparse._ActionsContainer, help: str, *, metavar: str = "FILE", default: str | None = None
) -> None:
    """Add the option `-o`, `--output`: where a command writes. `destination_of` takes its value."""
    parser.add_argument("-o", "--output", metavar=metavar, default=default, help=help)


def destination_of(target: str, read: ReadFiles) -> Destination:
    """Return where a command writes a file. Every output of every command comes from here.

    Args:
        target: a path or URL, or `-` for standard output.
        read: the files that it must not replace.

    Raises:
        ArchiveError: it is one of them.
    """
    if target == STDIN:
        return Destination(STDIN, sys.stdout.buffer)
    read.check(target)
    if not is_address(target):
        return Destination(target, Path(target))
    from graphwire.wire.remote import shown_url

    return Destination(shown_url(target), target)


def destinations(inputs: Sequence[Input], arguments: argparse.Namespace) -> dict[Input, Destination | None]:
    """Return where the file of each input is written.

    A single file goes to `--output`, or into it if it is a folder. Several go into that folder, each under its own path below the
    folder that the command line names. An input whose path another one has, or that would be replaced, gets an error.
    """
    words, target = arguments.files, arguments.output
    several = len(inputs) != 1 or Path(words[0]).is_dir()
    if several and target == STDIN:
        raise ArchiveError(
            "several files cannot go to standard output", remedy="Name a folder to write them to"
        )
    if several and Path(target).is_file():
        raise ArchiveError("this is a file, and several files are to be written", remedy="Name a folder").of(
            target
        )
    read, found = ReadFiles(inputs, arguments), dict[str, str]()
    pairs: dict[Input, Destination | None] = {}
    for each in inputs:
        name = target
        if is_address(target):
            name = f"{target.rstrip('/')}/{each.below.as_posix()}" if several else target
        elif several or (target != STDIN and Path(target).is_dir()):
            name = os.path.join(target, each.below)  # noqa: PTH118 "./a" stays as it is in messages
        real = name if is_address(name) else os.path.realpath(name)
        try:
            if each.error is None and real in found:
                problem = f"{found[real]} is written to {name} already"
                raise ArchiveError(problem, remedy="Write it to another folder").of(each.name)
            pairs[each] = destination_of(name, read)
        except GraphwireError as error:
            pairs[replace(each, error=each.error or error)] = None
        found.setdefault(real, each.name)
    return pairs


def add_rewriting(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that writes files again: `--in-place` and `--output`."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="replace the files")
    add_output(
        where,
        "the file to write, replaced if it exists; a folder for several; or - for standard output",
        metavar="DST",
    )


def rewritten(arguments: argparse.Namespace) -> dict[Input, Destination | None]:
    """Return the files of a command with `add_rewriting`, each with where it is written; None with `--dry-run` and no place.

    Raises:
        ArchiveError: the arguments name no place.
    """
    inputs = inputs_of(arguments.files)
    if arguments.output is not None:
        return destinations(inputs, arguments)
    if arguments.in_place:
        return {each: _itself(each) for each in inputs}
    if arguments.dry_run:
        return dict.fromkeys(inputs)
    raise ArchiveError(
        "nothing is overwritten unless you ask for it",
        remedy="Pass --in-place, --output DST, or --dry-run to see what would change",
    )


def _itself(each: Input) -> Destination:
    if each.name == STDIN:
        raise ArchiveError("standard input cannot be replaced", remedy="Pass --output").of(STDIN)
    return Destination(each.name, each.source)
