"""Where a command writes: a file, a folder that gets a file for each one read, or standard output."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphwire.cli.files.inputs import STDIN, Input, inputs_of, is_address
from graphwire.errors import ArchiveError

__all__ = ["Destination", "add_dry_run", "add_rewriting", "destinations", "rewritten"]


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


def destinations(
    inputs: Sequence[Input], words: Sequence[str], target: str
) -> list[tuple[Input, Destination]]:
    """Return where the file of each input is written.

    A single file goes to `target`, or into it if it is a folder. Several go into the folder `target`, each under its own path
    below the folder that `words` name. An input whose path another one has gets an error.

    Args:
        inputs: the files to read.
        words: the words of the command line that name them.
        target: a file, a folder, or `-` for standard output.
    """
    several = len(inputs) != 1 or Path(words[0]).is_dir()
    if target == STDIN:
        if several:
            raise ArchiveError(
                "several files cannot go to standard output", remedy="Name a folder to write them to"
            )
        return [(inputs[0], Destination(STDIN, sys.stdout.buffer))]
    if is_address(target):
        from graphwire.wire.remote import shown_url

        return [
            (each, Destination(shown_url(name), name))
            for each in inputs
            for name in [f"{target.rstrip('/')}/{each.below.as_posix()}" if several else target]
        ]
    if several and Path(target).is_file():
        raise ArchiveError("this is a file, and several files are to be written", remedy="Name a folder").of(
            target
        )
    found: dict[Path, str] = {}
    pairs = []
    for given in inputs:
        path = Path(target)
        if several or path.is_dir():
            path /= given.below
        each = given
        if given.error is None and path in found:
            problem = f"{found[path]} is written to {path} already"
            each = replace(
                given, error=ArchiveError(problem, remedy="Write it to another folder").of(given.name)
            )
        found.setdefault(path, given.name)
        pairs.append((each, Destination(str(path), path)))
    return pairs


def add_rewriting(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that writes files again: `--in-place`, `--output` and `--dry-run`."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="replace the files")
    where.add_argument(
        "--output",
        metavar="OUT",
        help="the file to write; a folder for several; or - for standard output",
    )


def rewritten(arguments: argparse.Namespace) -> dict[Input, Destination | None]:
    """Return the files of a command with `add_rewriting`, each with where it is written; None with `--dry-run`.

    Raises:
        ArchiveError: the arguments name no place.
    """
    inputs = inputs_of(arguments.files)
    if arguments.dry_run:
        return dict.fromkeys(inputs)
    if arguments.output:
        return dict(destinations(inputs, arguments.files, arguments.output))
    if not arguments.in_place:
        raise ArchiveError(
            "nothing is overwritten unless you ask for it",
            remedy="Pass --in-place, --output OUT, or --dry-run to see what would change",
        )
    return {each: _itself(each) for each in inputs}


def _itself(each: Input) -> Destination:
    if each.name == STDIN:
        raise ArchiveError("standard input cannot be replaced", remedy="Pass --output").of(STDIN)
    return Destination(each.name, each.source)
