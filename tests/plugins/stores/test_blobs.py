"""The store `blobs` keeps each storage once, under its digest, whoever writes it and how many do."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import re
from pathlib import Path

import pytest
from inside.wire import Folder, chunk_digest

from graphwire.errors import ArchiveError, EncodeError, MissingRecordError
from graphwire.hooks import NewTensor, PrunableStore
from graphwire_plugins.blobs import BlobStore

STORE = BlobStore()
HOUR = 3600


def storages(*contents: bytes) -> dict[str, NewTensor]:
    return {
        chunk_digest(memoryview(each)): NewTensor(
            "uint8", (len(each),), len(each), lambda each=each: memoryview(each)
        )
        for each in contents
    }


def contents_of(path: Path) -> dict[str, bytes]:
    return {
        each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()
    }


def make_older(path: Path, hours: float) -> None:
    for each in path.rglob("*"):
        facts = each.stat()
        os.utime(each, (facts.st_atime, facts.st_mtime - hours * HOUR))


def test_a_blob_has_the_path_that_its_digest_gives(tmp_path: Path) -> None:
    location, names = STORE.write(Folder(tmp_path), "", storages(b"abc", b""))
    abc, empty = (hashlib.sha256(each).hexdigest() for each in (b"abc", b""))
    assert (location, names) == ("", {abc: abc, empty: empty})
    assert contents_of(tmp_path) == {
        "blobs.json": b'{"format": "graphwire-blobs", "version": 1}',
        f"{abc[:2]}/{abc[2:]}": b"abc",
        f"{empty[:2]}/{empty[2:]}": b"",
    }


@pytest.mark.parametrize("size", [(16 << 20) - 1, 16 << 20, (16 << 20) + 1, 32 << 20, (40 << 20) + 7])
def test_the_digest_of_long_content_is_that_of_the_digests_of_its_chunks(size: int, tmp_path: Path) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    chunks = [hashlib.sha256(content[at : at + 16777216]).digest() for at in range(0, size, 16777216)]
    digest = hashlib.sha256(b"".join(chunks)).hexdigest() if len(chunks) > 1 else chunks[0].hex()
    STORE.write(Folder(tmp_path), "", storages(content))
    assert (tmp_path / digest[:2] / digest[2:]).read_bytes() == content
    assert list(STORE.damaged(Folder(tmp_path))) == []


def test_an_index_looks_at_a_blob_when_asked(tmp_path: Path) -> None:
    STORE.write(Folder(tmp_path), "", storages(b"abc", b"defg"))
    index = STORE.open(Folder(tmp_path), "")
    abc = hashlib.sha256(b"abc").hexdigest()
    ((file, offset, start, sizes, _),) = index.tensors[abc].chunks
    assert (file, offset, start, sizes) == (f"{abc[:2]}/{abc[2:]}", 0, (0,), (3,))
    assert (index.tensors[abc].dtype, index.tensors[abc].shape) == ("uint8", (3,))
    assert index.files[file].nbytes == 3
    assert set(index.tensors) == set(storages(b"abc", b"defg"))
    assert set(index.files) == {f"{each[:2]}/{each[2:]}" for each in index.tensors}
    assert len(index.tensors) == len(index.files) == 2
    assert "0" * 64 not in index.tensors
    assert "../blobs.json" not in index.tensors
    assert "blobs.json" not in index.files


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "a file system without hard links")


def _write_many(path: Path, number: int, links: bool) -> None:
    if not links:
        os.link = _no_links  # type: ignore[assignment] # of this process
    for _ in range(20):
        STORE.write(
            Folder(path), "", storages(*(bytes([each]) * 3000 for each in range(15)), bytes([number]) * 7)
        )


@pytest.mark.parametrize("links", [True, False], ids=["with hard links", "without"])
def test_processes_write_at_the_same_time(links: bool, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(tmp_path, number, links)) for number in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    assert [each.exitcode for each in writers] == [0] * 8
    assert len(contents_of(tmp_path)) == 1 + 15 + 8
    assert list(STORE.damaged(Folder(tmp_path))) == []


def test_content_that_changes_while_it_is_saved_is_not_kept(tmp_path: Path) -> None:
    ((digest, new),) = storages(b"before").items()
    with pytest.raises(EncodeError, match="does not have the digest"):
        STORE.write(Folder(tmp_path), "", {digest: new._replace(view=lambda: memoryview(b"after!"))})
    assert set(contents_of(tmp_path)) == {"blobs.json"}


@pytest.mark.parametrize(("name", "dtype"), [("weight", "uint8"), ("A" * 64, "uint8"), ("a" * 64, "float32")])
def test_only_storages_named_by_their_digests_are_taken(name: str, dtype: str, tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match="takes uint8 named by its digest"):
        STORE.write(Folder(tmp_path), "", {name: NewTensor(dtype, (4,), 4, lambda: memoryview(b"abcd"))})
    assert contents_of(tmp_path) == {}


def test_a_blob_of_the_wrong_size_is_an_error(tmp_path: Path) -> None:
    STORE.write(Folder(tmp_path), "", storages(b"abc"))
    (blob,) = tmp_path.glob("??/*")
    blob.write_bytes(b"ab")
    with pytest.raises(
        ArchiveError, match=r"has 2 bytes, and content with its digest has 3\. `graphwire blobs verify`"
    ):
        STORE.write(Folder(tmp_path), "", storages(b"abc"))
    assert blob.read_bytes() == b"ab"


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (None, "it has no blobs.json"),
        (b"", "does not describe a store of blobs"),
        (b"[" * 4000, "does not describe a store of blobs"),
        (b'{"format": "other", "version": 1}', "does not describe a store of blobs"),
        (b'{"format": "graphwire-blobs", "version": 2}', "a version that this graphwire does not know"),
    ],
)
def test_a_folder_without_a_valid_marker_is_refused(
    marker: bytes | None, message: str, tmp_path: Path
) -> None:
    STORE.write(Folder(tmp_path), "", storages(b"abc"))
    (tmp_path / "blobs.json").unlink()
    if marker is not None:
        (tmp_path / "blobs.json").write_bytes(marker)
    folder = Folder(tmp_path)
    for use in (
        lambda: STORE.open(folder, ""),
        lambda: list(STORE.damaged(folder)),
        lambda: list(STORE.unused(folder, set(), 0)),
    ):
        with pytest.raises(ArchiveError, match=re.escape(message)):
            use()
    if marker is not None:
        with pytest.raises(ArchiveError, match=message):
            STORE.write(folder, "", storages(b"abc"))


def test_a_folder_is_found_by_its_marker(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert STORE.find(folder, "") is None
    (tmp_path / "blobs.json").touch()
    assert (STORE.find(folder, ""), STORE.find(folder, "blobs.json")) == ("", "")
    assert STORE.find(folder, "m.safetensors") is None


def test_a_link_among_the_blobs_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    folder = tmp_path / "blobs"
    folder.mkdir()
    STORE.write(Folder(folder), "", storages(b"other"))
    (folder / digest[:2]).mkdir()
    (folder / digest[:2] / digest[2:]).symlink_to(outside)
    with pytest.raises(ArchiveError, match="symbolic link"):
        STORE.write(Folder(folder), "", storages(b"abc"))
    with pytest.raises(ArchiveError, match="symbolic link"):
        STORE.open(Folder(folder), "").tensors[digest]
    (problem,) = STORE.damaged(Folder(folder))
    assert (problem.place, problem.kind) == (f"{digest[:2]}/{digest[2:]}", "not-a-file")


# --------------------------------------------------------------------------------------------------------- verify and gc


def test_verify_yields_each_damaged_blob(tmp_path: Path) -> None:
    STORE.write(Folder(tmp_path), "", storages(b"abc", b"defg", b"hi"))
    (tmp_path / "ab").mkdir(exist_ok=True)
    (tmp_path / "ab" / "notes.txt").touch()
    abc = hashlib.sha256(b"abc").hexdigest()
    place = f"{abc[:2]}/{abc[2:]}"
    (tmp_path / place).write_bytes(b"abd")
    assert isinstance(STORE, PrunableStore)
    (problem,) = STORE.damaged(Folder(tmp_path))
    assert (problem.place, problem.kind) == (place, "wrong-content")
    assert hashlib.sha256(b"abd").hexdigest() in problem.message


def test_gc_yields_old_blobs_that_nobody_uses(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    STORE.write(folder, "", storages(b"used", b"old"))
    make_older(tmp_path, hours=2)
    STORE.write(folder, "", storages(b"young"))
    used, old, young = (hashlib.sha256(each).hexdigest() for each in (b"used", b"old", b"young"))
    (only,) = STORE.unused(folder, {used}, HOUR)
    assert only == (f"{old[:2]}/{old[2:]}", 3)
    assert {each.location for each in STORE.unused(folder, {used}, 0)} == {
        f"{each[:2]}/{each[2:]}" for each in (old, young)
    }


def test_a_blob_that_a_new_program_uses_again_is_young_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    STORE.write(folder, "", storages(b"abc"))
    make_older(tmp_path, hours=2)
    assert len(list(STORE.unused(folder, set(), HOUR))) == 1
    STORE.write(folder, "", storages(b"abc"))
    assert list(STORE.unused(folder, set(), HOUR)) == []


def test_gc_yields_what_a_killed_writer_left_and_nothing_else(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    STORE.write(folder, "", storages(b"abc"))
    (tmp_path / "ab").mkdir(exist_ok=True)
    for name in (
        "ab/.graphwire-0123.part",
        ".graphwire-4567.part",
        "ab/notes.txt",
        "program.pt2",
        "ab/.hidden",
    ):
        (tmp_path / name).write_bytes(b"12345")
    make_older(tmp_path, hours=2)
    found = list(STORE.unused(folder, set(storages(b"abc")), HOUR))
    assert found == [(".graphwire-4567.part", 5), ("ab/.graphwire-0123.part", 5)]
    assert list(STORE.unused(folder, set(storages(b"abc")), 3 * HOUR)) == []


def test_a_file_that_is_not_there_has_no_age(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        folder.age("ab/cd")
    with pytest.raises(MissingRecordError):
        folder.refresh("ab/cd")
