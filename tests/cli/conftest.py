"""Runs commands in this process, which saves the start of an interpreter for each."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from graphwire.cli import main


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str
    data: bytes
    """What it wrote to standard output, as bytes."""


@pytest.fixture
def run(monkeypatch) -> Callable[..., Done]:
    """Runs a command with standard streams that are no terminals: `run("verify", path, stdin=data)`."""

    def run_command(*arguments: object, stdin: bytes = b"") -> Done:
        streams = {"stdin": io.BytesIO(stdin), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
        with monkeypatch.context() as patched:
            for name, stream in streams.items():
                patched.setattr(sys, name, io.TextIOWrapper(stream, "utf-8", newline=""))
            code = main([str(each) for each in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            data, errors = streams["stdout"].getvalue(), streams["stderr"].getvalue()
        return Done(code, data.decode("utf-8", "replace"), errors.decode("utf-8"), data)

    return run_command
