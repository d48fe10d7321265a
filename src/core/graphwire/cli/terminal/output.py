"""Where a command prints: results on standard output; warnings, errors and progress on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from graphwire.cli.terminal.option_names import as_command
from graphwire.cli.terminal.sections import Section, escaped, section_lines
from graphwire.errors import GraphwireError, exception_text

if TYPE_CHECKING:
    from graphwire.cli.terminal.progress import Progress

__all__ = ["ColorChoice", "Output", "failure_lines", "failure_tree"]

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
    except (ValueError, OSError):
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
    ) -> None:
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
            self._write(self.stdout, self._paint(self.stdout, escaped(text), style))
            self._begun = True

    def remark(self, text: str) -> None:
        """Print one line on standard error, unless quiet: standard output has something else."""
        if not self.quiet:
            self._write(self.stderr, escaped(text))

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

            traceback.print_exception(error, file=self.stderr)
        head, *more = failure_lines(error, name)
        with contextlib.suppress(OSError):  # Standard error may be closed.
            self._write(self.stderr, f"{self._paint(self.stderr, 'graphwire: error:', 'error')} {head}")
            for line in more:
                self._write(self.stderr, f"  {line}")

    def warning(self, text: str) -> None:
        """Print a warning on standard error, in one line."""
        line = escaped(f"{self.file}: {' '.join(text.split())}" if self.file else " ".join(text.split()))
        self._write(self.stderr, f"{self._paint(self.stderr, 'graphwire: warning:', 'warning')} {line}")

    @contextlib.contextmanager
    def progress(self, task: str, total: int = 0) -> Iterator[Progress]:
        """Show progress on standard error, if it is a terminal, while the body runs for more than a second.

        Args:
            task: what is done, such as `Verifying`.
            total: the size of all of it in bytes; 0 if unknown.
        """
        from graphwire.cli.terminal.progress import Progress, shown_progress

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
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def failure_tree(error: BaseException, name: str = "") -> dict[str, Any]:
    """Return an error as plain data for `--json`, with the message of `failure_lines`."""
    tree: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": "\n".join(failure_lines(error, name)),
    }
    if isinstance(error, GraphwireError):
        tree |= {"place": error.place, "problem": error.problem, "remedy": error.remedy}
    return tree


def failure_lines(error: BaseException, name: str = "") -> list[str]:
    """Return an error as lines in the words of the command line: what is wrong and, if there are several problems, each.

    Args:
        error: the error.
        name: the file that it concerns, which the first line names.
    """
    if isinstance(error, OSError):
        text = as_command(error.strerror or exception_text(error))
        text = f"{error.filename}: {text}" if error.filename else text
    elif isinstance(error, GraphwireError):
        text = as_command(str(error))
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    else:
        text = f"{exception_text(error)} (a defect of graphwire or of a plugin; --debug shows where)"
    head, *more = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or [""]
    if head.startswith(_STDIN):
        head = f"-{head.removeprefix(_STDIN)}"
    if name and escaped(name) not in escaped(head):
        head = f"{name}: {head}"
    if len(more) > _MOST_PROBLEMS:
        more[_MOST_PROBLEMS:] = [f"… and {len(more) - _MOST_PROBLEMS:,} more"]
    return [escaped(line) for line in (head, *more)]
