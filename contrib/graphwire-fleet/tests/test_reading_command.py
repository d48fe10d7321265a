"""`graphwire fleet inspect` and `verify` on real archives and hostile files, also if the run is killed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire

sys.path.insert(0, str(Path(__file__).parent))

from fleet_works import until
from graphwire_fleet.command import ACTIONS


def fleet(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphwire", "fleet", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    assert "leaked" not in done.stderr  # DuckDB, about what is not collected at the end
    return done


def asked(catalogue: Path, sql: str) -> list[dict[str, Any]]:
    done = fleet("query", catalogue, sql, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("word", ["absent.pt2", "absent*.pt2", "."])
def test_a_catalogue_is_made_of_files_alone(word: str, tmp_path: Path) -> None:
    done = fleet("inspect", word, "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred archives, and files that are none."""
    folder = tmp_path_factory.mktemp("fleet")
    sources = []
    for number in range(4):
        layers = [torch.nn.Linear(4, 4) for _ in range(number + 1)]
        sources.append(folder.parent / f"{folder.name}-{number}.pt2")
        graphwire.save(torch.export.export(torch.nn.Sequential(*layers), (torch.ones(1, 4),)), sources[-1])
    for number in range(100):
        os.link(sources[number % 4], folder / f"good{number:03}.pt2")
    data = sources[3].read_bytes()
    (folder / "bad-truncated.pt2").write_bytes(data[: len(data) // 2])
    (folder / "bad-empty.pt2").write_bytes(b"")
    (folder / "bad-random.pt2").write_bytes(os.urandom(1 << 16))
    (folder / "bad-flipped.pt2").write_bytes(data.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with (
        zipfile.ZipFile(sources[0]) as archive,
        zipfile.ZipFile(folder / "bad-bomb.pt2", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in archive.namelist():
            large = name.endswith(".json") or ".msgpack" in name
            bomb.writestr(name, b"[" * (256 << 20) if large else archive.read(name))
    os.mkfifo(folder / "bad-fifo.pt2")
    (folder / "bad-dangling.pt2").symlink_to("nowhere")
    return folder


def test_hostile_files_are_rows_beside_the_others_and_count_for_the_exit_code(
    folder: Path, tmp_path: Path
) -> None:
    catalogue = tmp_path / "catalogue"
    done = fleet("inspect", folder, "-o", catalogue, "--workers", "2", "--memory", "1G")
    assert done.returncode == 2, done.stderr
    assert "107 files read" in done.stderr
    (counts,) = asked(
        catalogue, "select count(*) n, count(distinct file) files, count(failure_kind) failed from files"
    )
    assert counts == {"n": 107, "files": 107, "failed": 7}
    failed = asked(catalogue, "select file from files where failure_kind is not null")
    assert {Path(row["file"]).name.partition("-")[0] for row in failed} == {"bad"}
    assert asked(catalogue, "select count(distinct hash) n, count(*) programs from programs") == [
        {"n": 4, "programs": 100}
    ]
    again = fleet("inspect", folder, "-o", catalogue)
    assert again.returncode == 2
    assert "unchanged" in again.stderr
    fine = fleet("verify", folder / "good*.pt2", "-o", catalogue)
    assert fine.returncode == 0, fine.stderr
    assert fleet("verify", folder / "nowhere.pt2", folder / "good001.pt2", "-o", catalogue).returncode == 2


@pytest.mark.parametrize(
    "words", ["--workers 0", "--batch-files -1", "--timeout nan", "--timeout 0", "--memory 0", "--memory 2X"]
)
def test_options_that_make_no_sense_are_refused(words: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args([*words.split(), "x", "-o", str(tmp_path)])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    ACTIONS["inspect"].add(made)
    return made


def test_a_killed_run_goes_on_and_the_catalogue_is_that_of_one_run(folder: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    fleet("inspect", folder / "good*.pt2", "-o", whole)
    command = [sys.executable, "-m", "graphwire", "fleet", "inspect", folder / "good*.pt2", "-o", killed]
    started = subprocess.Popen([*command, "--batch-files", "1", "--workers", "1"], stderr=subprocess.DEVNULL)
    until(lambda: list(killed.glob("commits/*.json")))
    started.send_signal(signal.SIGKILL)
    started.wait()
    done = fleet("inspect", folder / "good*.pt2", "-o", killed)
    assert done.returncode == 0, done.stderr
    assert "; 0 unchanged" not in done.stderr
    questions = (
        "select file, stamp, bytes, layout from files order by all",
        "select file, method, hash, nodes, parameters from programs order by all",
        "select file, graph, index, name, target, arguments from nodes order by all",
        "select file, name, shape, digest from weights order by all",
    )
    for question in questions:
        assert asked(killed, question) == asked(whole, question) != []
