from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from inside.wire import ArchiveReader, ArchiveWriter, Digests, check_name

from graphwire.errors import ArchiveError


class Pipe(io.RawIOBase):
    """A stream that cannot seek, and takes at most 1000 bytes at a time."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = memoryview(data)[:1000]
        self.taken += part
        return len(part)


def write_some(stream: Any) -> None:
    with ArchiveWriter(stream) as archive:
        archive.write("models/model.json", b'{"a": 1}' * 500, compress=True)
        archive.write_stream("data/weights/weight_0", 5000, [b"x" * 4000, memoryview(b"y" * 1000)])
        archive.write("data/weights/model_weights_config.json", b"{}", compress=True)
        archive.write_stream("data/weights/weight_1", 0, [])


def archive_of(**records: bytes) -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream) as archive:
        for name, data in records.items():
            archive.write_stream(name, len(data), [data])
    return stream.getvalue()


class Silent:
    """A file that does not say how much it took: it took all."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def write(self, data: Any) -> None:
        self.taken += data


@pytest.mark.parametrize("kind", [Pipe, Silent])
def test_a_stream_need_neither_seek_nor_take_all_at_once_nor_say_what_it_took(kind: Any) -> None:
    stream, other = io.BytesIO(), kind()
    write_some(stream)
    write_some(other)
    assert other.taken == stream.getvalue()


def test_every_member_is_dated_1980() -> None:
    with zipfile.ZipFile(io.BytesIO(archive_of(a=b"1"))) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_stored_records_begin_at_multiples_of_64_bytes(size: int) -> None:
    data = archive_of(**{"n" * length: b"d" * size for length in range(1, 80)})
    with ArchiveReader(data) as archive:
        assert {archive.offset(name) % 64 for name in archive.names} == {0}
        assert all(data[archive.offset("n" * 7) :].startswith(b"d" * size) for _ in archive.names)


def test_a_record_that_does_not_shrink_is_stored() -> None:
    stream = io.BytesIO()
    with ArchiveWriter(stream) as writer:
        writer.write("tiny", b"ab", compress=True)
        writer.write("long", b"ab" * 100, compress=True)
    with ArchiveReader(stream) as reader:
        assert reader.is_stored("tiny")
        assert not reader.is_stored("long")
        assert reader.stored_size("long") < reader.size("long") == 200


@pytest.mark.parametrize(
    ("root", "records", "names"),
    [("", None, ("version",)), ("archive", {"byteorder": b"little"}, ("byteorder", "version"))],
)
def test_the_flat_layout_has_no_records_of_its_own_and_others_can_be_chosen(
    root: str, records: dict[str, bytes] | None, names: tuple[str, ...]
) -> None:
    stream = io.BytesIO()
    with ArchiveWriter(stream, root=root, records=records) as writer:
        writer.write("version", b"3", compress=False)
    with ArchiveReader(stream) as reader:
        assert (reader.root, reader.names) == (root, names)


@pytest.mark.parametrize(
    "chunks", [[b"1234"], [b"123456"], [], [b"123", b"456"]], ids=["short", "long", "none", "long in two"]
)
def test_chunks_must_come_to_the_size_that_was_announced(chunks: list[bytes]) -> None:
    stream = io.BytesIO()
    archive = ArchiveWriter(stream)
    with pytest.raises(ArchiveError, match=r"record 'w': the record was announced with 5 bytes"):
        archive.write_stream("w", 5, chunks)
    with pytest.raises(ArchiveError, match="unfinished"):
        archive.close()


def test_an_error_in_the_chunks_leaves_no_archive() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"123"
        raise KeyError("gone")

    stream = io.BytesIO()
    with pytest.raises(KeyError, match="gone"), ArchiveWriter(stream) as archive:
        archive.write_stream("w", 5, chunks())
    with pytest.raises(ArchiveError, match=r"no end record|is empty"):
        ArchiveReader(stream)


def test_a_name_is_taken_once() -> None:
    archive = ArchiveWriter(io.BytesIO())
    archive.write("a", b"", compress=False)
    with pytest.raises(ArchiveError, match="already"):
        archive.write_stream("a", 0, [])
    with pytest.raises(ArchiveError, match="already"):
        archive.write("archive_format", b"pt3", compress=False)
    archive.close()


LEAVING = ["../a", "a/../b", "./a", "a/..", "a\\..\\b", "a\0b", "a\nb", "a\\\\b", "a/", "x" * 4_089]
ABSOLUTE = ["", "/a", "\\a", "C:/a", "c:a"]
"""Names that only the flat layout could take for another place."""


@pytest.mark.parametrize(("root", "name"), [*(("program", x) for x in LEAVING), *(("", x) for x in ABSOLUTE)])
def test_a_name_that_leaves_the_archive_is_refused(root: str, name: str) -> None:
    archive = ArchiveWriter(io.BytesIO(), root=root)
    with pytest.raises(ArchiveError, match="record"):
        archive.write(name, b"", compress=False)
    archive.close()


def test_nothing_is_written_after_close() -> None:
    archive = ArchiveWriter(io.BytesIO())
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        archive.write("a", b"", compress=False)
    with pytest.raises(ArchiveError):
        archive.close()


def test_views_of_any_shape_are_written_as_their_bytes() -> None:
    view = memoryview(bytes(range(24))).cast("B", (4, 6))
    wide = memoryview(bytes(16)).cast("d")
    stream = io.BytesIO()
    with ArchiveWriter(stream) as archive:
        archive.write_stream("a", 40, [view, wide])
    assert ArchiveReader(stream).read("a") == bytes(range(24)) + bytes(16)


@settings(deadline=None, max_examples=50)
@given(
    records=st.dictionaries(
        st.text(st.characters(categories=("L", "N", "S", "Zs")), min_size=1, max_size=20),
        st.tuples(st.binary(max_size=300), st.sampled_from(["stream", "stored", "deflated"])),
        max_size=8,
    )
)
def test_any_records_come_back(records: dict[str, tuple[bytes, str]]) -> None:
    stream = io.BytesIO()
    with ArchiveWriter(stream, records={}) as writer:
        for name, (data, way) in records.items():
            if way == "stream":
                writer.write_stream(name, len(data), [data[:7], data[7:]])
            else:
                writer.write(name, data, compress=way == "deflated")
    with ArchiveReader(stream) as reader:
        assert reader.names == tuple(records)
        for name, (data, _) in records.items():
            assert reader.read(name) == data
            assert bytes(reader.map(name)) == data
            reader.verify(name)
    with zipfile.ZipFile(stream) as archive:
        assert [member.CRC for member in archive.infolist()] == [
            zlib.crc32(data) for data, _ in records.values()
        ]


@pytest.mark.parametrize("most", [None, 7, 100_000])
def test_a_raw_file_gets_what_a_stream_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    """Small records go to it together; it may take only a part of what it is given."""
    if most is not None:
        writev = os.writev
        monkeypatch.setattr(os, "writev", lambda file, chunks: writev(file, [memoryview(chunks[0])[:most]]))
    path, stream = tmp_path / "raw.pt2", io.BytesIO()
    with path.open("wb", buffering=0) as raw:
        for file in (raw, stream):
            with ArchiveWriter(file, digests=Digests()) as archive:
                for index in range(700):
                    archive.write(f"small_{index}", bytes([index % 256]) * (index % 300), compress=False)
                archive.write("large", bytes(range(256)) * 8000, compress=False)
                archive.write_stream("stream", 300_000, [bytes(1), bytearray(299_999)])
                archive.write("empty", b"", compress=False)
    assert path.read_bytes() == stream.getvalue()


def test_memory_whose_write_was_replaced_is_written_through_it() -> None:
    stream, seen = io.BytesIO(), []
    write = stream.write

    def counting(data: Any) -> int:
        seen.append(len(data))
        return write(data)

    stream.write = counting  # type: ignore[method-assign]
    with ArchiveWriter(stream) as archive:
        archive.write("note", b"hello", compress=False)
    assert sum(seen) == len(stream.getvalue())


def test_a_file_of_a_class_of_its_own_is_written_through_its_own_write(tmp_path: Path) -> None:
    class Counting(io.FileIO):
        seen = 0

        def write(self, data: Any) -> int:
            taken = super().write(data)
            self.seen += taken
            return taken

    with Counting(tmp_path / "counted.pt2", "wb") as file:
        write_some(file)
        assert file.seen == file.tell() > 5000


def test_a_raw_stream_that_takes_nothing_is_an_error_of_ours() -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int | None:
            return None

    with pytest.raises(ArchiveError, match="accepts no bytes now"):
        write_some(Full())


def _refusal(function: Callable[..., object], *arguments: Any, **options: Any) -> str:
    try:
        function(*arguments, **options)
    except ArchiveError as error:
        return str(error)
    return ""


_PARTS = st.lists(
    st.sampled_from(["a", "7", ".", "..", "/", "\\", ":", "\n", "é", "-", "_", " "]), max_size=5
)


@given(st.lists(_PARTS.map("".join), min_size=1, max_size=4, unique=True))
@settings(max_examples=300)
def test_each_name_is_checked_whatever_names_are_written_or_listed_beside_it(names: list[str]) -> None:
    """The writer checks one name of those that differ in the number at their end, and the reader looks at all names together."""
    for name in names:
        writer = ArchiveWriter(io.BytesIO(), root="")
        for other in ("7", f"{name}7", *names[: names.index(name)]):
            _refusal(writer.write, other, b"", compress=False)
        found = _refusal(writer.write, name, b"", compress=False)
        if name[-1:] not in ("", "/") and name != "7":  # no folder, and not written yet
            assert found == _refusal(check_name, name)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in filter(None, names):
            archive.writestr(zipfile.ZipInfo(name), b"x")
    refusals = {_refusal(check_name, each.filename) for each in zipfile.ZipFile(stream).infolist()} - {""}
    assert bool(refusals) == (_refusal(ArchiveReader, stream.getvalue()) in refusals)
