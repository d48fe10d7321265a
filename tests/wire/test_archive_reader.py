from __future__ import annotations

import gzip
import io
import os
import tempfile
import threading
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from inside.wire import ArchiveReader, ArchiveWriter

from graphwire.errors import ArchiveError, ChecksumError, LimitError, MissingRecordError
from graphwire.hooks import Limits

WEIGHT = bytes(range(256)) * 64


def archive_bytes() -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream) as archive:
        archive.write("models/model.json", b'{"a": 1}' * 500, compress=True)
        archive.write_stream("data/weights/weight_0", len(WEIGHT), [WEIGHT])
        archive.write_stream("data/weights/weight_1", 0, [])
    return stream.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt2"
    path.write_bytes(archive_bytes())
    return path


class Wrapped:
    """A file object without a file below it, that gives its bytes in small parts."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.inner.read(min(size, 777) if size >= 0 else size)


def test_every_kind_of_source_is_read(path: Path) -> None:
    data = path.read_bytes()
    compressed = path.with_suffix(".gz")
    compressed.write_bytes(gzip.compress(data))
    with (
        path.open("rb") as file,
        path.open("rb", buffering=0) as raw,
        gzip.open(compressed) as unpacked,
        tempfile.NamedTemporaryFile() as temporary,
        tempfile.SpooledTemporaryFile() as spooled,
        path.open("r+b") as both,
    ):
        for each in (temporary, spooled):
            each.write(data)
        sources = [
            str(path),
            path,
            file,
            raw,
            unpacked,
            temporary,
            spooled,
            both,
            io.BytesIO(data),
            Wrapped(data),
        ]
        for source in [*sources, data, bytearray(data), memoryview(data)]:
            with ArchiveReader(cast(Any, source)) as archive:
                assert archive.read("data/weights/weight_0") == WEIGHT
                assert bytes(archive.map("data/weights/weight_0")) == WEIGHT
                assert archive.root == "program"


def test_a_pipe_is_read(path: Path) -> None:
    pipe = path.with_suffix(".pipe")
    os.mkfifo(pipe)
    feeder = threading.Thread(target=lambda: pipe.write_bytes(archive_bytes()))
    feeder.start()
    with ArchiveReader(pipe) as archive:
        assert archive.read("data/weights/weight_0") == WEIGHT
    feeder.join()


def test_a_stream_without_end_is_refused() -> None:
    class Endless:
        def read(self, size: int) -> bytes:
            return b"P" * size

    with pytest.raises(LimitError, match="more than"):
        ArchiveReader(cast(BinaryIO, Endless()), limits=Limits(unmapped_bytes=10 << 20))


@pytest.mark.parametrize("buffering", [0, -1])
@pytest.mark.parametrize("header", [b"", b"header of one's own", b"x" * 100_000])
def test_a_file_object_is_read_from_where_it_stands(path: Path, buffering: int, header: bytes) -> None:
    class Wrapped(io.BytesIO):
        """Not a `BytesIO` whose buffer is taken: it is read like any other object."""

        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size)

    data = header + path.read_bytes()
    path.write_bytes(data)
    with path.open("rb", buffering) as file, gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))) as packed:
        for each in (file, io.BytesIO(data), Wrapped(data), packed):
            each.seek(len(header))
            archive = ArchiveReader(cast(BinaryIO, each))
            assert archive.read("models/model.json") == b'{"a": 1}' * 500
            assert bytes(archive.map("data/weights/weight_0")) == WEIGHT
            assert each.tell() == len(header)


def test_a_file_object_at_its_end_is_read_from_its_start(path: Path) -> None:
    with path.open("rb") as file, io.BytesIO(path.read_bytes()) as buffer:
        for each in (file, buffer):
            each.seek(0, 2)
            assert ArchiveReader(each).read("models/model.json") == b'{"a": 1}' * 500


def test_the_file_object_may_be_closed_first(path: Path) -> None:
    with path.open("rb") as file:
        archive = ArchiveReader(file)
    assert archive.read("data/weights/weight_0") == WEIGHT


# Names


def test_names_are_relative_to_the_root_folder(path: Path) -> None:
    with ArchiveReader(path) as archive:
        assert archive.names[:4] == ("archive_format", "archive_version", "byteorder", ".data/version")
        assert "models/model.json" in archive
        assert "program/models/model.json" not in archive


def test_records_at_the_top_level_have_no_root() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("extra_files/note", "hi")
        archive.writestr("version", "8.2")
    with ArchiveReader(stream) as reader:
        assert reader.root == ""
        assert reader.names == ("serialized_exported_program.json", "extra_files/note", "version")


def test_a_missing_record_is_named_with_its_neighbours(path: Path) -> None:
    with ArchiveReader(path) as archive:
        for ask in (archive.read, archive.map, archive.size, archive.offset, archive.verify, archive.nested):
            with pytest.raises(
                MissingRecordError, match=r"no record 'models/model.jsn'.*'models/model.json'"
            ):
                ask("models/model.jsn")


def test_the_size_of_the_archive_is_known(path: Path) -> None:
    for source in (path, path.read_bytes()):
        assert ArchiveReader(source).nbytes == path.stat().st_size


# Mapping


def test_a_copied_record_is_memory_of_its_own(path: Path) -> None:
    with ArchiveReader(path) as archive:
        copies = [archive.copy("data/weights/weight_0") for _ in range(2)]
        copies[0][0] = 255
        assert copies[1] == WEIGHT == archive.read("data/weights/weight_0")
        assert archive.copy("data/weights/weight_1") == b""


@pytest.mark.parametrize("kind", ["path", "bytes", "bytearray"])
def test_writing_to_a_mapped_record_changes_nothing_else(path: Path, kind: str) -> None:
    data = path.read_bytes()
    source: Any = {"path": path, "bytes": data, "bytearray": bytearray(data)}[kind]
    with ArchiveReader(source) as archive:
        view = archive.map("data/weights/weight_0")
        view[0] = 255
        assert archive.read("data/weights/weight_0") == WEIGHT
        archive.verify("data/weights/weight_0")
    with ArchiveReader(source) as archive:
        assert archive.map("data/weights/weight_0")[0] == 0
    assert path.read_bytes() == data


def test_a_closed_reader_says_so(path: Path) -> None:
    for source in (path, path.read_bytes()):
        archive = ArchiveReader(source)
        archive.close()
        archive.close()
        with pytest.raises(ArchiveError, match="closed"):
            archive.read("models/model.json")
        with pytest.raises(ArchiveError, match="closed"):
            archive.map("data/weights/weight_0")


def test_no_descriptor_is_left_open(path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with ArchiveReader(path) as archive:
            archive.map("data/weights/weight_0")
        ArchiveReader(path)
        with pytest.raises(ArchiveError):
            ArchiveReader(b"")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nested_archives_share_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "outer.pt2"
    with path.open("wb") as file, ArchiveWriter(file) as archive:
        inner = archive_bytes()
        archive.write_stream("data/weights/model.pt", len(inner), [inner])
        archive.write("deflated.pt", inner, compress=True)
        archive.write("no.pt", b"no archive", compress=False)
    with ArchiveReader(path) as outer:
        for name in ("data/weights/model.pt", "deflated.pt"):
            nested = outer.nested(name)
            assert nested.read("models/model.json") == b'{"a": 1}' * 500
            view = nested.map("data/weights/weight_0")
            view[0] = 9
            nested.close()
        assert outer.read("data/weights/model.pt") == inner
        with pytest.raises(ArchiveError, match=r"record 'no.pt': this is not an archive"):
            outer.nested("no.pt")


# What is no archive


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the file is empty"),
        (b"P", "this is not an archive"),
        (b"hello, world", "this is not an archive"),
        (b"\x40\0\0\0\0\0\0\0{}" + bytes(62), "this is not an archive but a safetensors file"),
        (b"\x08\x08\x12\x07pytorch", "this is not an archive but an ONNX model"),
        (b"\x80\x02}q\x00.", "this is not an archive"),
        (b"PK\x03\x04", "no end record"),
        (b"PK\x03\x04" + bytes(100), "no end record"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    for source in (path, data, io.BytesIO(data)):
        with pytest.raises(ArchiveError, match=problem) as caught:
            ArchiveReader(source)
        assert caught.value.remedy


def test_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="folder"):
        ArchiveReader(tmp_path)
    with pytest.raises(ArchiveError, match="device"):
        ArchiveReader("/dev/zero")


def test_a_text_file_object_is_refused(path: Path) -> None:
    with path.open(encoding="latin-1") as file, pytest.raises(ArchiveError, match="binary mode"):
        ArchiveReader(cast(BinaryIO, file))
    with pytest.raises(ArchiveError, match="not a path, a binary file or bytes"):
        ArchiveReader(cast(BinaryIO, 7))


def test_a_file_cut_anywhere_is_refused() -> None:
    data = archive_bytes()
    for size in range(len(data)):
        with pytest.raises(ArchiveError):
            ArchiveReader(data[:size])


def test_a_file_that_is_cut_while_it_is_read_is_an_error(path: Path) -> None:
    archive = ArchiveReader(path)
    os.truncate(path, 500)
    with pytest.raises(ArchiveError, match="shorter"):
        archive.read("data/weights/weight_0")
    with pytest.raises(ArchiveError, match="shorter"):
        archive.map("data/weights/weight_0")


# Damage


def test_a_flipped_bit_in_a_record_is_found() -> None:
    data = bytearray(archive_bytes())
    at = ArchiveReader(bytes(data)).offset("data/weights/weight_0")
    data[at + 1000] ^= 1
    archive = ArchiveReader(data)
    for check in (archive.read, archive.verify, archive.copy):
        with pytest.raises(ChecksumError, match=r"record 'program/data/weights/weight_0'.*CRC-32"):
            check("data/weights/weight_0")


def test_a_flipped_byte_anywhere_is_an_error_or_makes_no_difference() -> None:
    data = archive_bytes()
    records = {name: ArchiveReader(data).read(name) for name in ArchiveReader(data).names}
    start = ArchiveReader(data).offset("data/weights/weight_0")
    places = [*range(start + 64), *range(start + len(WEIGHT) - 8, len(data))]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        try:
            archive = ArchiveReader(damaged)
            found = {name: archive.read(name) for name in archive.names}
        except (ArchiveError, LimitError):
            continue
        assert sorted(found.values()) == sorted(records.values())


# Limits


def test_a_record_beyond_the_limit_is_refused_before_it_is_read(path: Path) -> None:
    with ArchiveReader(path, limits=Limits(program_bytes=1000)) as archive:
        for name in ("models/model.json", "data/weights/weight_0"):
            with pytest.raises(LimitError, match="more than 1,000"):
                archive.read(name)
        assert len(archive.map("data/weights/weight_0")) == len(WEIGHT)
        assert archive.copy("data/weights/weight_0") == WEIGHT
        assert archive.copy("models/model.json") == b'{"a": 1}' * 500


def test_too_many_records_and_too_long_names_are_refused(path: Path) -> None:
    with pytest.raises(LimitError, match="records"):
        ArchiveReader(path, limits=Limits(records=3))
    with pytest.raises(LimitError, match="name"):
        ArchiveReader(path, limits=Limits(name_bytes=10))


def test_a_bomb_is_refused_without_inflating_it() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("r/bomb", "w") as member:
        for _ in range(64):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    reader = ArchiveReader(stream)
    for ask in (reader.read, reader.verify, reader.map, reader.copy):
        with pytest.raises(LimitError, match="inflates from"):
            ask("bomb")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    trusting = ArchiveReader(stream, limits=Limits(inflate_ratio=2000))
    assert len(trusting.read("bomb")) == 64 << 20
    trusting.verify("bomb")
