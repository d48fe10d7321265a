"""Keeps what a library and its processes print away from the user's terminal, and lets the command print."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from graphwire.cli.terminal import Output


@contextmanager
def quiet(output: Output) -> Iterator[None]:
    """A context in which `output` prints where it did, and nothing else does: Python code, C code and processes are silent."""
    with ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        streams = [stack.enter_context(_kept(each)) for each in (output.stdout, output.stderr)]
        stack.enter_context(output.printing_to(*streams))
        for number in (1, 2):
            stack.enter_context(_led_to(nowhere.fileno(), number))
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _kept(stream: TextIO) -> Iterator[TextIO]:
    """A context with a stream that goes where another one does, also if that one's descriptor leads elsewhere."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # It is in memory, as in tests and notebooks.
        yield stream
        return
    stream.flush()
    with os.fdopen(os.dup(number), "w", 1, encoding=stream.encoding, errors=stream.errors) as own:
        yield own


@contextmanager
def _led_to(target: int, number: int) -> Iterator[None]:
    """A context in which a descriptor is another name of a second one."""
    try:
        saved = os.dup(number)
    except OSError:  # The caller closed it.
        yield
        return
    os.dup2(target, number)
    try:
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)
