"""Show progress on the terminal during work of more than a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from graphwire.cli.terminal.output import columns
from graphwire.cli.terminal.sections import escaped, size_text
from graphwire.process import counted_bytes

__all__ = ["Progress", "shown_progress"]

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
        return f"{text}  {escaped(self.item)[-room:]}" if self.item and room > 8 else text[: width - 1]

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
        with counted_bytes(progress.add):
            yield
    finally:
        ended.set()
        thread.join()
