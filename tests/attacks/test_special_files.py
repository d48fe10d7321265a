"""Links, pipes and folders where a file is expected: nothing outside of the folder is read or written, and nothing waits."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import audit
import pytest
import torch
from inside.wire import Folder, RecordCache, read_named

import graphwire
from graphwire.cli import main
from graphwire.errors import ArchiveError
from graphwire.viewer import read_overlays
from graphwire_plugins.blobs import BlobStore

CONTENT = b"the bytes of a weight"
DIGEST = hashlib.sha256(CONTENT).hexdigest()

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows has neither pipes nor links that anyone may make"
)


def _socket(path: Path, outside: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made:
        here = Path.cwd()
        try:
            os.chdir(path.parent)  # the path of a socket is short
            made.bind(path.name)
        finally:
            os.chdir(here)


SPECIAL: dict[str, Callable[[Path, Path], None]] = {
    "a link to a file": lambda path, outside: path.symlink_to(outside / "file"),
    "a link to a folder": lambda path, outside: path.symlink_to(outside),
    "a link to nothing": lambda path, outside: path.symlink_to(outside / "new"),
    "a link to itself": lambda path, outside: path.symlink_to(path),
    "a pipe": lambda path, outside: os.mkfifo(path),
    "a socket": _socket,
    "a folder": lambda path, outside: path.mkdir(),
    "a device": lambda path, outside: path.symlink_to("/dev/zero"),
}
PLACES = {"kind": "sha256", "prefix": f"sha256/{DIGEST[:2]}", "file": f"sha256/{DIGEST[:2]}/{DIGEST[2:]}"}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(b"not to be touched")
    (folder / DIGEST[2:]).write_bytes(CONTENT)
    return folder


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def _put(kind: str, path: Path, outside: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    SPECIAL[kind](path, outside)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("place", PLACES)
def test_a_cache(kind: str, place: str, tmp_path: Path, outside: Path) -> None:
    before = _tree(outside)
    _put(kind, tmp_path / "cache" / PLACES[place], outside)
    cache = RecordCache(tmp_path / "cache")
    assert not cache.has(DIGEST)
    with suppress(ArchiveError):
        fetched = cache.view(
            DIGEST, len(CONTENT), lambda: memoryview(CONTENT), lambda view: hashlib.sha256(view).hexdigest()
        )
        assert bytes(fetched) == CONTENT
        assert cache.has(DIGEST)
    assert _tree(outside) == before


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("place", ["prefix", "file"])
def test_verify_of_blobs_tells_each(kind: str, place: str, tmp_path: Path, outside: Path) -> None:
    folder = tmp_path / "blobs"
    folder.mkdir()
    (folder / "blobs.json").write_text('{"format": "graphwire-blobs", "version": 1}')
    path = PLACES[place].removeprefix("sha256/")
    _put(kind, folder / path, outside)
    problems = list(BlobStore().damaged(Folder(folder)))
    expected = [] if (kind, place) == ("a folder", "prefix") else [path]
    assert [each.place for each in problems] == expected


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("replaces", [True, False])
def test_a_new_file_of_a_store(kind: str, replaces: bool, tmp_path: Path, outside: Path) -> None:
    before = _tree(outside)
    folder = tmp_path / "store"
    _put(kind, folder / "a" / "b", outside)
    for location in ("a/b", "a/b/c"):
        with suppress(ArchiveError, FileExistsError):
            with Folder(folder).create(location, replaces=replaces) as file:
                file.write(CONTENT)
            with closing(Folder(folder).open(location)) as source:
                assert source.read_at(0, source.size) == CONTENT
        with suppress(ArchiveError, IsADirectoryError):
            Folder(folder).remove(location)
    assert _tree(outside) == before
    assert [each.name for each in folder.rglob("*.part")] == []


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a folder", "a device", "a link to itself"])
def test_a_list_of_hashes_and_an_overlay(kind: str, tmp_path: Path, outside: Path) -> None:
    _put(kind, path := tmp_path / "a.csv", outside)
    assert main(["hash", "--check", str(path)]) == 2
    with pytest.raises((ArchiveError, OSError)):
        read_overlays(path)


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="the system does not show what is open")
def test_a_pipe_that_is_open_is_read() -> None:
    here, there = os.pipe()
    os.write(there, b"node,ms\nrelu,1\n")
    os.close(there)
    with os.fdopen(here):
        assert read_named(f"/dev/fd/{here}") == b"node,ms\nrelu,1\n"


@pytest.mark.parametrize("place", ["out/sub", "out/sub/deep", "out/sub/deep/a.pt2"])
def test_outputs_below_a_folder_follow_no_link(place: str, tmp_path: Path, outside: Path) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
    for name in ("sub/deep/a.pt2", "b.pt2"):
        (path := tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        graphwire.save(program, path)
    (outside / "deep").mkdir()
    (outside / "a.pt2").write_bytes(b"not to be touched")
    (path := tmp_path / place).parent.mkdir(parents=True)
    path.symlink_to(outside / "a.pt2" if place.endswith("pt2") else outside)
    before = _tree(outside)
    words = ["--format", "cbor", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    assert main(["convert", *words]) == 2
    assert _tree(outside) == before
    assert (tmp_path / "out/b.pt2").is_file()


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(torch.export.export(torch.nn.ReLU(), (torch.ones(1),)))


COMMANDS = [
    ["verify"],
    ["inspect"],
    ["hash"],
    ["targets"],
    ["strip", "--in-place"],
    ["convert", "--format", "cbor", "-o", "{out}"],
    ["upgrade", "--in-place"],
    ["view", "-o", "{out}/a.html"],
    ["diff", "{good}"],
]


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_of_a_folder_is_not_waited_for(
    command: list[str], kind: str, data: bytes, tmp_path: Path, outside: Path
) -> None:
    _put(kind, path := tmp_path / "in/a.pt2", outside)
    (good := tmp_path / "good").write_bytes(data)
    words = [each.format(out=tmp_path / "out", good=good) for each in command]
    assert main([*words, str(path.parent)]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_that_becomes_a_pipe_meanwhile_is_not_waited_for(
    command: list[str], data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap comes between a look at the name and the opening: at each call of the system that only looks."""
    (good := tmp_path / "good").write_bytes(data)
    (path := tmp_path / "in/a.pt2").parent.mkdir()
    path.write_bytes(good.read_bytes())
    os.mkfifo(pipe := tmp_path / "pipe")
    look, swapped = os.stat, [False]

    def swapping(name: object, *args: object, **options: object) -> os.stat_result:
        found = look(name, *args, **options)  # type: ignore[arg-type, call-overload]
        if str(name) == str(path) and not swapped[0]:
            swapped[0] = True
            pipe.replace(path)
        return found

    monkeypatch.setattr(os, "stat", swapping)
    words = [each.format(out=tmp_path / "out", good=good) for each in command]
    assert main([*words, str(path.parent)]) == 2
    assert swapped == [True]
    audit.deeds.clear()  # the swap


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_listed_file_and_a_program_that_uses_blobs(kind: str, tmp_path: Path, outside: Path) -> None:
    _put(kind, path := tmp_path / "in/a.pt2", outside)
    (path.parent / "list").write_text(f"gw1:{'0' * 64}  {path}\n", "utf-8")
    assert main(["hash", "--check", str(path.parent / "list")]) == 2
    (blobs := tmp_path / "blobs").mkdir()
    (blobs / "blobs.json").write_text('{"format": "graphwire-blobs", "version": 1}')
    assert main(["blobs", "gc", str(blobs), "--programs", str(path.parent)]) == 2
