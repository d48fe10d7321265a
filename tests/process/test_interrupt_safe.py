"""One interrupt, wherever it comes, leaves nothing held by a block that names its context manager twice."""

from __future__ import annotations

import dis
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from graphwire import process as interrupts
from graphwire.process import Descriptor, InterruptSafe, file_of

CHECKED = frozenset(
    number for name, number in dis.opmap.items() if name.startswith("CALL") or name == "JUMP_BACKWARD"
)
held: list[str] = []


class Held(InterruptSafe):
    """Holds two things, and fails between them if it is told to."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def begin(self) -> None:
        held.clear()
        held.append("one")
        if self._fails:
            raise FileNotFoundError
        held.append("two")

    def end(self, error: BaseException | None) -> None:
        while held:
            held.pop()


def use(path: Path, *, fails: bool) -> None:
    """Enter blocks of each kind."""
    safe = Held(fails=fails)
    with safe, safe:
        held.append("three")
    opened = Descriptor(path / "none" if fails else path, os.O_RDONLY)
    with opened, opened:
        pass
    with file_of(os.open, path / ("none" if fails else "file"), os.O_RDONLY):
        pass


def interrupted(path: Path, at: int, *, fails: bool) -> int:
    """Interrupt the use at a step; how many steps there were.

    A step is where CPython looks for signals: the start of a function, the end of a call of a function in C, and a jump back.
    """
    steps = 0
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if event == "call" and frame.f_back is not None:
            last.pop(frame.f_back, None)  # the end of a call of Python code is none of the steps
        if frame.f_code.co_filename not in (__file__, interrupts.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "exception":
            last.pop(frame, None)  # what raises does not look for signals after
        if event == "opcode":
            before, last[frame] = last.get(frame), frame.f_code.co_code[frame.f_lasti]
        if event == "call" or (event == "opcode" and before in CHECKED):
            steps += 1
            if steps == at:
                raise KeyboardInterrupt
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        use(path, fails=fails)
    except (KeyboardInterrupt, FileNotFoundError):
        pass
    finally:
        sys.settrace(usual)
        last.clear()  # frames hold files
    return steps


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0  # noqa: PTH208 names alone


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file that Python closes as it lets go of it
@pytest.mark.parametrize("fails", [False, True])
def test_an_interrupt_at_any_step_leaves_nothing_held(tmp_path: Path, fails: bool) -> None:
    (tmp_path / "file").touch()
    steps = interrupted(tmp_path, 0, fails=fails)
    assert steps > 5
    before = descriptors()
    for at in range(1, steps + 1):
        interrupted(tmp_path, at, fails=fails)
        assert not held, at
        assert descriptors() == before, at
