"""Show progress on the terminal during long work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["progress"]

DELAY = 0.4
"""Seconds before anything is shown. For shorter work, rich is not imported."""


@contextmanager
def progress(task: str) -> Iterator[None]:
    """Show `task`, a moving bar and the elapsed time on standard error, if it is a terminal, while the body runs.

    The functions of `graphwire.api` do not report progress, so the bar is indeterminate.
    """
    if not sys.stderr.isatty():
        yield
        return
    shown, lock, done = ExitStack(), threading.Lock(), threading.Event()

    def show() -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with lock:
            if not done.is_set():
                bar = shown.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
                bar.add_task(task, total=None)

    timer = threading.Timer(DELAY, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            done.set()
            shown.close()
