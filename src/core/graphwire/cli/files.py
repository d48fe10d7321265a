"""Which files does a command read, and how does it end if some of them fail?"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.cli.terminal import Output, failure_tree
from graphwire.errors import ArchiveError, unless_interrupted

if TYPE_CHECKING:
    from pathlib import PurePath

    from graphwire.wire.archive.source import Readable

# -------------------- the files that words of a command line name: files, folders, patterns, and `-` for standard input
# A path is a text: most commands name one file, and `pathlib` takes as long to import as its reading.


STDIN = "-"
SUFFIX = ".pt2"
"""The suffix of the files that a folder stands for."""


class Input(msgspec.Struct, frozen=True, eq=False):
    """A file to read, or the reason why a word of the command line names none. Two that name one file are not equal."""

    name: str
    """The name in messages."""
    source: Readable
    """What the functions of `graphwire` take."""
    below_text: str
    """The text of `below`."""
    error: Exception | None = None
    """Why a word names no file; None if it names one."""

    @property
    def below(self) -> PurePath:
        """Its path below the folder that the command line names; its file name if the command line names the file."""
        from pathlib import PurePath

        return PurePath(self.below_text)

    @property
    def nbytes(self) -> int:
        """The size of the file; 0 if unknown."""
        try:
            return os.stat(self.source).st_size if isinstance(self.source, (str, os.PathLike)) else 0  # noqa: PTH116
        except unless_interrupted(OSError, ValueError):  # an address, or a null character in the name
            return 0


def inputs_of(words: Sequence[str]) -> list[Input]:
    """Return the files that words name, in their order, those of a folder or pattern by name.

    A folder stands for all files below it that are named `*.pt2`. A word that names no file, and has `*`, `?` or `[`, is a
    pattern, in which `**` matches any number of folders. `-` is standard input.
    """
    return [each for word in words for each in _inputs_of_word(word)]


def input_named(name: str) -> Input:
    """Return the file of a name that is neither a folder nor a pattern: a path, a URL, or `-`, standard input."""
    if name == STDIN:
        return Input(STDIN, sys.stdin.buffer, "stdin.pt2")
    if not is_address(name):
        return Input(name, name, os.path.basename(name))  # noqa: PTH119
    from graphwire.wire.remote import shown_url

    return Input(shown_url(name), name, name.partition("?")[0].rpartition("/")[2])


def regular(found: Input) -> Input:
    """Return a file that a folder, pattern or list has, which is read if it is regular: nobody may ever write to a pipe."""
    from graphwire.wire.archive.source import RegularPath

    if isinstance(found.source, str) and not is_address(found.source):
        return replace(found, source=RegularPath(found.source))
    return found


def is_address(word: str) -> bool:
    """Whether a word is the address of a file elsewhere, such as `s3://bucket/model.pt2`, and not a path."""
    return "://" in word


def _inputs_of_word(word: str) -> Iterator[Input]:
    if word == STDIN or is_address(word):
        yield input_named(word)
    elif os.path.isdir(word):  # noqa: PTH112
        yield from _files_below(word)
    elif any(sign in word for sign in "*?[") and not os.path.lexists(word):
        import glob
        from pathlib import Path

        found = [Path(each) for each in sorted(glob.glob(word, recursive=True))]  # noqa: PTH207 a pattern may be absolute
        files = [each for each in found if each.is_file()]
        yield from (regular(Input(str(each), str(each), each.name)) for each in files)
        if not files:
            yield _none(word, "no file matches this pattern", "Quote it if the shell must not change it")
    else:
        yield input_named(word)


def _files_below(folder: str) -> Iterator[Input]:
    from pathlib import Path

    found = False
    try:
        for above, folders, names in os.walk(folder, onerror=raise_error):
            folders.sort()
            for name in sorted(names):
                file = Path(above, name)
                if file.suffix.lower() == SUFFIX:
                    found = True
                    yield regular(Input(str(file), str(file), str(file.relative_to(folder))))
    except unless_interrupted(OSError) as error:
        yield Input(folder, folder, "", error)
        return
    if not found:
        remedy = f"Name files, or give a pattern such as '{folder}/*'"
        yield _none(folder, f"no file below this folder is named *{SUFFIX}", remedy)


def _none(word: str, problem: str, remedy: str) -> Input:
    return Input(word, word, "", ArchiveError(problem, remedy=remedy).of(word))


def raise_error(error: OSError) -> None:
    """Raise an error that `os.walk` only reports."""
    raise error


# ------------------------ run a command on each of its files, report the errors of each, and return the worst exit code


OK, FOUND, FAILED = 0, 1, 2
"""Exit codes, as those of `diff`. FOUND: the command found a problem or a difference. FAILED: it failed. The worst of all files
counts."""

Task: TypeAlias = Callable[[Input], int]
"""Reads one file, prints what it finds, and returns an exit code."""


def for_each_file(
    inputs: Sequence[Input], output: Output, task: Task, *, doing: str, as_json: bool = False
) -> Counter[int]:
    """Run a task on each file. An error ends the task of its file only.

    Args:
        inputs: the files.
        output: where errors are printed.
        task: called with each file.
        doing: what is done, for the progress, such as `Verifying`.
        as_json: whether an error is printed as a JSON object too, as the results are.

    Returns:
        How many files ended with each exit code. The exit code of the command is the largest.
    """
    codes: Counter[int] = Counter()
    with output.progress(doing, sum(each.nbytes for each in inputs)) as shown:
        for each in inputs:
            shown.item = output.file = each.name
            try:
                if each.error is not None:
                    raise each.error
                code = task(each)
            except BrokenPipeError:
                raise
            except unless_interrupted(Exception) as error:
                # The other files are read all the same.
                if getattr(error, "argument", ""):
                    raise  # an option is wrong, for all files
                code = FAILED
                output.failure(error, each.name)
                if as_json:
                    tree = {"file": each.name, "error": failure_tree(error, each.name)}
                    output.json(tree, problem=True, indent=None)
            codes[code] += 1
            shown.finish_file(each.nbytes)
    output.file = ""
    return codes


FileTask: TypeAlias = Callable[[Input, argparse.Namespace, Output], int]
"""What a command does with one file: from the arguments of the command, to an exit code."""


def run_on_files(task: FileTask, doing: str, arguments: argparse.Namespace, output: Output) -> int:
    """Run a task on each file of a command with `add_files`. Return the largest exit code."""
    inputs = inputs_of(arguments.files)
    codes = for_each_file(
        inputs, output, lambda each: task(each, arguments, output), doing=doing, as_json=arguments.json
    )
    return max(codes, default=OK)
