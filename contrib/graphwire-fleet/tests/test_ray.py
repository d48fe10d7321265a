"""The same work on a cluster of Ray, which each test starts on this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_works import Deeds, Kept, begun, is_alive, ran, started_run, until, written
from graphwire_fleet.engine import FleetError

pytest.importorskip("ray", reason="needs the extra `fleet`: make test-fleet")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the cluster import this work too."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def test_hostile_files_are_rows_and_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    good = {f"{number:03}": "well" for number in range(100)}
    bad = {"hang": "hang in C", "crash": "crash", "error": "raise"}
    folder, kept, log = written(tmp_path / "files", good | bad), Kept(), tmp_path / "log"

    def kill_first() -> None:
        until(lambda: begun(log))
        os.kill(min(begun(log)), signal.SIGKILL)

    killing = threading.Thread(target=kill_first)
    killing.start()
    work = Deeds(seconds=0.02, log=str(log))
    summary = ran(folder, work, kept, ray="local", timeout=5.0, batch_files=16)
    killing.join()
    assert Counter(kept.names) == Counter([*good, *bad])
    assert {name: failure[0] for name, failure in kept.failures.items()} == {
        "hang": "Timeout",
        "crash": "WorkerDied",
        "error": "ArchiveError",
    }
    assert summary.counts.files == 103
    assert ran(folder, work, kept, ray="local").counts.files == 0


def test_an_actor_that_dies_is_started_again(tmp_path: Path) -> None:
    good = {f"{number:03}": "well" for number in range(100)}
    folder, kept, log = written(tmp_path / "files", good), Kept(), tmp_path / "log"

    def kill_actor() -> None:
        until(lambda: begun(log))
        parent = Path(f"/proc/{min(begun(log))}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)

    killing = threading.Thread(target=kill_actor)
    killing.start()
    ran(folder, Deeds(seconds=0.03, log=str(log)), kept, ray="local", batch_files=10)
    killing.join()
    assert Counter(kept.names) == Counter([*good])
    assert kept.failures == {}


def test_an_actor_that_is_frozen_is_started_again_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {"_ASK_SECONDS": 0.5, "_ANSWER_SECONDS": 4.0}.items():
        monkeypatch.setattr(f"graphwire_fleet.engine.ray_workers.{name}", seconds)
    good = {f"{number:03}": "well" for number in range(40)}
    folder, kept, log = written(tmp_path / "files", good), Kept(), tmp_path / "log"
    frozen: list[int] = []

    def freeze_actor() -> None:
        until(lambda: begun(log))
        child = Path(f"/proc/{min(begun(log))}/stat").read_text()
        frozen.append(int(child.rpartition(")")[2].split()[1]))
        os.kill(frozen[0], signal.SIGSTOP)

    freezing = threading.Thread(target=freeze_actor)
    freezing.start()
    ran(folder, Deeds(seconds=0.05, log=str(log)), kept, ray="local", batch_files=10)
    freezing.join()
    assert Counter(kept.names) == Counter([*good])
    assert kept.failures == {}
    assert not is_alive(frozen[0])


def test_a_killed_run_goes_on_where_it_was_and_leaves_no_process(tmp_path: Path) -> None:
    good = {f"{number:03}": "well" for number in range(100)}
    files, log, kept = written(tmp_path / "files", good), tmp_path / "log", tmp_path / "kept"
    kept.mkdir()
    started = started_run(files, kept, log, "local")
    until(lambda: list(kept.glob("*.json")))
    started.kill()
    started.wait()
    workers = begun(log)
    until(lambda: not any(is_alive(each) for each in workers))
    again = Kept(kept)
    assert 32 <= len(again.rows) < 100
    ran(files, Deeds(), again)
    assert Counter(Kept(kept).names) == Counter([*good])


def test_a_cluster_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    folder = written(tmp_path / "files", {"a": "well"})
    with pytest.raises(FleetError, match="no cluster of Ray at"):
        ran(folder, Deeds(), Kept(), ray="auto")
