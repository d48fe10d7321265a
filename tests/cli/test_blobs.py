"""`graphwire blobs` verifies folders of blobs, and removes only what no program uses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

import graphwire
from graphwire.cli import main


def saved(path: Any, blobs: Any, value: float) -> Any:
    """A program with two weights; the first is the same in all programs."""
    model = torch.nn.Sequential(torch.nn.Linear(40, 30, bias=False), torch.nn.Linear(30, 20, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[1].weight.fill_(value)
    program = torch.export.export(model, (torch.ones(2, 40),))
    graphwire.save(program, path, weights=graphwire.Blobs(blobs))
    return path


def blobs_in(folder: Path) -> set[str]:
    return {each.relative_to(folder).as_posix() for each in folder.glob("??/*")}


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """A folder of blobs with three programs beside it; all files are three days old."""
    folder = tmp_path / "blobs"
    (tmp_path / "programs" / "tuned").mkdir(parents=True)
    for number, name in enumerate(("a.pt2", "b.pt2", "tuned/c")):
        saved(tmp_path / "programs" / name, folder, number + 2.0)
    for each in folder.rglob("*"):
        os.utime(each, (0, each.stat().st_mtime - 3 * 86400))
    return folder


def test_blobs_are_shared(blobs: Path) -> None:
    assert len(blobs_in(blobs)) == 4


def test_verify_lists_the_damaged_blobs(blobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blobs", "verify", str(blobs)]) == 0
    assert capsys.readouterr().out == f"{blobs}: no problems\n"
    damaged = sorted(blobs.glob("??/*"))[1]
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    assert main(["blobs", "verify", str(blobs)]) == 1
    assert "wrong-content" in capsys.readouterr().out
    assert main(["blobs", "verify", str(blobs), "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)
    assert problem["place"] == damaged.relative_to(blobs).as_posix()


def test_gc_keeps_what_any_program_uses(blobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = blobs.with_name("programs")
    assert main(["blobs", "gc", str(blobs), "--programs", str(programs)]) == 0
    assert capsys.readouterr().out == f"{blobs}: 0 files, 0 B removed; 4 blobs are used\n"
    (programs / "b.pt2").unlink()
    before = blobs_in(blobs)
    assert main(["blobs", "gc", str(blobs), "--programs", str(programs), "--dry-run"]) == 0
    assert "1 file, 2.3 KiB would be removed; 3 blobs are used" in capsys.readouterr().out
    assert blobs_in(blobs) == before
    assert main(["blobs", "gc", str(blobs), "--programs", str(programs), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["used"], report["removed"], len(report["files"])) == (3, True, 1)
    assert before - blobs_in(blobs) == {report["files"][0]["location"]}
    for name in ("a.pt2", "tuned/c"):
        loaded = graphwire.load(programs / name, weights=graphwire.Blobs(blobs))
        assert loaded.state_dict["0.weight"][0, 0] == 1.0


def test_gc_keeps_young_blobs(blobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = blobs.with_name("programs")
    saved(blobs.with_name("elsewhere.pt2"), blobs, 9.0)
    command = ["blobs", "gc", str(blobs), "--programs", str(programs)]
    assert main(command) == 0
    assert "0 files" in capsys.readouterr().out
    assert main([*command, "--older-than", "0"]) == 0
    assert "1 file, " in capsys.readouterr().out


def test_gc_searches_beside_the_blobs_and_over_links(blobs: Path) -> None:
    programs = blobs.with_name("programs")
    (programs / "a.pt2").rename(blobs / "a.pt2")
    (programs / "tuned").rename(programs.with_name("tuned"))
    (programs / "link").symlink_to("../tuned")
    (programs / "loop").symlink_to(".")
    before = blobs_in(blobs)
    assert main(["blobs", "gc", str(blobs), "--programs", str(programs), str(blobs)]) == 0
    assert blobs_in(blobs) == before


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["damaged.pt2"], "damaged.pt2"),
        (["."], "damaged.pt2"),
        (["missing.pt2"], "No such file"),
        (["empty"], "has no programs. Nothing is removed"),
    ],
)
def test_gc_removes_nothing_if_a_program_cannot_be_read(
    paths: list[str], message: str, blobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = blobs.with_name("programs")
    (programs / "empty").mkdir()
    (programs / "damaged.pt2").write_bytes((programs / "a.pt2").read_bytes()[:-100])
    before = blobs_in(blobs)
    given = [str(programs / path) for path in paths]
    assert main(["blobs", "gc", str(blobs), "--older-than", "0", "--programs", *given]) == 2
    assert message in capsys.readouterr().err
    assert blobs_in(blobs) == before


@pytest.mark.parametrize("hours", ["-1", "nan", "inf", "a day"])
def test_hours_are_a_number(hours: str, blobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blobs", "gc", str(blobs), "--programs", str(blobs), f"--older-than={hours}"]) == 2
    assert "is not a number of hours" in capsys.readouterr().err


def test_a_folder_that_is_no_store_of_blobs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blobs", "verify", str(tmp_path)]) == 2
    assert f"{tmp_path}: the folder is no store of blobs: it has no blobs.json" in capsys.readouterr().err
    (tmp_path / "file").touch()
    for name, problem in (("file", "Not a directory"), ("absent", "No such file or directory")):
        assert main(["blobs", "verify", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err == f"graphwire: error: {tmp_path / name}: {problem}\n"


@pytest.mark.parametrize("programs_are_local", [False, True])
def test_blobs_at_a_url_are_verified_and_collected(
    programs_are_local: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = fsspec.filesystem("memory")
    url = f"memory://shared-{programs_are_local}"
    programs = str(tmp_path) if programs_are_local else f"{url}/programs"
    kept, lost = (
        saved(f"{url}/programs/{name}", f"{url}/blobs", value) for name, value in (("a", 2.0), ("b.pt2", 3.0))
    )
    if programs_are_local:
        store.get(kept, str(tmp_path / "a"))
    store.pipe(f"{url}/programs/notes.txt", b"no archive")
    assert main(["blobs", "verify", f"{url}/blobs"]) == 0
    assert capsys.readouterr().out == f"{url}/blobs: no problems\n"
    store.rm(lost)
    command = ["blobs", "gc", f"{url}/blobs", "--programs", programs]
    assert main(command) == 0
    assert "0 files, 0 B removed" in capsys.readouterr().out  # they are young
    assert main([*command, "--older-than", "0", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["used"], len(report["files"])) == (2, 1)
    assert not store.exists(f"{url}/blobs/{report['files'][0]['location']}")
    assert graphwire.verify(kept, weights_from=graphwire.Blobs(f"{url}/blobs")) == []
    store.pipe(f"{url}/programs/damaged.pt2", store.cat(kept)[:-100])
    assert main(["blobs", "gc", f"{url}/blobs", "--programs", f"{url}/programs", "--older-than", "0"]) == 2
    assert f"{url}/programs/damaged.pt2" in capsys.readouterr().err
    assert main(["blobs", "gc", f"{url}/blobs", "--programs", f"{url}/absent", "--older-than", "0"]) == 2
    (blob, *_) = store.glob(f"{url}/blobs/??/*")
    store.pipe(blob, b"x" * store.size(blob))
    assert main(["blobs", "verify", f"{url}/blobs", "--quiet"]) == 1
    assert "wrong-content" in capsys.readouterr().out
    store.rm(url, recursive=True)
