"""The garbage collector is off inside, and afterwards as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from graphwire.process import paused_gc


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def fail_if_off() -> None:
    with paused_gc():
        raise ValueError("on" if gc.isenabled() else "off")


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="off"):
        fail_if_off()
    assert gc.isenabled()


def test_it_stays_off_for_a_caller_who_had_it_off() -> None:
    gc.disable()
    with paused_gc():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_last_thread_to_leave_turns_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with paused_gc():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(10)
    with paused_gc(), paused_gc():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_forked_process_pauses_for_its_own_thread_alone() -> None:
    """What other threads had paused when the process was forked, they are not there to resume."""
    code = """
import gc, os, threading
from graphwire.process import paused_gc
inside, done = threading.Event(), threading.Event()
def hold():
    with paused_gc():
        inside.set()
        done.wait()
threading.Thread(target=hold).start()
inside.wait()
assert not gc.isenabled()
children = []
child = os.fork()
if child == 0:
    with paused_gc():
        ok = not gc.isenabled()
    os._exit(not (ok and gc.isenabled()))
children.append(child)
with paused_gc():
    child = os.fork()
    if child == 0:
        ok = not gc.isenabled()
if child == 0:
    os._exit(not (ok and gc.isenabled()))
children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
done.set()
raise SystemExit(any(codes))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_threads_that_come_and_go_never_leave_it_off() -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def come_and_go() -> None:
        for _ in range(2_000):
            with paused_gc():
                pass

    try:
        for _ in range(3):
            threads = [threading.Thread(target=come_and_go) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert gc.isenabled()
    finally:
        sys.setswitchinterval(usual)


def test_threads_that_call_plugins_do_not_wait_for_each_other_where_collections_call_python() -> None:
    """A call of a plugin looks at the interpreter's list of threads, and a collection inside that look let others run, who waited
    for the list with the interpreter's lock."""
    code = """
import gc, sys, threading
from graphwire.registry.calls import restored_process
gc.callbacks.append(lambda *_: [each for each in range(50)])
gc.set_threshold(1)
sys.setswitchinterval(1e-6)
def call():
    for _ in range(300):
        with restored_process():
            pass
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
