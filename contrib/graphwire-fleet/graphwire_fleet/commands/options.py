"""Options that several actions share: which files, and how the work on them is run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from graphwire.cli.options import add_limits
from graphwire.cli.terminal import Output
from graphwire_fleet.work import File

_MOST_SECONDS = 10_000_000
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def add_patterns(parser: argparse.ArgumentParser) -> None:
    """Add the files to read, and the options for reading one."""
    parser.add_argument(
        "patterns",
        metavar="PATTERN",
        nargs="+",
        help="files, folders (all *.pt2 below them) and patterns such as 'models/**/*.pt2', on this machine or at URLs",
    )
    add_limits(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options of the engine: where the work runs, and its bounds."""
    parser.add_argument(
        "--workers", metavar="N", type=_count, help="how many files are read at once; one a CPU by default"
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on a cluster of Ray: its address, auto for the one of this machine, or local to start one for this run",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=120.0,
        help="the time for a file, and a second more for each 4 MiB of it (default: 120)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=_size,
        help="the memory for reading a file, such as 2G; by default the machine's, divided by the workers",
    )
    parser.add_argument(
        "--batch-files", metavar="N", type=_count, default=64, help="the most files of a batch (default: 64)"
    )
    parser.add_argument(
        "--batch-bytes",
        metavar="SIZE",
        type=_size,
        default=256 << 20,
        help="the size of files at which a batch ends (default: 256M)",
    )


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `graphwire_fleet.engine.run` that arguments name."""
    names = ("workers", "ray", "timeout", "memory", "batch_files", "batch_bytes")
    return {name: getattr(arguments, name) for name in names}


def listed(arguments: argparse.Namespace, output: Output) -> Listing:
    """Return the files that the arguments name. What cannot be listed is printed."""
    return Listing(arguments.patterns, arguments.storage_options, output)


class Listing:
    """The files that words name, listed whenever it is iterated.

    Args:
        words: the words.
        storage_options: the options of the file systems of URLs.
        output: where errors are printed.
    """

    def __init__(
        self, words: Sequence[str], storage_options: Mapping[str, Any] | None, output: Output
    ) -> None:
        self._words = words
        self._options = storage_options
        self._output = output
        self.problems = 0
        """How much could not be listed."""

    def __iter__(self) -> Iterator[File]:
        return self._files(self._report)

    def counted(self) -> Iterator[File]:
        """Return the files once more, for their number; errors are not printed again."""
        return self._files(lambda error, name: None, counting=True)

    def _files(
        self, on_problem: Callable[[Exception, str], None], *, counting: bool = False
    ) -> Iterator[File]:
        from graphwire_fleet.sources import files_of

        return files_of(self._words, self._options, on_problem, counting=counting)

    def _report(self, error: Exception, name: str) -> None:
        from graphwire_fleet.engine import CLEAR

        self.problems += 1
        if self._output.stderr.isatty():
            self._output.stderr.write(CLEAR)
        self._output.failure(error, name)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([kmgt]?)(?:i?b)?", text.lower())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 512M or 4G")
    return int(match[1]) * _UNITS[match[2]]
