"""Progress: a line on a terminal, nothing elsewhere, and the counts at the end."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator

import pytest
from graphwire_fleet.engine import Summary, progress
from graphwire_fleet.engine.batches import Counts
from graphwire_fleet.engine.progress import Progress
from graphwire_fleet.work import File

from graphwire.cli.terminal import Output


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def files() -> Iterator[File]:
    return (File(str(number), str(number), str(number), 1 << 18, "") for number in range(1000))


def begun(stream: io.StringIO) -> Progress:
    shown = Progress("inspect", Output(stdout=io.StringIO(), stderr=stream), files)
    if stream.isatty():
        shown.counting.join()
    return shown


def test_a_line_has_counts_rates_and_the_time_left() -> None:
    shown = begun(Terminal())
    shown.skip(400, 400 << 18)
    shown.add(Counts(100, 100 << 18, Counter(Timeout=2)))
    assert shown.text(50.0) == "inspect: 500 of 1,000 files, 2 failed, 2.0 files/s, 512.0 KiB/s, 0:50 left"


@pytest.mark.parametrize(("stream", "shows"), [(Terminal(), "\r\x1b[K"), (io.StringIO(), "")])
def test_a_terminal_has_one_line_and_other_streams_have_nothing(
    stream: io.StringIO, shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = begun(stream)
    for _ in range(600):
        now[0] += 0.25
        shown.show()
    shown.end()
    lines = stream.getvalue()
    assert lines.count("inspect: 0 of 1,000 files") == (299 if shows else 0)
    assert "\n" not in lines
    assert lines.endswith(shows)


def test_the_counts_at_the_end_are_the_exit_code() -> None:
    stream = io.StringIO()
    output = Output(stdout=io.StringIO(), stderr=stream)
    summary = Summary(Counts(10, 10 << 20), unchanged=5, seconds=2.0)
    assert summary.report(output) == 0
    assert stream.getvalue() == "10 files read in 2.0 s, 5.0 files/s, 5.0 MiB/s; 5 unchanged\n"
    summary.counts.rows["problems"] += 1
    assert summary.report(output) == 1
    summary.counts.failures["Timeout"] += 1
    assert summary.report(output) == 2
    assert "1 failed: Timeout" in stream.getvalue()
