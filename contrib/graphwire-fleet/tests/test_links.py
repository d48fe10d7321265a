"""Links and pipes that somebody puts into the folder of a catalogue or journal: none is followed, emptied or waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graphwire_fleet.catalogue.folders import LocalFolder
from graphwire_fleet.rewriting.journal import Entry, Journal
from graphwire_fleet.rewriting.places import Facts, LocalPlace
from graphwire_fleet.rewriting.undoing import undo

from graphwire.errors import ArchiveError

FILES = ("catalogue.json", "commits/0.json")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "0.json").write_bytes(b"a secret")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "catalogue"
    (folder / "commits").mkdir(parents=True)
    return folder


def test_a_lock_that_is_a_link_empties_nothing(root: Path, outside: Path) -> None:
    (root / ".lock").symlink_to(outside / "0.json")
    with pytest.raises(ArchiveError, match="cannot be written"), LocalFolder(root).locked():
        pass
    assert (outside / "0.json").read_bytes() == b"a secret"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_a_link_is_replaced_and_never_read(name: str, root: Path, outside: Path) -> None:
    (root / name).symlink_to(outside / "0.json")
    folder = LocalFolder(root)
    with pytest.raises(ArchiveError):
        folder.read(name)
    with folder.writing(name) as stream:
        stream.write(b"new")
    assert folder.read(name) == b"new"
    assert (outside / "0.json").read_bytes() == b"a secret"


def test_a_folder_that_is_a_link_is_neither_read_nor_written(root: Path, outside: Path) -> None:
    (root / "commits").rmdir()
    (root / "commits").symlink_to(outside)
    folder = LocalFolder(root)
    with pytest.raises(ArchiveError):
        folder.names("commits")
    with pytest.raises(ArchiveError):
        folder.read("commits/0.json")
    with pytest.raises(ArchiveError), folder.writing("commits/1.json") as stream:
        stream.write(b"new")
    assert [each.name for each in outside.iterdir()] == ["0.json"]


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_not_waited_for(name: str, root: Path) -> None:
    os.mkfifo(root / name)
    with pytest.raises(ArchiveError, match="not a regular file"):
        LocalFolder(root).read(name)


def test_a_lock_that_is_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / ".lock")
    with suppress(ArchiveError), LocalFolder(root).locked():
        pass


JOURNALED = (
    "journal.json",
    "entries",
    "entries/{0:.2}",
    "entries/{0:.2}/{0}.json",
    "kept",
    "kept/{0:.2}",
    "kept/{0:.2}/{0}",
)


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("name", JOURNALED)
def test_a_journal_follows_no_link_and_waits_for_no_pipe(
    name: str, kind: str, tmp_path: Path, outside: Path
) -> None:
    file = tmp_path / "models/x.pt2"
    file.parent.mkdir()
    file.write_bytes(b"as it was")
    journal, about = Journal(tmp_path / "journal"), {"root": None}
    journal.open(about)
    entry = journal.begin(str(file), "x", LocalPlace(file))
    journal.write(replace(entry, after=Facts("0" * 64, 3)))
    path = journal.folder / name.format(entry.identity)
    path.rename(away := outside / "away")
    path.symlink_to(away) if kind == "link" else os.mkfifo(path)
    before = contents(outside)
    for use in USES.values():
        with suppress(ArchiveError):
            use(journal, entry, LocalPlace(file))
    assert contents(outside) == before
    assert file.read_bytes() == b"as it was"
    assert not any(isinstance(each, Entry) and each.before is None for each in listed(journal))


def contents(folder: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def listed(journal: Journal) -> list[Any]:
    with suppress(ArchiveError):
        return [*journal.entries()]
    return []


USES: dict[str, Callable[[Journal, Entry, LocalPlace], object]] = {
    "read": lambda journal, entry, place: [*journal.entries()],
    "look": lambda journal, entry, place: journal.entry(entry.destination),
    "undo": lambda journal, entry, place: [*undo(journal.folder)],
    "settle": lambda journal, entry, place: journal.settle(entry.destination, place),
    "go on": lambda journal, entry, place: journal.open({"root": None}),
    "report": lambda journal, entry, place: journal.report("new", b"{}"),
    "begin": lambda journal, entry, place: journal.begin(entry.destination, "x", place),
}
