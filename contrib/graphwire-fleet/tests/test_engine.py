"""Work in bounded processes: what files do to them, nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_works import DEEDS, Deeds, Kept, begun, is_alive, ran, started_run, until, written
from graphwire_fleet.engine import FleetError

HANGING = ("hang", "hang in C", "loop")


def test_a_file_that_hangs_is_a_row_and_the_others_of_its_batch_go_on(tmp_path: Path) -> None:
    good = {f"{number:02}": "well" for number in range(30)}
    bad = {f"{number:02}-{deed}": deed for number, deed in zip((3, 13, 23), HANGING, strict=True)}
    folder, kept = written(tmp_path / "files", good | bad), Kept()
    ran(folder, Deeds(), kept, workers=3, timeout=5.0, batch_files=11)
    assert kept.names == sorted(good | bad)
    assert kept.failures.keys() == bad.keys()
    for kind, message, place in kept.failures.values():
        assert (kind, message) == ("Timeout", "no result after 5 s")
        assert "fleet_works.py" in place


def test_a_file_that_crashes_or_takes_memory_is_a_row_and_the_others_of_its_batch_go_on(
    tmp_path: Path,
) -> None:
    deeds = [deed for deed in DEEDS if deed not in HANGING]
    good = {f"good{number}": "well" for number in range(40)}
    bad = {f"good{number * 3}-{deed}": deed for number, deed in enumerate(deeds)}
    special = {"again": "die the first time", "rows": "cannot be packed"}
    folder, kept = written(tmp_path / "files", good | bad | special), Kept()
    summary = ran(folder, Deeds(), kept, memory=200 << 20, batch_files=20)
    assert kept.names == sorted(good | bad | special)
    assert {name.partition("-")[2] or name: failure[0] for name, failure in kept.failures.items()} == {
        "take memory": "OutOfMemory",
        "ask for memory": "OutOfMemory",
        "crash": "WorkerDied",
        "abort": "WorkerDied",
        "leave": "WorkerDied",
        "exit": "SystemExit",
        "raise": "ArchiveError",
        "be killed": "WorkerDied",
        "rows": "ValueError",
    }
    assert summary.counts.files == len(good | bad | special)
    assert summary.counts.rows["program"] == len(good) + 1
    failures = {name.partition("-")[2]: failure[1:] for name, failure in kept.failures.items()}
    assert failures["raise"] == ["this is wrong", "graph.nodes[3]"]
    assert "SIGSEGV" in failures["crash"][0]
    for deed in ("crash", "abort"):
        assert " in " in failures[deed][1], deed


def test_a_worker_that_somebody_kills_is_replaced_and_nothing_is_lost_or_there_twice(tmp_path: Path) -> None:
    folder, kept = written(tmp_path / "files", {f"{number:03}": "well" for number in range(200)}), Kept()
    log = tmp_path / "log"
    killing = threading.Thread(target=kill_workers, args=(log,))
    killing.start()
    summary = ran(folder, Deeds(seconds=0.02, log=str(log)), kept, batch_files=30)
    killing.join()
    assert len(begun(log)) > 2  # There were others than the first two.
    assert kept.failures == {}
    assert Counter(kept.names) == Counter(f"{number:03}" for number in range(200))
    assert summary.counts.files == 200


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, None), (signal.SIGTERM, None)]
)
def test_a_killed_run_goes_on_where_it_was_and_leaves_no_process(
    sent: int, code: int | None, tmp_path: Path
) -> None:
    files, log = (
        written(tmp_path / "files", {f"{number:03}": "well" for number in range(200)}),
        tmp_path / "log",
    )
    (kept := tmp_path / "kept").mkdir()
    started = started_run(files, kept, log)
    until(lambda: len(list(kept.glob("*.json"))) > 1)
    os.kill(started.pid, sent)
    assert started.wait(30) in ((code,) if code else (-2, 1, 130))
    workers = begun(log)
    until(lambda: not any(is_alive(each) for each in workers))
    first = Kept(kept)
    assert 40 <= len(first.rows) < 200
    again = Kept(kept)
    summary = ran(files, Deeds(), again)
    assert (summary.unchanged, summary.counts.files) == (len(first.rows), 200 - len(first.rows))
    assert Counter(Kept(kept).names) == Counter(f"{number:03}" for number in range(200))


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    folder, kept = written(tmp_path / "files", {name: "well" for name in "abc"}), Kept()
    assert ran(folder, Deeds(), kept).counts.files == 3
    assert ran(folder, Deeds(), kept).counts.files == 0
    written(folder, {"b": "better", "d": "well"})
    summary = ran(folder, Deeds(), kept)
    assert (summary.counts.files, summary.unchanged) == (2, 2)
    assert kept.names == ["a", "b", "b", "c", "d"]


def test_what_is_not_a_regular_file_is_a_row_and_nothing_waits_for_it(tmp_path: Path) -> None:
    folder, kept = written(tmp_path / "files", {"a": "well", "a\nb": "well", "denied": "well"}), Kept()
    os.mkfifo(folder / "fifo.pt2")
    (folder / "dangling.pt2").symlink_to("nowhere")
    (folder / "folder.pt2").mkdir()
    (folder / "loop").symlink_to(".")
    Path(os.fsdecode(bytes(folder) + b"/\xff.pt2")).write_text("well")
    (folder / "denied.pt2").unlink()
    (folder / "denied.pt2").symlink_to("/proc/self/mem")  # opens, and cannot be read
    ran(folder, Deeds(), kept)
    assert kept.names == ["\\xff", "a", "a\nb", "dangling", "denied", "fifo"]
    assert {name: failure[0] for name, failure in kept.failures.items()}.keys() == {
        "dangling",
        "denied",
        "fifo",
    }
    assert kept.failures["fifo"][:2] == ["ArchiveError", "this is not a regular file"]


def test_work_that_cannot_begin_ends_the_run(tmp_path: Path) -> None:
    folder = written(tmp_path / "files", {"a": "well"})
    with pytest.raises(FleetError, match=r"a worker cannot work: .*no_such_module"):
        ran(folder, Unknown(), Kept())


class Unknown(Deeds):
    """Work that cannot be unpickled in another process."""

    def __reduce__(self) -> Any:
        return exec, ("import no_such_module",)


def kill_workers(log: Path) -> None:
    """Kill the first two processes, while they work."""
    until(lambda: len(begun(log)) == 2)
    for worker in begun(log):
        os.kill(worker, signal.SIGKILL)
