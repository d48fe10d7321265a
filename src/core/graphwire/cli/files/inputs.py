"""The files that words of a command line name: files, folders, patterns, and `-` for standard input."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from graphwire.errors import ArchiveError

if TYPE_CHECKING:
    from graphwire.wire.archive import Readable

__all__ = ["STDIN", "SUFFIX", "Input", "input_named", "inputs_of", "is_address"]

STDIN = "-"
SUFFIX = ".pt2"
"""The suffix of the files that a folder stands for."""


class Input(msgspec.Struct, frozen=True, eq=False):
    """A file to read, or the reason why a word of the command line names none. Two that name one file are not equal."""

    name: str
    """The name in messages."""
    source: Readable
    """What the functions of `graphwire` take."""
    below: PurePath
    """Its path below the folder that the command line names; its file name if the command line names the file."""
    error: Exception | None = None

    @property
    def nbytes(self) -> int:
        """The size of the file; 0 if unknown."""
        try:
            return self.source.stat().st_size if isinstance(self.source, Path) else 0
        except (OSError, ValueError):  # a null character in the name
            return 0


def inputs_of(words: Sequence[str]) -> list[Input]:
    """Return the files that words name, in their order, those of a folder or pattern by name.

    A folder stands for all files below it that are named `*.pt2`. A word that names no file, and has `*`, `?` or `[`, is a
    pattern, in which `**` matches any number of folders. `-` is standard input.
    """
    return [each for word in words for each in _inputs_of_word(word)]


def input_named(name: str) -> Input:
    """Return the file of a name that is neither a folder nor a pattern: a path or a URL."""
    if not is_address(name):
        return Input(name, Path(name), PurePath(PurePath(name).name))
    from graphwire.wire.remote import shown_url

    return Input(shown_url(name), name, PurePath(name.partition("?")[0].rpartition("/")[2]))


def is_address(word: str) -> bool:
    """Whether a word is the address of a file elsewhere, such as `s3://bucket/model.pt2`, and not a path."""
    return "://" in word


def _inputs_of_word(word: str) -> Iterator[Input]:
    path = Path(word)
    if word == STDIN:
        yield Input(STDIN, sys.stdin.buffer, PurePath("stdin.pt2"))
    elif is_address(word):
        yield input_named(word)
    elif path.is_dir():
        yield from _files_below(path)
    elif glob.has_magic(word) and not os.path.lexists(word):
        found = [Path(each) for each in sorted(glob.glob(word, recursive=True))]  # noqa: PTH207 a pattern may be absolute
        files = [each for each in found if each.is_file()]
        yield from (Input(str(each), each, PurePath(each.name)) for each in files)
        if not files:
            yield _none(word, "no file matches this pattern", "Quote it if the shell must not change it")
    else:
        yield input_named(word)


def _files_below(folder: Path) -> Iterator[Input]:
    found = False
    try:
        for above, folders, names in os.walk(folder, onerror=_raise):
            folders.sort()
            for name in sorted(names):
                file = Path(above, name)
                if file.suffix.lower() == SUFFIX:
                    found = True
                    yield Input(str(file), file, file.relative_to(folder))
    except OSError as error:
        yield Input(str(folder), folder, PurePath(), error)
        return
    if not found:
        remedy = f"Name files, or give a pattern such as '{folder}/*'"
        yield _none(str(folder), f"no file below this folder is named *{SUFFIX}", remedy)


def _none(word: str, problem: str, remedy: str) -> Input:
    return Input(word, Path(word), PurePath(), ArchiveError(problem, remedy=remedy).of(word))


def _raise(error: OSError) -> None:
    raise error
