"""A sign of life on the terminal for work that takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["progress"]

DELAY = 0.4
"""Seconds before anything is shown: rich is not even imported for work that is done by then."""


@contextmanager
def progress(task: str) -> Iterator[None]:
    """Show `task`, a moving bar and the time that has passed on standard error, if it is a terminal, while the body runs.

    The steps of the api do not say how far they are, so the bar moves without an end.
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
