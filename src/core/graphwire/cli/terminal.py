"""How does a command print, within the terminal's width, and in colour where it is wanted?"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TextIO, TypeAlias

from graphwire import errors
from graphwire.display import Section, size_text

# -------------------------------- translate remedies for the command line: Python arguments become command-line options


_ROWS: tuple[tuple[str, str], ...] = (
    (r"Raise Limits\.pickle\b", r"Raise a limit on pickles, such as --limit pickle.values=NUMBER,"),
    (r"Raise Limits\.(\w+)", r"Raise it with --limit \1=NUMBER"),
    (r"Pass method= to pick one", r"Pick one with --method"),
    (
        r"Or pass unknown_ops=\"opaque\" to look at the graph without running it",
        r"`graphwire inspect --nodes` shows the graph",
    ),
    (r"Write it with format=\"(\w+)\"", r"Write it with --format \1"),
    (r"Such as opset_version=\{\"(\w+)\": (\d+)\}", r"Such as --opset \1=\2"),
    (r"([Pp])ass weights=graphwire\.IN_FILE", r"\1ass --weights in-file"),
    (r"([Pp])ass weights=:? a file or folder of weights, .*? loads the graph alone", r"\1ass --weights-from"),
    (r"([Pp])ass weights=", r"\1ass --weights-from"),
    (r"Leave weights= out, or target=", r"Leave --weights or --target out"),
    (r"Pass rank=, such as torch\.distributed\.get_rank\(\)", r"Pass --rank"),
    (r"Pass rank= from", r"Pass --rank from"),
    (r"Leave rank= out", r"Leave --rank out"),
    (r"Pass (?:ranks|shard)=.*", r"Only Python divides weights between ranks"),
    (r"Pass Checkpoint\(…, names=\).*", r"Only Python names weights otherwise"),
    (
        r"; Checkpoint\(…, names=\) renames them, shard= divides them",
        r"; only Python names weights otherwise",
    ),
    (r"Pass groups=\{.*", r"Commands run no collectives"),
    (r"\bstorage_options=", r"--storage-options"),
    (r"; check_format=False leaves this check out", ""),
    (r"Where its device is not there, pass device= with one that is", r"Commands look at no device"),
)
"""Patterns of remedies for Python, and their replacements for the command line."""


def as_command(message: str) -> str:
    """Return an error message with its remedy translated for the command line."""
    for pattern, text in _ROWS:
        message = re.sub(pattern, text, message)
    return message


# ----------------------------------------------------- sections of facts and tables, laid out as lines that fit a width
# The text comes from untrusted files, so it is escaped: no control character reaches the terminal.


Paint: TypeAlias = Callable[[str, str], str]
"""Returns a text in a style: `paint(text, "title")`."""

_LEAST = 12
"""Where a folded column would be narrower, a row is printed as a block of its own, with one line for each cell."""


def section_lines(section: Section, width: int | None, paint: Paint) -> Iterator[str]:
    """Yield the lines of a section; none if it has no rows.

    Args:
        section: the section; its texts need not be escaped.
        width: the largest number of columns of a terminal that a line may take; None for any.
        paint: returns a text in a style.
    """
    if not section.rows:
        return
    shown = _without_empty_columns(section)
    if shown.title:
        yield from (paint(line, "title") for line in folded(shown.title, width))
    widths = [max(map(_width, column)) for column in zip(*_all_rows(shown), strict=True)]
    fitting = _fitting(widths, shown.numbers, width)
    if fitting is None:
        yield from _blocks(shown, width or 0, paint)
        return
    for index, row in enumerate(_all_rows(shown)):
        is_head = bool(shown.columns) and index == 0
        cells = [folded(cell, limit) for cell, limit in zip(row, fitting, strict=True)]
        for line in range(max(map(len, cells))):
            parts = []
            for column, (cell, limit) in enumerate(zip(cells, fitting, strict=True)):
                text = cell[line] if line < len(cell) else ""
                pad = " " * (limit - _width(text))
                style = "head" if is_head else "name" if not shown.columns and column == 0 else ""
                painted = paint(text, style) if text else ""
                parts.append(pad + painted if column in shown.numbers else painted + pad)
            yield f"  {'  '.join(parts)}".rstrip()


def _all_rows(section: Section) -> list[Sequence[str]]:
    return [section.columns, *section.rows] if section.columns else [*section.rows]


def _without_empty_columns(section: Section) -> Section:
    width = max([len(section.columns), *map(len, section.rows)])
    rows = [
        [errors.escaped(errors.shortened(cell)) for cell in row] + [""] * (width - len(row))
        for row in section.rows
    ]
    kept = [column for column in range(width) if any(row[column] for row in rows)] or [0]
    return Section(
        errors.escaped(section.title),
        [section.columns[column] for column in kept] if section.columns else (),
        [[row[column] for column in kept] for row in rows],
        frozenset(place for place, column in enumerate(kept) if column in section.numbers),
    )


def _fitting(widths: Sequence[int], numbers: frozenset[int], width: int | None) -> list[int] | None:
    """Return the widths of columns that fit a terminal; None if a column would become too narrow to read.

    The widest columns are folded, all to one width. Numbers are not folded.
    """
    room = None if width is None else width - 2 * len(widths)
    if room is None or sum(widths) <= room:
        return [*widths]
    for limit in range(max(widths), _LEAST - 1, -1):
        fitting = [each if column in numbers else min(each, limit) for column, each in enumerate(widths)]
        if sum(fitting) <= room:
            return fitting
    return None


def _blocks(section: Section, width: int, paint: Paint) -> Iterator[str]:
    """Yield each row as a block: its first cell, and below it a line for each other cell, with the head of its column."""
    for row in section.rows:
        yield from (f"  {paint(line, 'name')}" for line in folded(row[0], max(width - 2, 1)))
        for column, cell in enumerate(row):
            if column and cell:
                head = f"{section.columns[column]}: " if section.columns else ""
                yield from (f"    {line}" for line in folded(f"{head}{cell}", max(width - 4, 1)))


def folded(text: str, width: int | None) -> list[str]:
    """Return a text as lines of at most `width` columns, broken behind spaces and commas; words that are longer than a line,
    such as the names of parameters and files, behind punctuation where they have any."""
    lines = []
    while width is not None and _width(text) > width:
        fitting, columns = 0, 0
        for character in text:
            columns += _columns(character)
            if columns > width:
                break
            fitting += 1
        fitting = max(fitting, 1)
        end = _line_end(text, fitting, width)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text] if text or not lines else lines


def _line_end(text: str, fitting: int, width: int) -> int:
    """Return where the first line of a text ends, of which `fitting` characters fit a line."""
    broken = max(text.rfind(" ", 0, fitting + 1), text.rfind(",", 0, fitting) + 1)
    word = text[broken:].lstrip().partition(" ")[0]
    if broken > 0 and (_width(word) <= width or broken > fitting // 2):
        return broken
    return max([text.rfind(mark, max(broken, 1), fitting) + 1 for mark in "._/-:="]) or fitting


def _width(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# ------------------ where a command prints: results on standard output; warnings, errors and progress on standard error


ColorChoice: TypeAlias = Literal["auto", "always", "never"]

_STYLES = {
    "title": "1",
    "head": "2",
    "name": "36",
    "added": "32",
    "removed": "31",
    "changed": "33",
    "good": "32",
    "bad": "31",
    "error": "1;31",
    "warning": "1;33",
}
"""The terminal's code of each style (SGR, ECMA-48)."""

_STDIN = "<stdin>"
"""The name that Python gives to standard input; commands name it `-`."""

_MOST_PROBLEMS = 20
"""The largest number of problems that an error message lists."""


def columns() -> int:
    """Return the width of lines: `COLUMNS`, or else the terminal's, or else 80. `shutil` has the same, and imports much."""
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns or 80
    except errors.unless_interrupted(ValueError, OSError):
        return 80


class Output:
    """Prints the results and errors of a command.

    Args:
        color: whether to print colours; `auto` does on a terminal, unless the environment variable `NO_COLOR` is set, and
            elsewhere if `FORCE_COLOR` is set.
        quiet: whether to print only problems and errors.
        debug: whether to print tracebacks.
        stdout: the stream for results; None for standard output.
        stderr: the stream for errors; None for standard error.
        environ: the environment variables.
        words: those of the command line, of which URLs are printed without passwords and queries.
    """

    def __init__(
        self,
        *,
        color: ColorChoice = "auto",
        quiet: bool = False,
        debug: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
        words: Sequence[str] = (),
    ) -> None:
        self._urls = [each for each in words if "://" in each]
        self.quiet = quiet
        self.debug = debug
        self._stdout = stdout
        self._stderr = stderr
        self._color = color
        self._environ = environ
        self.file = ""
        """The file that a warning concerns, if one of several is read."""
        self._begun = False
        self._progress: Progress | None = None

    @property
    def stdout(self) -> TextIO:
        """The stream for results."""
        return self._stdout or sys.stdout

    @property
    def stderr(self) -> TextIO:
        """The stream for errors."""
        return self._stderr or sys.stderr

    @contextlib.contextmanager
    def printing_to(self, stdout: TextIO, stderr: TextIO) -> Iterator[None]:
        """A context in which this prints to other streams."""
        before = self._stdout, self._stderr
        self._stdout, self._stderr = stdout, stderr
        try:
            yield
        finally:
            self._stdout, self._stderr = before

    def line(self, text: str, style: str = "", *, problem: bool = False) -> None:
        """Print one line.

        Args:
            text: the text. It is escaped.
            style: the style, a key of `_STYLES`; empty for none.
            problem: whether it is printed with `--quiet` too.
        """
        if problem or not self.quiet:
            self._write(self.stdout, self._paint(self.stdout, errors.escaped(text), style))
            self._begun = True

    def remark(self, text: str) -> None:
        """Print one line on standard error, unless quiet: standard output has something else."""
        if not self.quiet:
            self._write(self.stderr, errors.escaped(text))

    def json(self, tree: Any, *, problem: bool = False, indent: int | None = 2) -> None:
        """Print plain data as JSON, in ASCII, so that nothing in it can control a terminal.

        Args:
            tree: lists, dicts, text, numbers and None.
            problem: whether it is printed with `--quiet` too.
            indent: None for one line.
        """
        if problem or not self.quiet:
            self._write(self.stdout, json.dumps(tree, indent=indent))

    def sections(self, sections: Iterable[Section], *, problem: bool = False) -> None:
        """Print the sections that have rows, with blank lines between them and before them if anything is printed above."""
        if self.quiet and not problem:
            return
        stream = self.stdout
        width = columns() if stream.isatty() else None
        for section in sections:
            if section.rows and self._begun:
                self._write(stream, "")
            for line in section_lines(section, width, lambda text, style: self._paint(stream, text, style)):
                self._write(stream, line)
                self._begun = True

    def failure(self, error: BaseException, name: str = "") -> None:
        """Print an error on standard error.

        Args:
            error: the error.
            name: the file that it concerns, if the message may lack it.
        """
        if self.debug:
            import traceback

            self._write(self.stderr, "".join(traceback.format_exception(error)).rstrip("\n"))
        head, *more = failure_lines(error, name)
        with errors.Ignored(OSError):  # Standard error may be closed.
            self._write(self.stderr, f"{self._paint(self.stderr, 'graphwire: error:', 'error')} {head}")
            for line in more:
                self._write(self.stderr, f"  {line}")

    def warning(self, text: str) -> None:
        """Print a warning on standard error, in one line."""
        line = errors.escaped(
            f"{self.file}: {' '.join(text.split())}" if self.file else " ".join(text.split())
        )
        self._write(self.stderr, f"{self._paint(self.stderr, 'graphwire: warning:', 'warning')} {line}")

    @contextlib.contextmanager
    def progress(self, task: str, total: int = 0) -> Iterator[Progress]:
        """Show progress on standard error, if it is a terminal, while the body runs for more than a second.

        Args:
            task: what is done, such as `Verifying`.
            total: the size of all of it in bytes; 0 if unknown.
        """

        progress = Progress(task, total, self.stderr)
        if self.quiet or not self.stderr.isatty():
            yield progress
            return
        self._progress = progress
        try:
            with shown_progress(progress):
                yield progress
        finally:
            self._progress = None

    def _paint(self, stream: TextIO, text: str, style: str) -> str:
        code = _STYLES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._has_color(stream) else text

    def _has_color(self, stream: TextIO) -> bool:
        if self._color != "auto":
            return self._color == "always"
        if self._environ.get("NO_COLOR"):
            return False
        if forced := self._environ.get("FORCE_COLOR"):
            return forced not in ("0", "false")
        return stream.isatty() and self._environ.get("TERM") != "dumb"

    def _write(self, stream: TextIO, text: str) -> None:
        """Write a line; characters that the stream's encoding lacks are escaped."""
        if self._progress is not None:
            self._progress.clear()
        if self._urls:
            from graphwire.wire.remote import without_secrets

            text = without_secrets(text, self._urls)
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def failure_tree(error: BaseException, name: str = "") -> dict[str, Any]:
    """Return an error as plain data for `--json`, with the message of `failure_lines`."""
    tree: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": "\n".join(failure_lines(error, name)),
    }
    if isinstance(error, errors.GraphwireError):
        tree |= {"place": error.place, "problem": error.problem, "remedy": error.remedy}
    return tree


def failure_lines(error: BaseException, name: str = "") -> list[str]:
    """Return an error as lines in the words of the command line: what is wrong and, if there are several problems, each.

    Args:
        error: the error.
        name: the file that it concerns, which the first line names.
    """
    if isinstance(error, OSError):
        text = as_command(error.strerror or errors.exception_text(error))
        text = f"{error.filename}: {text}" if error.filename else text
    elif isinstance(error, errors.GraphwireError):
        text = as_command(str(error))
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    else:
        text = f"{errors.exception_text(error)} (a defect of graphwire or of a plugin; --debug shows where)"
    head, *more = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or [""]
    if head.startswith(_STDIN):
        head = f"-{head.removeprefix(_STDIN)}"
    if name and errors.escaped(name) not in errors.escaped(head):
        head = f"{name}: {head}"
    if len(more) > _MOST_PROBLEMS:
        more[_MOST_PROBLEMS:] = [f"… and {len(more) - _MOST_PROBLEMS:,} more"]
    return [errors.escaped(line) for line in (head, *more)]


# ------------------------------------------------- completion of commands, options and files in a shell, by argcomplete
# The shell runs `graphwire` with the line so far in its environment, and reads the words that it may continue with.


_SHELLS = ("bash", "zsh", "fish")


def complete(parser_of: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer the shell, and end the process.

    Args:
        parser_of: returns the parser for the command that the line names.
    """
    try:
        from argcomplete import autocomplete
    except ModuleNotFoundError:
        return
    words = os.environ.get("COMP_LINE", "").split()[1:]
    autocomplete(parser_of(next((word for word in words if not word.startswith("-")), "")))


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print the lines that complete commands, options and files in a shell, for its start-up file. Needs the extra"
        " graphwire[completion]."
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace, output: Output) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError as error:
        raise errors.PluginError(
            "argcomplete is not installed", remedy="Run: pip install 'graphwire[completion]'"
        ) from error
    output.stdout.write(shellcode(["graphwire"], shell=arguments.shell))
    return 0


# ------------------------------------------------------ show progress on the terminal during work of more than a second


DELAY = 1.0
"""Seconds before anything is shown."""
INTERVAL = 0.2
"""Seconds between two updates."""
_BAR = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """What is done of a task, in bytes, and the line that shows it.

    Args:
        task: what is done, such as `Verifying`.
        total: the size of all of it in bytes; 0 if unknown.
        stream: the terminal.
    """

    def __init__(self, task: str, total: int, stream: TextIO) -> None:
        import threading

        self.task = task
        self.total = total
        self.item = ""
        """The file that is being worked on."""
        self._before = self._read = 0
        self._stream = stream
        self._lock = threading.Lock()
        self._is_shown = False

    @property
    def done(self) -> int:
        """The bytes that are done."""
        return min(self._before + self._read, self.total)

    def add(self, nbytes: int) -> None:
        """Add bytes that are done of the file."""
        self._read += nbytes

    def finish_file(self, nbytes: int) -> None:
        """Go on with the next file, after one of this size."""
        self._before, self._read = self._before + nbytes, 0

    def text(self, seconds: float, width: int = 80) -> str:
        """Return one line of text: the task, a bar if the total is known, the time that it has taken, and the file."""
        parts = [self.task]
        if self.total:
            filled = _BAR * self.done // self.total
            parts.append(f"[{'#' * filled}{'.' * (_BAR - filled)}]")
            parts.append(f"{size_text(self.done)} of {size_text(self.total)}")
        parts.append(f"{seconds:.0f} s")
        text = "  ".join(parts)
        room = width - len(text) - 3
        return f"{text}  {errors.escaped(self.item)[-room:]}" if self.item and room > 8 else text[: width - 1]

    def show(self, seconds: float) -> None:
        """Write the line over the one before it."""
        text = self.text(seconds, columns())
        with self._lock:
            self._stream.write(f"{_CLEAR}{text}")
            self._stream.flush()
            self._is_shown = True

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        with self._lock:
            if self._is_shown:
                self._stream.write(_CLEAR)
                self._stream.flush()
                self._is_shown = False


@contextmanager
def shown_progress(progress: Progress) -> Iterator[None]:
    """Show progress while the body runs, once it takes more than a second."""
    import threading

    start, ended = time.monotonic(), threading.Event()

    def show() -> None:
        waited = DELAY
        while not ended.wait(waited):
            progress.show(time.monotonic() - start)
            waited = INTERVAL
        progress.clear()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        from graphwire.process import counted_bytes

        with counted_bytes(progress.add):
            yield
    finally:
        ended.set()
        thread.join()
