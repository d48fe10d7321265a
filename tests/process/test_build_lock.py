"""Threads take turns at what they cannot do at once, and none waits for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from graphwire import process as build_lock
from graphwire.process import one_build_at_a_time


def _in_thread(block: object) -> threading.Thread:
    thread = threading.Thread(target=block)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_one_thread_at_a_time_is_inside() -> None:
    inside, most = 0, 0
    pause = threading.Event()

    def enter() -> None:
        nonlocal inside, most
        for _ in range(20):
            with one_build_at_a_time():
                inside += 1
                most = max(most, inside)
                pause.wait(0.001)  # lets the others run
                inside -= 1

    threads = [_in_thread(enter) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_thread_that_has_the_turn_may_take_it_again() -> None:
    started = time.monotonic()
    with one_build_at_a_time(), one_build_at_a_time():
        pass
    assert time.monotonic() - started < build_lock._PATIENCE, "it waited for itself"


def test_an_error_ends_the_turn() -> None:
    with pytest.raises(KeyError, match="gone"), one_build_at_a_time():
        raise KeyError("gone")
    done = threading.Event()

    def enter() -> None:
        with one_build_at_a_time():
            done.set()

    _in_thread(enter).join()
    assert done.is_set()


def test_a_process_that_was_forked_from_an_other_threads_turn_has_turns_of_its_own() -> None:
    code = """
import os, threading, time
from graphwire import process as build_lock
from graphwire.process import one_build_at_a_time
build_lock._PATIENCE = 20
inside, done = threading.Event(), threading.Event()
def hold():
    with one_build_at_a_time():
        inside.set()
        done.wait()
threading.Thread(target=hold).start()
inside.wait()
child = os.fork()
if child == 0:
    started = time.monotonic()
    with one_build_at_a_time():
        os._exit(time.monotonic() - started > 10)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
raise SystemExit(status)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_a_thread_goes_on_when_its_turn_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has the turn may be waiting for it: a plugin that loads in a thread of its own."""
    monkeypatch.setattr(build_lock, "_PATIENCE", 0.01)
    done = threading.Event()

    def enter() -> None:
        with one_build_at_a_time():
            done.set()

    with one_build_at_a_time():
        _in_thread(enter).join()
        assert done.is_set()
    with one_build_at_a_time():  # what was not taken is not given back
        pass
