"""A file is replaced whole or not at all, whatever fails meanwhile."""

from __future__ import annotations

import ctypes
import errno
import io
import os
import stat
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from hypothesis import given, strategies as st
from inside.wire import atomic_file, atomic_write, write_chunks

from graphwire.errors import ArchiveError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_file_is_there_only_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new.pt2"
    with atomic_write(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert files(tmp_path) == ["new.pt2"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "old.pt2"
    path.write_bytes(b"old")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half of the new")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == ["old.pt2"]


def test_the_bytes_are_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the name is when the block ends: what was synced, and what the path held then."""
    path, fsync = tmp_path / "new.pt2", os.fsync
    synced: list[tuple[bool, bool]] = []

    def told(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", told)
    with atomic_write(path) as file:
        file.write(b"new")
    assert synced == [(False, False), (True, True)]


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.pt2"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"new")
    assert mode(path) == 0o640


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        (tmp_path / "opened").open("wb").close()
        with atomic_write(tmp_path / "replaced") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "replaced") == mode(tmp_path / "opened") == 0o666 & ~umask


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    target, link, chain = folder / "target.pt2", tmp_path / "link.pt2", tmp_path / "chain.pt2"
    target.write_bytes(b"old")
    link.symlink_to("folder/target.pt2")
    chain.symlink_to(link)
    with atomic_write(chain) as file:
        file.write(b"new")
    assert chain.is_symlink()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert files(folder) == ["target.pt2"]


def test_a_device_is_written_to_not_replaced() -> None:
    with atomic_write("/dev/null") as file:
        file.write(b"gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_the_file_can_be_read_back_while_it_is_written(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "new.pt2") as file:
        file.write(b"12345")
        file.seek(0)
        assert file.read() == b"12345"


def test_a_long_name_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120 + ".pt2")
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


@given(
    st.lists(
        st.tuples(st.integers(0, 255), st.sampled_from([0, 1, 2, 999, 4096, 70_000]), st.booleans()),
        max_size=60,
    ),
    st.integers(1, 40),
)
def test_chunks_make_the_file_that_they_come_to(chunks: list[tuple[int, int, bool]], repeated: int) -> None:
    """Some of them are empty."""
    given_ = [
        memoryview(bytes([byte]) * size) if viewed else bytes([byte]) * size for byte, size, viewed in chunks
    ] * repeated
    with TemporaryFile(buffering=0) as file:
        write_chunks(file, given_)
        file.seek(0)
        assert file.read() == b"".join(given_)


def test_more_chunks_than_one_call_takes_are_written() -> None:
    with TemporaryFile(buffering=0) as file:
        write_chunks(file, [bytes([index % 256]) for index in range(3000)])
        file.seek(0)
        assert file.read() == bytes(index % 256 for index in range(3000))


@pytest.mark.parametrize("filled", [0, 1 << 16])
def test_a_pipe_that_does_not_wait_is_told_with_what_to_do(filled: int) -> None:
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        os.write(writer, bytes(filled))
        with io.FileIO(writer, "w") as file, pytest.raises(ArchiveError, match="Open it so that it waits"):
            write_chunks(file, [bytes(1 << 18), bytes(1 << 18)])
    finally:
        os.close(reader)


def test_the_disk_begins_before_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the file once, in order; a system that cannot do so writes the same file."""
    begin = atomic_file._sync_file_range
    parts: list[tuple[int, int]] = []

    def told(file: int, start: int, nbytes: int, how: int) -> int:
        assert begin is not None
        parts.append((start, nbytes))
        return begin(file, start, nbytes, how)

    chunks = [bytes([index]) * 300_000 for index in range(60)]
    for call in (told, None) if sys.platform == "linux" else (None,):
        monkeypatch.setattr(atomic_file, "_sync_file_range", call)
        with atomic_write(tmp_path / "new.pt2") as file:
            for chunk in chunks:
                assert isinstance(file, atomic_file.Replacement)
                file.write_many([chunk, b"x"])
        assert (tmp_path / "new.pt2").read_bytes() == b"".join(chunk + b"x" for chunk in chunks)
    if sys.platform == "linux":
        assert [start for start, _ in parts] == [sum(n for _, n in parts[:i]) for i in range(len(parts))]
        assert 60 * 300_001 - 3_000_000 < sum(nbytes for _, nbytes in parts) <= 60 * 300_001
        assert len(parts) < 10


@pytest.mark.parametrize(("failed", "told"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.EPERM, False)])
def test_what_the_disk_cannot_take_is_told_before_the_old_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: int, told: bool
) -> None:
    """The system may tell once, and forget the bytes. That it knows no such call, or forbids it, says nothing of them."""

    def fails(*_: int) -> int:
        ctypes.set_errno(failed)
        return -1

    def replace() -> None:
        with atomic_write(path) as file:
            assert isinstance(file, atomic_file.Replacement)
            file.write_many([bytes(3 << 20)])

    path = tmp_path / "model.pt2"
    path.write_bytes(b"old")
    monkeypatch.setattr(atomic_file, "_sync_file_range", fails)
    if told:
        with pytest.raises(OSError, match=os.strerror(failed)) as raised:
            replace()
        assert (raised.value.errno, raised.value.filename) == (failed, str(path))
        assert path.read_bytes() == b"old"
    else:
        replace()
        assert path.read_bytes() == bytes(3 << 20)
    assert files(tmp_path) == ["model.pt2"]


def test_a_device_that_is_full_is_the_usual_error() -> None:
    with pytest.raises(OSError, match="No space left"), atomic_write("/dev/full") as file:
        file.write(b"x" * 100_000)


def test_a_folder_that_cannot_be_written_is_the_usual_error() -> None:
    with pytest.raises(OSError, match=r"/proc"), atomic_write("/proc/model.pt2") as file:
        file.write(b"x")
