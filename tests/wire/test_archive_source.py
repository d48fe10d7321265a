"""Sources: nobody reads by a descriptor that was closed, and nobody writes to a file that memory still shows."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.wire import READ_WHOLE, ArchiveReader, ArchiveWriter, is_mapped, open_source

import graphwire
from graphwire.errors import ArchiveError
from graphwire.hooks import DEFAULT_LIMITS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with (tmp_path / "a.pt2").open("wb") as stream, ArchiveWriter(stream) as archive:
        archive.write("data/a", b"a" * 100_000, compress=False)
    return tmp_path / "a.pt2"


def test_what_is_closed_while_threads_read_is_never_another_file(path: Path) -> None:
    """A closed descriptor's number goes to whoever opens a file next, and that file is all of zeros here."""
    other = path.with_name("zeros")
    other.write_bytes(bytes(200_000))
    seen: Counter[str] = Counter()

    def read(archive: ArchiveReader) -> None:
        try:
            while True:
                seen["right" if archive.read("data/a") == b"a" * 100_000 else "wrong"] += 1
        except ArchiveError as error:
            seen[error.problem] += 1
        except Exception as error:
            seen[repr(error)] += 1

    for _ in range(20):
        archive = ArchiveReader(path)
        threads = [threading.Thread(target=read, args=(archive,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        archive.close()
        with other.open("rb"):
            for thread in threads:
                thread.join()
    assert set(seen) <= {"right", "the archive is closed"}
    assert seen["the archive is closed"] == 120


def test_the_descriptor_is_closed_when_the_last_reader_leaves(path: Path) -> None:
    source = open_source(path, DEFAULT_LIMITS)
    descriptor = source._open_descriptor()  # type: ignore[attr-defined]
    number = descriptor.number
    source.close()
    assert os.pread(number, 4, 0) == b"PK\x03\x04"
    del descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_file_is_mapped_as_long_as_something_shows_it(path: Path) -> None:
    os.truncate(path, READ_WHOLE + 1)
    with path.open("r+b") as file, path.with_name("other").open("wb") as other:
        source = open_source(path, DEFAULT_LIMITS)
        assert not is_mapped(file)
        memory = source.map(0, 10)
        source.close()
        assert is_mapped(file)
        assert not is_mapped(other)
        held = memory[2:]
        del memory
        assert is_mapped(file)
        del held
        assert not is_mapped(file)


def test_a_load_asks_the_system_once_about_its_file_and_reads_each_record_once(tmp_path: Path) -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(6)]
    program = torch.export.export(torch.nn.Sequential(*layers), (torch.ones(1, 4),))
    graphwire.save(program, tmp_path / "a.pt2")
    graphwire.load(tmp_path / "a.pt2")
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call":
            calls[argument.__name__] += 1

    sys.setprofile(count)
    try:
        graphwire.load(tmp_path / "a.pt2")
    finally:
        sys.setprofile(None)
    # Its mode and size when it is opened; two reads a record, its header and its data, and one of all weights.
    assert (calls["fstat"], calls["fileno"]) == (1, 2)
    assert calls["pread"] <= 2 * 20
    assert calls["preadv"] == 1


@pytest.mark.parametrize("size", [100_000, READ_WHOLE + 1])
def test_a_file_that_became_shorter_is_noticed_before_it_is_mapped(path: Path, size: int) -> None:
    os.truncate(path, size)
    source = open_source(path, DEFAULT_LIMITS)
    os.truncate(path, 10)
    with pytest.raises(ArchiveError, match="became shorter"):
        source.map(0, 4)
    with pytest.raises(ArchiveError, match="became shorter"):
        source.read_at(0, 20)
    source.close()


def test_a_file_that_is_replaced_is_read_as_it_was_opened(path: Path) -> None:
    source = open_source(path, DEFAULT_LIMITS)
    other = path.with_name("new")
    other.write_bytes(b"something else" * 100)
    other.replace(path)
    assert source.read_at(0, 4) == b"PK\x03\x04"
    source.close()
