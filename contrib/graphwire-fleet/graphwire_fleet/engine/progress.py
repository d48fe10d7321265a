"""Shows how far a run is: a line on the terminal, and nothing elsewhere."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator

from graphwire.cli.terminal import Output
from graphwire.display import size_text
from graphwire_fleet.engine.batches import Counts
from graphwire_fleet.work import File

CLEAR = "\r\x1b[K"
_SECONDS = 0.5
_DELAY = 1.0
_OVERHEAD = 1 << 18
"""The work that a file is beside its bytes, in bytes."""


class Progress:
    """How far a run is.

    Args:
        doing: what is done.
        output: where it is shown.
        counted: lists all files, to count them; it is called in a thread, if anything is shown.
    """

    def __init__(self, doing: str, output: Output, counted: Callable[[], Iterator[File]]) -> None:
        self._doing = doing
        self._output = output
        self._counted = counted
        self._begin = time.monotonic()
        self._is_shown = output.stderr.isatty() and not output.quiet
        self._next = self._begin + _DELAY
        self._done = Counts()
        self._unchanged = 0
        self._work = 0
        self._total: tuple[int, int] | None = None
        self._is_ended = False
        self.counting = threading.Thread(target=self._count, daemon=True)
        """Counts the files."""
        if self._is_shown:
            self.counting.start()

    def skip(self, files: int, nbytes: int) -> None:
        """Add files that need not be read."""
        self._unchanged += files
        self._work += nbytes + files * _OVERHEAD

    def add(self, counts: Counts) -> None:
        """Add files that were read."""
        self._done.add(counts)
        self._work += counts.nbytes + counts.files * _OVERHEAD

    def show(self) -> None:
        """Show it, if it is time."""
        now = time.monotonic()
        if now < self._next or not self._is_shown:
            return
        self._next = now + _SECONDS
        width = shutil.get_terminal_size().columns
        self._output.stderr.write(CLEAR + self.text(now - self._begin)[: width - 1])
        self._output.stderr.flush()

    def text(self, seconds: float) -> str:
        """Return one line of text: how many files, at which rate, and for how long."""
        done = self._done
        files = f"{done.files + self._unchanged:,}"
        parts = [
            f"{self._doing}: {files} of {self._total[0]:,} files"
            if self._total
            else f"{self._doing}: {files} files"
        ]
        if failed := sum(done.failures.values()):
            parts.append(f"{failed:,} failed")
        if seconds and done.files:
            parts.append(f"{done.files / seconds:,.1f} files/s")
            parts.append(f"{size_text(int(done.nbytes / seconds))}/s")
        if self._total and self._work:
            left = seconds * max(0, self._total[1] - self._work) / self._work
            parts.append(f"{_clock(left)} left")
        return ", ".join(parts)

    def end(self) -> None:
        """Remove the line from the terminal."""
        self._is_ended = True
        if self._is_shown:
            self._output.stderr.write(CLEAR)
            self._output.stderr.flush()

    def _count(self) -> None:
        files = work = 0
        for file in self._counted():
            if self._is_ended:
                return
            files += 1
            work += file.nbytes + _OVERHEAD
        self._total = files, work


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
