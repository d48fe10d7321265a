"""Files are rewritten whole or not at all, killed runs go on, and all of it can be undone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import torch
from fleet_files import corpus, listed
from graphwire_fleet.rewriting import check_destinations, undo
from graphwire_fleet.rewriting.checking import CheckError, check
from graphwire_fleet.rewriting.works import Converting, Upgrading
from graphwire_fleet.work import File

import graphwire
from graphwire.cli import main
from graphwire.errors import ArchiveError

TESTS = Path(__file__).parent


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A few files of old releases, in two folders, and a damaged one."""
    folder = tmp_path / "models"
    for release in ("2.1.0", "2.6.0"):
        (folder / release).mkdir(parents=True)
        for path in sorted((corpus() / release).glob("l*.pt2")):
            shutil.copy(path, folder / release)
    (folder / "damaged.pt2").write_bytes(b"damaged")
    (folder / "2.1.0/linear.pt2").chmod(0o640)
    return folder


def fleet(*words: Any) -> int:
    return main(["fleet", *map(str, words)])


# ------------------------------------------------------------------------------------------------------- what is written


def test_files_are_converted_in_place_and_undo_brings_back_every_byte(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, journal = bytes_below(folder), tmp_path / "journal"
    command = ["convert", folder, "--in-place", "--format", "msgpack", "--journal", journal, "--workers", "2"]
    assert fleet(*command, "--dry-run", "--json") == 2
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["action"] for row in rows} == {"would be written", "failed"}
    assert len(rows) == len(before)
    assert (bytes_below(folder), journal.exists()) == (before, False)

    assert fleet(*command, "--json") == 2
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    after = bytes_below(folder)
    assert after.keys() == before.keys()
    for row in rows:
        path = Path(row["file"])
        if path.name == "damaged.pt2":
            assert (row["action"], row["kind"]) == ("failed", "NotAnArchiveError")
            assert path.read_bytes() == b"damaged"
        else:
            assert row["action"] == "written"
            assert row["bytes_after"] == path.stat().st_size
            with graphwire.open(path) as archive:
                assert archive.format_of("model") == "msgpack"
    assert (folder / "2.1.0/linear.pt2").stat().st_mode & 0o777 == 0o640
    report = b"".join(each.read_bytes() for each in (journal / "report").iterdir())
    assert sorted(map(json.loads, report.splitlines()), key=str) == sorted(rows, key=str)

    assert fleet(*command) == 2
    assert "written before" in capsys.readouterr().out
    assert bytes_below(folder) == after
    assert fleet("undo", journal, "--dry-run") == 0
    assert bytes_below(folder) == after
    assert fleet("undo", journal) == 0
    assert bytes_below(folder) == before
    assert fleet("undo", journal) == 0
    assert bytes_below(folder) == before
    assert (folder / "2.1.0/linear.pt2").stat().st_mode & 0o777 == 0o640


def test_files_go_to_another_root_and_undo_removes_them(folder: Path, tmp_path: Path) -> None:
    before, root, journal = bytes_below(folder), tmp_path / "new", tmp_path / "journal"
    (root / "2.6.0").mkdir(parents=True)
    (root / "2.6.0/linear.pt2").write_bytes(b"was there")
    assert fleet("convert", folder, "-o", root, "--target", "torch-2.9", "--journal", journal) == 2
    assert bytes_below(folder) == before
    assert bytes_below(root).keys() == before.keys() - {"damaged.pt2"}
    assert graphwire.inspect(root / "2.6.0/linear.pt2").methods[0].report.readable_from <= "torch-2.9"
    assert fleet("undo", journal) == 0
    assert bytes_below(root) == {"2.6.0/linear.pt2": b"was there"}


def test_an_upgrade_touches_what_is_old_and_nothing_else(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "damaged.pt2").unlink()
    old = folder / "old.pt2"
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
    graphwire.save(torch.export.export(module, (torch.ones(1, 2),)), old)
    graphwire.convert(old, old, opset_version={"aten": 8})
    before = bytes_below(folder)
    inodes = {each: each.stat().st_ino for each in folder.rglob("*.pt2")}
    command = ["upgrade", folder, "--in-place", "--journal", tmp_path / "journal", "--check"]
    assert fleet(*command, "--dry-run") == 0
    assert "old.pt2: would be written, aten 8 -> 9" in capsys.readouterr().out
    assert bytes_below(folder) == before
    assert fleet(*command) == 0
    printed = capsys.readouterr()
    assert "bit-equal" in printed.out
    assert f"{len(before) - 1} nothing to do" in printed.err
    assert [each for each, inode in inodes.items() if each.stat().st_ino != inode] == [old]
    assert not graphwire.plan_upgrade(old)["model"].steps
    assert fleet("undo", tmp_path / "journal") == 0
    assert bytes_below(folder) == before


def test_a_link_stays_a_link(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    shutil.move(folder / "2.6.0/linear.pt2", store / "linear.pt2")
    link = folder / "2.6.0/linear.pt2"
    link.symlink_to(store / "linear.pt2")
    before = link.read_bytes()
    words = ["--in-place", "--format", "msgpack", "--journal", tmp_path / "journal"]
    assert fleet("convert", link, *words) == 0
    assert link.is_symlink()
    assert (store / "linear.pt2").read_bytes() != before
    assert fleet("undo", tmp_path / "journal") == 0
    assert link.is_symlink()
    assert link.read_bytes() == before


def test_weights_in_other_files_stay_there_and_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models, journal = tmp_path / "models", tmp_path / "journal"
    models.mkdir()
    program = torch.export.export(torch.nn.Linear(64, 64), (torch.ones(1, 64),))
    graphwire.save(program, models / "a.pt2", weights=models / "a.safetensors")
    before = bytes_below(models)
    words = ["convert", models, "--format", "msgpack", "--check", "--journal"]
    assert fleet(*words, journal, "--in-place") == 0
    assert "bit-equal" in capsys.readouterr().out
    after = bytes_below(models)
    assert [name for name in after if after[name] != before.get(name)] == ["a.pt2"]
    assert fleet("undo", journal) == 0
    assert bytes_below(models) == before
    assert fleet(*words, tmp_path / "other", "-o", tmp_path / "new") == 2
    assert "not below the folder of the new file" in capsys.readouterr().out
    assert bytes_below(tmp_path / "new") == {}


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("kind", ["names", "case", "below", "linked", "itself"])
def test_conflicts_are_refused_before_anything_is_written(
    kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "new"
    words: dict[str, list[Any]] = {
        "names": [folder / "2.1.0", folder / "2.6.0", "-o", root],
        "case": [folder / "2.6.0", "-o", root],
        "below": [folder, "-o", folder / "new"],
        "itself": [folder / "2.1.0/linear.pt2", folder / "2.6.0/linear_strict.pt2", "-o", folder / "2.1.0"],
        "linked": [folder, "-o", tmp_path / "elsewhere/new"],
    }
    (tmp_path / "elsewhere").symlink_to(folder)
    (folder / "2.6.0/LINEAR.pt2").write_bytes((folder / "2.6.0/linear.pt2").read_bytes())
    (folder / "2.1.0/link.pt2").symlink_to(folder / "2.1.0/linear.pt2")
    before = bytes_below(tmp_path)
    if kind == "names":
        (folder / "2.6.0/LINEAR.pt2").unlink()
        (folder / "2.1.0/link.pt2").unlink()
        before = bytes_below(tmp_path)
    assert fleet("convert", *words[kind], "--journal", tmp_path / "journal") == 2
    assert "nothing was written" in capsys.readouterr().err
    assert bytes_below(tmp_path) == before


def test_undo_refuses_a_file_that_changed_since_and_puts_back_the_others(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, journal = bytes_below(folder), tmp_path / "journal"
    (folder / "damaged.pt2").unlink()
    assert fleet("convert", folder, "--in-place", "--stored", "--journal", journal) == 0
    changed, gone, unkept = (
        folder / f"2.6.0/{name}.pt2" for name in ("linear", "linear_strict", "loss_heads")
    )
    changed.write_bytes(b"somebody wrote this")
    gone.unlink()
    kept = next(
        each
        for each in (journal / "kept").rglob("*")
        if each.is_file() and each.read_bytes() == before["2.6.0/loss_heads.pt2"]
    )
    kept.unlink()
    kept.write_bytes(b"lost")
    written = unkept.read_bytes()
    capsys.readouterr()
    assert fleet("undo", journal) == 2
    printed = capsys.readouterr()
    assert printed.out.count("refused: ") == 3
    assert "3 refused" in printed.err
    now = bytes_below(folder)
    assert now.pop("2.6.0/linear.pt2") == b"somebody wrote this"
    assert now.pop("2.6.0/loss_heads.pt2") == written
    assert all(before[name] == data for name, data in now.items())
    assert len(now) == len(before) - 4


def test_a_journal_of_another_action_and_a_folder_that_is_none_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "2.6.0/linear.pt2"
    journal = tmp_path / "journal"
    assert fleet("convert", path, "--in-place", "--stored", "--journal", journal) == 0
    before = bytes_below(folder)
    assert fleet("convert", path, "--in-place", "--format", "msgpack", "--journal", journal) == 2
    assert "journal of another action" in capsys.readouterr().err
    assert fleet("convert", path, "--in-place", "--stored", "--journal", folder) == 2
    assert "is not empty, and no journal" in capsys.readouterr().err
    assert fleet("undo", folder) == 2
    assert "this is no journal" in capsys.readouterr().err
    path.write_bytes((folder / "2.6.0/linear_strict.pt2").read_bytes())
    assert fleet("convert", path, "--in-place", "--stored", "--journal", journal) == 2
    assert "changed after this journal was begun" in capsys.readouterr().out
    assert {**bytes_below(folder), "2.6.0/linear.pt2": before["2.6.0/linear.pt2"]} == before


def test_no_name_leads_out_of_the_folder_and_none_takes_the_place_of_another(tmp_path: Path) -> None:
    source, journal = str(corpus() / "2.6.0/linear.pt2"), tmp_path / "journal"
    (journal / "entries").mkdir(parents=True)
    (journal / "journal.json").write_text('{"version": 1}')
    work = Converting(str(tmp_path / "a/b"), str(journal))
    for below in ("../bad.pt2", "deep/../../bad.pt2", "/bad.pt2", ""):
        failure = work(File(source, source, below, 1, "")).failure
        assert failure is not None
        assert "leads out" in failure.message
    assert work(File(source, source, "good.pt2", 1, "")).failure is None
    failure = work(File("other", source, "good.pt2", 1, "")).failure
    assert failure is not None
    assert "is written to" in failure.message
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.pt2")] == ["a/b/good.pt2"]


# -------------------------------------------------------------------------------------------------------------- checks


class Net(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count.add_(1)
        return {"y": torch.nn.functional.dropout(x) * self.factor, "n": torch.log(x - 2)}


def saved(path: Path, factor: float, **options: Any) -> str:
    graphwire.save(torch.export.export(Net(factor), (torch.ones(4),)), path, **options)
    return str(path)


def test_results_are_bit_equal_within_tolerance_or_different(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.pt2", 3.0)
    assert check(source, Path(saved(tmp_path / "same.pt2", 3.0)), {}) == "bit-equal"
    assert check(source, Path(saved(tmp_path / "close.pt2", 3.0000004)), {}) == "within tolerance"
    bare = saved(tmp_path / "bare.pt2", 3.0, strip={"example_inputs"})
    assert check(bare, Path(bare), {}) == "no example inputs"
    assert check(source, Path(bare), {}) == "bit-equal"
    with pytest.raises(CheckError, match=r"'y'.* differs"):
        check(source, Path(saved(tmp_path / "other.pt2", 3.1)), {})
    custom = corpus() / "2.6.0/custom_op_many.pt2"
    with pytest.raises(CheckError, match=r"cannot be run before: .*no operator"):
        check(str(custom), custom, {})


class Damaging(Converting):
    """Writes a program that returns something else."""

    def rewrite(self, file: File, path: Path) -> list[str]:
        saved(path, 3.1)
        return []


def test_a_file_that_fails_the_check_is_not_replaced(tmp_path: Path) -> None:
    models, journal = tmp_path / "models", tmp_path / "journal"
    models.mkdir()
    path = Path(saved(models / "a.pt2", 3.0))
    before = bytes_below(models)
    result = Damaging(None, str(journal), checked=True)(listed(path)[0])
    assert result.failure is not None
    assert (result.failure.kind, result.failure.place) == ("CheckError", "model")
    assert bytes_below(models) == before
    assert not [each for each in journal.rglob("*") if each.is_file()]
    assert Damaging(None, str(journal), checked=False)(listed(path)[0]).failure is None
    assert bytes_below(models) != before


def test_without_torch_the_check_says_so_and_the_rest_works(folder: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from graphwire.cli import main; sys.exit(main(sys.argv[1:]))"
    path, journal = folder / "2.6.0/linear.pt2", tmp_path / "journal"
    words = ["fleet", "convert", path, "--in-place", "--format", "msgpack", "--journal", journal]
    before = bytes_below(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    assert bytes_below(tmp_path) == before


# -------------------------------------------------------------------------------------------------------------- stores


def test_files_in_a_store_are_rewritten_and_put_back(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    paths = sorted((corpus() / "2.6.0").glob("l*.pt2"))
    for path in paths:
        store.pipe_file(f"/fleet/models/{path.name}", path.read_bytes())
    files, journal = listed("memory://fleet/models"), tmp_path / "journal"
    (journal / "entries").mkdir(parents=True)
    (journal / "journal.json").write_text('{"version": 1}')
    work = Converting(None, str(journal), checked=True, wanted={"format": "msgpack"})
    for file in files:
        result = work(file)
        assert result.failure is None
        assert result.tables["report"][0]["action"] == "written"
        assert result.tables["report"][0]["check"] == "bit-equal"
    assert [each for each in store.ls("/fleet/models", detail=False) if ".part" in each] == []
    with graphwire.open("memory://fleet/models/linear.pt2") as archive:
        assert archive.format_of("model") == "msgpack"
    other = Converting("memory://fleet/new", str(journal), wanted={"target": "torch-2.9"})
    assert [work(each).tables["report"][0]["action"] for each in files] == ["written before"] * len(files)
    assert [other(each).failure for each in files] == [None] * len(files)
    assert len(store.ls("/fleet/new")) == len(paths)
    assert {each.outcome for each in undo(journal)} == {"restored", "removed"}
    assert store.find("/fleet/new") == []
    for path in paths:
        assert store.cat_file(f"/fleet/models/{path.name}") == path.read_bytes()
    secret = File("memory://x", "memory://user:secret@fleet/models/linear.pt2", "linear.pt2", 1, "")
    with pytest.raises(ArchiveError, match="password or a signature"):
        check_destinations([secret], [], work)


# -------------------------------------------------------------------------------------------------------------- killed

_STEPS = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fleet_files import listed
from graphwire_fleet.rewriting import check_destinations, undo
from graphwire_fleet.rewriting.works import Converting

folder, journal, before = Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]).read_bytes()
path = folder / "a.pt2"
EVENTS = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.chmod", "open"}

def work():
    return Converting(None, str(journal), wanted={"format": "msgpack"})(listed(path)[0])

def die_at(step):
    left = step
    def hook(event, arguments):
        nonlocal left
        if event in EVENTS and not (event == "open" and not isinstance(arguments[0], (str, bytes, os.PathLike))):
            if "fleet" in str(arguments[0]) or "journal" in str(arguments[0]) or "a.pt2" in str(arguments[0]):
                left -= 1
                if not left:
                    os._exit(77)
    sys.addaudithook(hook)

steps = 0
work()  # what is imported on the way is imported now
for each in undo(journal): pass
after = None
while True:
    steps += 1
    os.system(f"rm -rf '{journal}'/entries '{journal}'/kept '{journal}'/parts")
    child = os.fork()
    if not child:
        die_at(steps)
        os._exit(0 if work().failure is None else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 77), code
    now = path.read_bytes()
    if code == 0:
        break
    for undone_at in (0, 3) if steps % 2 else (0,):  # undone as it is, and after another process died while it undid
        if undone_at:
            child = os.fork()
            if not child:
                die_at(undone_at)
                for each in undo(journal): pass
                os._exit(0)
            os.waitpid(child, 0)
        else:
            child = os.fork()  # goes on, and is whole
            if not child:
                os._exit(0 if work().failure is None else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, steps
            assert path.read_bytes() != before, steps
            assert after is None or path.read_bytes() == after, steps
            after = path.read_bytes()
        assert now in (before, after), steps
    outcomes = {each.outcome for each in undo(journal)}
    assert outcomes <= {"restored", "as before"}, (steps, outcomes)
    assert path.read_bytes() == before, steps
    assert [each.name for each in folder.iterdir()] == ["a.pt2"], steps
print(steps)
"""


def test_a_process_may_be_killed_at_any_step(tmp_path: Path) -> None:
    source = corpus() / "2.6.0/linear.pt2"
    folder, journal = tmp_path / "fleet", tmp_path / "journal"
    folder.mkdir()
    journal.mkdir()
    (journal / "journal.json").write_text('{"version": 1}')
    shutil.copy(source, folder / "a.pt2")
    command = [sys.executable, "-c", _STEPS, TESTS, folder, journal, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15


def test_a_killed_run_goes_on_and_can_be_undone(tmp_path: Path) -> None:
    models, journal = tmp_path / "models", tmp_path / "journal"
    models.mkdir()
    for number in range(60):
        shutil.copy(corpus() / "2.6.0/linear.pt2", models / f"{number:02}.pt2")
    before = bytes_below(models)
    words = ["fleet", "convert", models, "--in-place", "--format", "msgpack", "--journal", journal]
    command = [sys.executable, "-m", "graphwire", *map(str, words), "--workers", "2", "--batch-files", "4"]
    with subprocess.Popen(command, start_new_session=True) as running:
        deadline = time.monotonic() + 60
        while len(list(journal.glob("entries/*/*.json"))) < 8:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
    between = {name: data for name, data in bytes_below(models).items() if name.endswith(".pt2")}
    written = {data for name, data in between.items() if data != before[name]}
    assert len(written) == 1
    assert sum(data in written for data in between.values()) < len(before)
    assert subprocess.run(command, check=False).returncode == 0
    assert {*bytes_below(models).values()} == written
    assert bytes_below(models).keys() == before.keys()
    assert fleet("undo", journal, "--quiet") == 0
    assert bytes_below(models) == before


def test_the_plan_of_an_upgrade_that_is_impossible_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    shutil.copy(corpus() / "2.13.0/linear.pt2", path)
    work = Upgrading(None, None, wanted={"opset_version": {"aten": 99}})
    result = work(listed(path)[0])
    assert result.failure is not None
    assert result.failure.kind == "OpsetError"
