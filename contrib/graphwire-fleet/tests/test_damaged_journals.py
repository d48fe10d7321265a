"""What a rewriting finds instead of files, and a journal that somebody changed: nothing is lost, and nothing else is written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_files import asked, corpus
from graphwire_fleet.rewriting.journal import Entry, Journal
from graphwire_fleet.rewriting.places import LocalFile, LocalPlace

from graphwire.cli import main
from graphwire.errors import ArchiveError

NAMES = ("linear", "linear_strict", "loss_heads")


def contents(folder: Path) -> dict[str, bytes]:
    return {os.fsdecode(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in NAMES:
        shutil.copy(corpus() / f"2.6.0/{name}.pt2", folder)
    return folder


def fleet(*words: Any) -> int:
    return main(["fleet", *map(str, words)])


def converted(folder: Path, *words: Any) -> Path:
    journal = folder.with_name("journal")
    assert (
        fleet("convert", folder, *(words or ["--in-place"]), "--format", "msgpack", "--journal", journal) == 0
    )
    return journal


# ----------------------------------------------------------------------------------------------------------- other things


def test_a_file_with_several_names_is_rewritten_once_and_links_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latest = folder / "latest.pt2"
    latest.symlink_to("linear.pt2")
    os.link(folder / "linear_strict.pt2", folder / "same.pt2")
    shutil.copy(folder / "linear.pt2", folder / "LINEAR.pt2")
    (folder.parent / "link.pt2").symlink_to(folder / "linear.pt2")
    before = contents(folder)
    journal = folder.with_name("journal")
    words = ["convert", folder.parent / "link.pt2", folder, "--in-place", "--format", "msgpack"]
    assert fleet(*words, "--journal", journal) == 0
    printed = capsys.readouterr()
    assert f"{folder / 'linear.pt2'}: linked, {latest}" in printed.out
    assert "5 written, 2 linked" in printed.err
    assert latest.is_symlink()
    assert not any(each == before[name] for name, each in contents(folder).items())
    assert fleet("undo", journal) == 0
    assert contents(folder) == before
    assert latest.is_symlink()


def test_runs_with_journals_of_their_own_at_once_take_turns_and_both_can_be_undone(folder: Path) -> None:
    for number in range(20):
        shutil.copy(folder / "linear.pt2", folder / f"{number}.pt2")
    before, running = contents(folder), []
    for name in ("msgpack", "cbor"):
        words = ["convert", folder, "--in-place", "--format", name, "--journal", folder.with_name(name)]
        command = [sys.executable, "-m", "graphwire", "fleet", *map(str, words)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for each in running:
        printed, _ = each.communicate()
        assert (each.returncode, printed.count(": written")) == (0, len(before)), printed
    assert set(contents(folder)) == set(before)
    for name in ("msgpack", "cbor", "msgpack", "cbor"):  # The later one of each file is undone first.
        fleet("undo", folder.with_name(name))
    assert contents(folder) == before


@pytest.mark.parametrize("what", ["a link", "a broken link", "a named pipe", "a folder"])
def test_only_regular_files_are_replaced(
    what: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "new/linear.pt2"
    place.parent.mkdir()
    make: dict[str, Callable[[], object]] = {
        "a link": lambda: place.symlink_to("../models/loss_heads.pt2"),
        "a broken link": lambda: place.symlink_to("nowhere"),
        "a named pipe": lambda: os.mkfifo(place),
        "a folder": place.mkdir,
    }
    make[what]()
    before, found = contents(folder), place.lstat()
    assert fleet("convert", folder, "-o", place.parent, "--journal", tmp_path / "journal") == 2
    assert f"there is no regular file, but {what.replace('broken ', '')}: {place}" in capsys.readouterr().out
    assert fleet("undo", tmp_path / "journal") == 0
    assert (contents(folder), place.lstat().st_ino) == (before, found.st_ino)


def test_undo_waits_for_no_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = converted(folder)
    pipe, kept = folder / "linear.pt2", min(each for each in journal.glob("kept/*/*"))
    for path in (pipe, kept):
        path.unlink()
        os.mkfifo(path)
    assert fleet("undo", journal) == 2
    assert "but a named pipe" in capsys.readouterr().out


def test_journals_and_catalogues_are_not_read_as_files_of_a_fleet(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)
    monkeypatch.chdir(folder)
    assert fleet("convert", "**/*", "--in-place", "--format", "msgpack", "--journal", "first") == 0
    assert fleet("inspect", "**/*", "-o", "catalogue") == 0
    assert fleet("convert", "**/*", "--in-place", "--format", "cbor", "--journal", "second") == 0
    assert asked("catalogue", "SELECT file FROM files ORDER BY file") == [
        (str(folder / f"{name}.pt2"),) for name in NAMES
    ]
    assert fleet("undo", "second") == 0
    assert fleet("undo", "first") == 0
    assert {name: each for name, each in contents(folder).items() if name in before} == before


def test_a_file_whose_name_is_not_utf_8_stays_in_the_catalogue(tmp_path: Path) -> None:
    good = corpus() / "2.6.0/linear.pt2"
    (tmp_path / "models").mkdir()
    names = (b"a\xff.pt2", rb"a\xff.pt2", rb"a\x5cxff.pt2", rb"a\udcff.pt2", rb"b\xff.pt2", b"c.pt2")
    for name in names:
        shutil.copy(good, os.fsencode(tmp_path / "models") + b"/" + name)
    place = tmp_path / "catalogue"
    assert fleet("inspect", tmp_path / "models", "-o", place) == 0
    assert fleet("inspect", tmp_path / "models/c*.pt2", "-o", place) == 0
    assert asked(place, "SELECT count(*) FROM files") == [(6,)]
    (tmp_path / "models" / os.fsdecode(b"a\xff.pt2")).unlink()
    assert fleet("inspect", tmp_path / "models/c*.pt2", "-o", place) == 0
    assert asked(place, "SELECT count(*) FROM files") == [(5,)]


def limited(limit: int, *words: Any) -> subprocess.CompletedProcess[str]:
    """Run an action in a process whose files have a largest size, as on a disk that gets full."""
    return subprocess.run(
        [sys.executable, "-m", "graphwire", "fleet", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


def test_what_cannot_be_written_is_an_error_with_a_place_and_the_same_command_goes_on(folder: Path) -> None:
    place, journal = folder.with_name("catalogue"), folder.with_name("journal")
    for limit, failed in (
        (2_000, "what is known of the files cannot be kept"),
        (9_000, "it cannot be written"),
    ):
        done = limited(limit, "inspect", folder, "-o", place)
        assert (done.returncode, failed in done.stderr) == (2, True), done.stderr
        assert "Make room" in done.stderr
        assert asked(place, "SELECT * FROM programs") == []
    assert fleet("inspect", folder, "-o", place) == 0
    assert asked(place, "SELECT count(*) FROM programs") == [(len(NAMES),)]

    words = ["convert", folder, "--in-place", "--stored", "--journal", journal]
    (folder / "large.pt2").write_bytes((corpus() / "2.6.0/transformer_layer.pt2").read_bytes())
    before = contents(folder)
    done = limited(12_288, *words)
    assert done.returncode == 2
    assert f"{folder / 'large.pt2'}: OSError: File too large" in done.stdout
    assert contents(folder)[str(folder / "large.pt2")] == before[str(folder / "large.pt2")]
    assert set(contents(folder)) == set(before)
    assert fleet(*words) == 0
    assert fleet("undo", journal) == 0
    assert contents(folder) == before


# --------------------------------------------------------------------------------------------------------- changed by hand


def elsewhere(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"destination": str(victim)}


def new_elsewhere(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"destination": str(victim), "before": None}


def numbers(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"before": [1, "2"]}


def endless(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"after": ["", float("inf")]}


def half_a_character(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"destination": "/\ud800"}


def nested(tree: dict[str, Any], victim: Path) -> str:
    return "[" * 100_000


def signed(tree: dict[str, Any], victim: Path) -> Any:
    return tree | {"destination": "memory://user:hunter2@host/x?signature=hunter2"}


@pytest.mark.parametrize(
    "change", [elsewhere, new_elsewhere, numbers, endless, half_a_character, nested, signed]
)
def test_an_entry_that_was_changed_is_refused_and_the_others_are_put_back(
    change: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, victim = contents(folder), tmp_path / "victim.pt2"
    journal = converted(folder)
    shutil.copy(folder / "linear.pt2", victim)  # The bytes are those that the entry has.
    entry = next(each for each in journal.glob("entries/*/*.json") if "linear.pt2" in each.read_text())
    whole = entry.read_text()
    changed = change(json.loads(whole), victim)
    entry.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    after = contents(folder)
    assert fleet("undo", journal) == 2
    printed = capsys.readouterr().out
    assert f"{entry.name}: refused: an entry of the journal is damaged" in printed
    assert "hunter2" not in printed
    assert f"The file as it was is {journal / 'kept' / entry.parent.name / entry.stem}" in printed
    path = str(folder / "linear.pt2")
    assert contents(folder) == before | {path: after[path]}
    assert victim.read_bytes() == after[path]
    # To go on with it fails for this file alone, too.
    assert fleet("convert", folder, "--in-place", "--format", "msgpack", "--journal", journal) == 2
    assert "2 written, 1 failed" in capsys.readouterr().err
    entry.write_text(whole)
    assert fleet("undo", journal) == 0
    assert contents(folder) == before


@pytest.mark.parametrize("way", ["..", "a link", "a link above", "twice", "absolute"])
def test_undo_goes_nowhere_but_below_its_root(
    way: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, outside = tmp_path / "new", tmp_path / "outside"
    assert fleet("convert", folder, "-o", root, "--format", "msgpack", "--journal", tmp_path / "journal") == 0
    outside.mkdir()
    shutil.copy(root / "linear.pt2", outside / "linear.pt2")
    (root / "linked").symlink_to(outside)
    (root / "deep").mkdir()
    (root / "deep/linked").symlink_to("../../outside")
    destination = {
        "..": f"{root}/../outside/linear.pt2",
        "a link": f"{root}/linked/linear.pt2",
        "a link above": f"{root}/deep/linked/linear.pt2",
        "twice": f"{root}//linear.pt2",
        "absolute": f"{outside}/linear.pt2",
    }[way]
    journal = Journal(tmp_path / "journal")
    written = next(
        each for each in journal.entries() if isinstance(each, Entry) and each.file.endswith("linear.pt2")
    )
    journal.write(replace(written, destination=destination))
    before = contents(outside)
    assert fleet("undo", tmp_path / "journal") == 2
    said = "leads over a symbolic link" if "link" in way else "its destination is not below"
    assert said in capsys.readouterr().out
    assert contents(outside) == before


@pytest.mark.parametrize(
    "name", ["a:b.pt2", "nul.pt2", "a\nb.pt2", "x?.pt2", " .pt2", os.fsdecode(b"\xff.pt2")]
)
def test_undo_puts_files_of_any_name_back(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / "linear.pt2").rename(folder / name)
    root, journal = tmp_path / "new", tmp_path / "journal"
    assert fleet("convert", folder, "-o", root, "--format", "msgpack", "--journal", journal) == 0
    assert (root / name).is_file()
    assert fleet("undo", journal) == 0
    assert contents(root) == {}


ACTS: dict[str, Callable[[LocalPlace, Path], object]] = {
    "facts": lambda place, other: place.facts(),
    "keep": lambda place, other: place.keep(LocalFile(other.with_name("kept"))),
    "put": lambda place, other: place.put(LocalFile(other)),
    "make": lambda place, other: place.workplace("new", other).make(),
    "clear": lambda place, other: place.workplace("identity", other).clear(),
    "restore": lambda place, other: place.restore(LocalFile(other), place.workplace("identity", other).part),
    "remove": lambda place, other: place.remove(),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_folder_that_becomes_a_link_after_it_was_looked_at_is_not_followed(
    act: str, depth: int, tmp_path: Path
) -> None:
    root, outside, other = tmp_path / "root", tmp_path / "outside", tmp_path / "other"
    below = "/".join("abc"[:depth])
    for each in (root / below, outside / below):
        each.mkdir(parents=True)
        (each / "x.pt2").write_bytes(b"as it was")
        (each / ".graphwire-fleet-identity").mkdir()
        (each / ".graphwire-fleet-identity/new").write_bytes(b"part")
    other.write_bytes(b"new")
    place, before = LocalPlace(root / below / "x.pt2", root), contents(outside)
    assert place.facts() is not None
    (root / "a").rename(root / "away")
    (root / "a").symlink_to(outside / "a")
    with pytest.raises(ArchiveError, match="leads over a symbolic link"):
        ACTS[act](place, other)
    assert contents(outside) == before
    assert not (tmp_path / "kept").exists()
