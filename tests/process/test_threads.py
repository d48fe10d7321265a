"""Threads of a save and a load: calls run in order, end with the block, and leave nothing that a later one meets."""

from __future__ import annotations

import threading

import pytest

from graphwire.process import Threads


def test_results_and_errors_of_calls_reach_whoever_waits() -> None:
    with Threads(3, "graphwire-test") as threads:
        steps = [threads.submit(divmod, 7, divisor) for divisor in (1, 2, 0)]
        assert [step.result() for step in steps[:2]] == [(7, 0), (3, 1)]
        with pytest.raises(ZeroDivisionError):
            steps[2].result()


def test_calls_that_none_has_begun_are_dropped_at_the_end_and_later_ones_run() -> None:
    begun, go_on, ran = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        go_on.wait(10)
        ran.append("first")

    threads = Threads(1, "graphwire-test")
    threads.submit(first)
    threads.submit(ran.append, "second")
    begun.wait(10)
    threading.Timer(0.05, go_on.set).start()
    threads.close()
    assert ran == ["first"]
    threads = Threads(4, "graphwire-test")  # of which one is started
    assert threads.submit(len, "abc").result() == 3
    threads.close()
    assert threads.submit(len, "ab").result() == 2, "threads of before leave no sign to end behind"
    threads.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("graphwire-test")]


def test_whoever_waits_for_a_call_that_is_cancelled_gets_an_error() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait(10)

    threads = Threads(1, "graphwire-test")
    threads.submit(first)
    waiting = threads.submit(len, "abc")
    begun.wait(10)
    threads.close(wait=False)
    with pytest.raises(RuntimeError, match="cancelled"):
        waiting.result()
    go_on.set()
