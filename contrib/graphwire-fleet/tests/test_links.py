"""Links, pipes and devices that somebody puts into the folder of a catalogue: none is followed, emptied or waited for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from graphwire_fleet.catalogue.folders import LocalFolder
from graphwire_fleet.whole_files import whole_file

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


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path, outside: Path) -> None:
    (tmp_path / f".o.csv.{os.getpid()}.part").symlink_to(outside / "0.json")
    with whole_file(tmp_path / "o.csv") as stream:
        stream.write(b"new")
    assert not (tmp_path / "o.csv").is_symlink()
    assert (tmp_path / "o.csv").read_bytes() == b"new"
    assert (outside / "0.json").read_bytes() == b"a secret"
