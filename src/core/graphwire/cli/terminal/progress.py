"""Show progress on the terminal during work of more than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from graphwire.cli.terminal.sections import escaped, size_text

__all__ = ["Progress", "progress"]

DELAY = 1.0
"""Seconds before anything is shown."""
INTERVAL = 0.2
"""Seconds between two updates."""
_BAR = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """What is done of a task, in bytes.

    Args:
        task: what is done, such as `Verifying`.
        total: the size of all of it in bytes; 0 if unknown.
    """

    def __init__(self, task: str, total: int = 0) -> None:
        self.task = task
        self.total = total
        self.done = 0
        self.item = ""
        """The file that is being worked on."""

    def text(self, seconds: float, width: int = 80) -> str:
        """Return one line of text: the task, a bar if the total is known, the file, and the time that it has taken."""
        parts = [self.task]
        if self.total:
            filled = min(_BAR, _BAR * self.done // self.total)
            parts.append(f"[{'#' * filled}{'.' * (_BAR - filled)}]")
            parts.append(f"{size_text(min(self.done, self.total))} of {size_text(self.total)}")
        parts.append(f"{seconds:.0f} s")
        text = "  ".join(parts)
        room = width - len(text) - 3
        return f"{text}  {escaped(self.item)[-room:]}" if self.item and room > 8 else text[: width - 1]


@contextmanager
def progress(task: str, total: int = 0, stream: TextIO | None = None) -> Iterator[Progress]:
    """Show progress on standard error, if it is a terminal, while the body runs for more than a second.

    Args:
        task: what is done, such as `Verifying`.
        total: the size of all of it in bytes; 0 if unknown.
        stream: the stream to show it on; None for standard error.
    """
    shown = Progress(task, total)
    stream = stream or sys.stderr
    if not stream.isatty():
        yield shown
        return
    start, ended = time.monotonic(), threading.Event()

    def show() -> None:
        import shutil

        waited = DELAY
        while not ended.wait(waited):
            text = shown.text(time.monotonic() - start, shutil.get_terminal_size().columns)
            stream.write(f"{_CLEAR}{text}")
            stream.flush()
            waited = INTERVAL
        if waited != DELAY:
            stream.write(_CLEAR)
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        ended.set()
        thread.join()
