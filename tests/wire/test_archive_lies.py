"""Directories that contradict themselves, their file, or their local headers: each is refused, naming the record."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from graphwire.errors import ArchiveError
from graphwire.wire.archive import directory as layout
from graphwire.wire.archive.reader import ArchiveReader


@dataclass(frozen=True)
class Forged:
    """One member, each field of both of its headers free to lie."""

    name: bytes
    data: bytes = b"data"
    flags: int = layout.FLAG_UTF8
    method: int = 0
    crc: int = 0xADF3F363  # of b"data"
    stored: int | None = None
    size: int | None = None
    disk: int = 0
    shift: int = 0
    extra: bytes = b""
    local: dict[str, object] = field(default_factory=dict)

    def local_header(self) -> bytes:
        asked = {"name": self.name, "flags": self.flags, "method": self.method, "crc": self.crc, "extra": b""}
        asked |= {"stored": len(self.data), "size": len(self.data), "magic": layout.LOCAL_MAGIC} | self.local
        name, extra = asked["name"], asked["extra"]
        assert isinstance(name, bytes)
        assert isinstance(extra, bytes)
        numbers = (
            asked["crc"],
            asked["stored"],
            asked["size"],
            len(name),
            asked.get("extra_size", len(extra)),
        )
        head = layout.LOCAL_HEADER.pack(asked["magic"], 20, asked["flags"], asked["method"], 0, 33, *numbers)
        return head + name + extra

    def entry(self, offset: int) -> bytes:
        stored = len(self.data) if self.stored is None else self.stored
        size = len(self.data) if self.size is None else self.size
        numbers = (
            self.crc,
            stored,
            size,
            len(self.name),
            len(self.extra),
            0,
            self.disk,
            0,
            0,
            offset + self.shift,
        )
        head = layout.CENTRAL_ENTRY.pack(
            layout.CENTRAL_MAGIC, 20, 20, self.flags, self.method, 0, 33, *numbers
        )
        return head + self.name + self.extra


def forge(*members: Forged, end: Callable[[int, int, int], bytes] | None = None) -> bytes:
    body = directory = b""
    for member in members:
        directory += member.entry(len(body))
        body += member.local_header() + member.data
    return body + directory + (end or end_record)(len(members), len(directory), len(body))


def end_record(count: int, size: int, offset: int, *, disk: int = 0, here: int | None = None) -> bytes:
    return layout.END.pack(layout.END_MAGIC, disk, 0, count if here is None else here, count, size, offset, 0)


def end64(count: int, size: int, offset: int, *, rest: int = 44, at: int = 0, disks: int = 1) -> bytes:
    record = layout.END64.pack(layout.END64_MAGIC, rest, 45, 45, 0, 0, count, count, size, offset)
    return record + layout.END64_LOCATOR.pack(layout.END64_LOCATOR_MAGIC, 0, offset + size + at, disks)


GOOD = Forged(b"r/good")


def test_a_forgery_without_a_lie_is_read() -> None:
    assert ArchiveReader(forge(GOOD)).read("good") == b"data"

    def whole(count: int, size: int, offset: int) -> bytes:
        return end64(count, size, offset) + end_record(count, layout.MAX32, layout.MAX32)

    assert ArchiveReader(forge(GOOD, end=whole)).read("good") == b"data"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": b"../evil"}, "steps out"),
        ({"name": b"r/../../evil"}, "steps out"),
        ({"name": b"r\\..\\evil"}, "steps out"),
        ({"name": b"/evil"}, "absolute"),
        ({"name": b"r\\\\evil"}, "absolute"),
        ({"name": b"\\evil"}, "absolute"),
        ({"name": b"C:\\evil"}, "absolute"),
        ({"name": b""}, "is empty"),
        ({"name": b"r/a\0b"}, "control characters"),
        ({"name": b"r/a\x1b[2Jb"}, "control characters"),
        ({"name": b"r/\xff"}, "not UTF-8"),
        ({"name": b"r/good"}, "two records"),
        ({"flags": 0x801}, "encrypted"),
        ({"flags": 0x841}, "encrypted"),
        ({"flags": 0x840}, "unsupported flags"),
        ({"flags": 0x2800}, "unsupported flags"),
        ({"method": 1}, "unsupported method"),
        ({"method": 12}, "unsupported method"),
        ({"method": 93}, "unsupported method"),
        ({"size": 5}, "is stored, yet has"),
        ({"stored": 3}, "is stored, yet has"),
        ({"stored": 1 << 20, "size": 1 << 20}, "reaches past the end"),
        ({"stored": layout.MAX32, "size": layout.MAX32}, "missing"),
        ({"size": layout.MAX32, "extra": struct.pack("<HHQ", 1, 8, 1 << 62)}, "is stored, yet has"),
        (
            {
                "size": layout.MAX32,
                "stored": layout.MAX32,
                "extra": struct.pack("<HHQQ", 1, 16, 1 << 63, 1 << 63),
            },
            "reaches past",
        ),
        ({"size": layout.MAX32, "extra": struct.pack("<HHI", 1, 4, 1)}, "missing"),
        ({"disk": 3}, "another disk"),
        ({"shift": 1 << 20}, "reaches past the end"),
        ({"shift": -4}, "overlaps"),
        ({"shift": -40}, "overlaps"),
    ],
    ids=repr,
)
def test_a_lying_entry_is_refused_when_the_archive_opens(change: dict[str, object], problem: str) -> None:
    liar = replace(Forged(b"r/liar"), **change)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match=problem):
        ArchiveReader(forge(GOOD, liar))


@pytest.mark.parametrize(
    ("local", "problem"),
    [
        ({"magic": b"PK\x03\x05"}, "contradicts"),
        ({"name": b"r/liaR"}, "contradicts"),
        ({"name": b"r/liar2"}, "contradicts"),
        ({"method": 8}, "contradicts"),
        ({"flags": 0x801}, "contradicts"),
        ({"crc": 1}, "contradicts"),
        ({"stored": 3}, "contradicts"),
        ({"size": 5}, "contradicts"),
        ({"extra_size": 60_000}, "overlaps"),
        ({"extra_size": 1}, "overlaps"),
    ],
    ids=repr,
)
def test_a_local_header_that_contradicts_the_directory_is_refused(
    local: dict[str, object], problem: str
) -> None:
    archive = ArchiveReader(forge(GOOD, replace(Forged(b"r/liar"), local=local), GOOD_TWO))
    for ask in (archive.read, archive.map, archive.offset, archive.verify):
        with pytest.raises(ArchiveError, match=f"record 'r/liar'.*{problem}"):
            ask("liar")
    assert archive.read("good") == b"data"


GOOD_TWO = Forged(b"r/good-two")


def test_two_entries_for_one_header_are_refused() -> None:
    twin = Forged(b"r/twin")
    length = len(twin.local_header()) + 4
    with pytest.raises(ArchiveError, match="overlaps"):
        ArchiveReader(forge(twin, replace(twin, name=b"r/twim", shift=-length)))


def test_one_header_inside_the_data_of_another_is_refused() -> None:
    inner = Forged(b"r/inner")
    outer = Forged(b"r/outer", data=inner.local_header() + b"data")
    directory = outer.entry(0) + inner.entry(len(outer.local_header()))
    body = outer.local_header() + outer.data
    with pytest.raises(ArchiveError, match="overlaps"):
        ArchiveReader(body + directory + end_record(2, len(directory), len(body)))


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (lambda count, size, offset: end_record(count, size, offset + 1), "not where its end record states"),
        (lambda count, size, offset: end_record(count, size - 1, offset), "not where its end record states"),
        (lambda count, size, offset: end_record(count, size + 1, offset - 1), "directory"),
        (lambda count, size, offset: end_record(count + 1, size, offset), "cut short|too small"),
        (lambda count, size, offset: end_record(count - 1, size, offset), "belong to no record"),
        (lambda count, size, offset: end_record(60_000, size, offset), "too small"),
        (lambda count, size, offset: end_record(count, size, offset, disk=1), "several files"),
        (lambda count, size, offset: end_record(count, size, offset, here=1), "several files"),
        (
            lambda count, size, offset: end64(count, size, offset, rest=45) + end_record(count, size, offset),
            "zip64",
        ),
        (
            lambda count, size, offset: end64(count, size, offset, at=1) + end_record(count, size, offset),
            "zip64",
        ),
        (lambda count, size, offset: end64(count, size, offset, at=1 << 62) + end_record(2, 0, 0), "zip64"),
        (
            lambda count, size, offset: end64(count, size, offset, disks=2) + end_record(2, 0, 0),
            "several files",
        ),
        (
            lambda count, size, offset: end64(count, size, offset) + end_record(count, size, offset - 1),
            "contradict",
        ),
        (
            lambda count, size, offset: end64(1 << 60, size, offset) + end_record(0xFFFF, size, offset),
            "records",
        ),
    ],
)
def test_a_lying_end_record_is_refused(end: Callable[[int, int, int], bytes], problem: str) -> None:
    with pytest.raises(Exception, match=problem) as caught:
        ArchiveReader(forge(GOOD, GOOD_TWO, end=end))
    assert type(caught.value).__module__ == "graphwire.errors"


def test_bytes_before_the_archive_are_refused() -> None:
    for before in (b"\x7fELF" + bytes(60), b"PK\x03\x04" + bytes(60)):
        with pytest.raises(ArchiveError):
            ArchiveReader(before + forge(GOOD))


def test_an_end_record_hidden_in_a_comment_is_no_second_directory() -> None:
    hidden = forge(GOOD)
    comment = hidden[-22:]
    with_comment = bytearray(forge(GOOD_TWO))
    with_comment[-2:] = len(comment).to_bytes(2, "little")
    with pytest.raises(ArchiveError, match="not where its end record states"):
        ArchiveReader(bytes(with_comment) + comment)


def test_a_comment_is_no_harm() -> None:
    commented = bytearray(forge(GOOD))
    commented[-2:] = (5).to_bytes(2, "little")
    assert ArchiveReader(bytes(commented) + b"hello").read("good") == b"data"
