"""The garbage collector is off inside, and afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from graphwire.wire.collector import paused_collector


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def fail_if_off() -> None:
    with paused_collector():
        raise ValueError("on" if gc.isenabled() else "off")


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="off"):
        fail_if_off()
    assert gc.isenabled()


def test_it_stays_off_for_a_caller_who_had_it_off() -> None:
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_last_thread_to_leave_turns_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with paused_collector():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(10)
    with paused_collector(), paused_collector():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
