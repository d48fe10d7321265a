"""What a program can be written to and read from, and what a file holds beside it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import ArchiveError, ChecksumError
from graphwire.testing import assert_same_program


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))


@pytest.fixture(scope="module")
def data(program: ExportedProgram) -> bytes:
    return graphwire.dumps(program)


class Pipe(io.RawIOBase):
    """A stream that only goes forward."""

    def __init__(self, data: bytes = b"") -> None:
        self.written = bytearray()
        self._source = io.BytesIO(data)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, part: Any) -> int:
        self.written += part
        return len(part)

    def readinto(self, buffer: Any) -> int:
        return self._source.readinto(buffer)


# ------------------------------------------------------------------------------------------------------- where to


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_may_be_text_or_a_path(
    kind: Callable[[Any], Any], program: ExportedProgram, data: bytes, tmp_path: Path
) -> None:
    path = kind(tmp_path / "program.pt2")
    graphwire.save(program, path)
    assert Path(path).read_bytes() == data
    assert_same_program(graphwire.load(path), program)


def test_a_program_is_written_behind_what_a_stream_holds(program: ExportedProgram, data: bytes) -> None:
    stream = io.BytesIO(b"before")
    stream.seek(0, io.SEEK_END)
    graphwire.save(program, stream)
    assert stream.getvalue() == b"before" + data


def test_a_program_is_written_to_a_stream_that_does_not_seek(program: ExportedProgram, data: bytes) -> None:
    pipe = Pipe()
    graphwire.save(program, pipe)
    assert bytes(pipe.written) == data


def test_a_program_is_read_from_a_stream_that_does_not_seek(program: ExportedProgram, data: bytes) -> None:
    assert_same_program(graphwire.load(io.BufferedReader(Pipe(data))), program)


def test_a_file_object_that_gives_nothing_is_told(data: bytes) -> None:
    class NotYet(io.RawIOBase):
        def read(self, size: int = -1) -> None:
            """As of a pipe that does not wait."""

    closed = io.BytesIO(data)
    closed.close()
    for file in (closed, NotYet()):
        with pytest.raises(ArchiveError, match="no bytes"):
            graphwire.load(file)  # type: ignore[arg-type]


def test_loading_from_a_buffer_leaves_the_buffer_alone(program: ExportedProgram, data: bytes) -> None:
    buffer = bytearray(data)
    loaded = graphwire.loads(buffer)
    loaded.state_dict["bias"].data.fill_(9.0)
    assert buffer == data
    buffer[:] = bytes(len(buffer))
    assert loaded.state_dict["bias"].tolist() == [9.0, 9.0]


# -------------------------------------------------------------------------------------------------- what else is there


def test_extra_files_are_kept_by_path(program: ExportedProgram, tmp_path: Path) -> None:
    extra = {"notes/read me.txt": "é".encode(), "empty": b"", "large": bytes(range(256)) * 400}
    graphwire.save(program, tmp_path / "one.pt2", extra_files=extra)
    graphwire.convert(tmp_path / "one.pt2", tmp_path / "other.pt2", format="msgpack")
    for name in ("one.pt2", "other.pt2"):
        with graphwire.open(tmp_path / name) as archive:
            assert {path: archive.read_extra(path) for path in archive.extra_files} == extra
            with pytest.raises(graphwire.errors.MissingRecordError):
                archive.read_extra("absent")


def test_an_open_file_gives_records_and_payloads_by_name(program: ExportedProgram, data: bytes) -> None:
    record, payloads = graphwire.to_schema(program)
    with graphwire.open(data) as archive:
        assert archive.methods == ("model",)
        assert archive.program.readable_from is not None
        assert msgspec.structs.replace(archive.program, readable_from=None) == record
        assert archive.payloads.weights == payloads.weights
        assert list(archive.payloads.weights) == ["weight", "bias"]
        assert archive.format_of("model") == "json"
        assert {name: bytes(each.view()) for name, each in archive.payloads.records.items()} == {
            name: bytes(each.view()) for name, each in payloads.records.items()
        }


def test_a_program_without_example_inputs_has_none(program: ExportedProgram) -> None:
    bare = graphwire.loads(graphwire.dumps(program))
    bare.example_inputs = None
    assert graphwire.loads(graphwire.dumps(bare)).example_inputs is None


@pytest.mark.parametrize("folder", ["weights", "constants", "sample_inputs"])
@pytest.mark.parametrize("rewrite", [graphwire.convert, graphwire.upgrade])
def test_damage_is_not_written_again_with_a_checksum_that_fits_it(
    rewrite: Callable[..., Any], folder: str, tmp_path: Path
) -> None:
    model = torch.nn.Linear(3, 2)
    model.constant = torch.arange(5.0) + 0.125
    model.forward = lambda x: torch.nn.functional.linear(x, model.weight, model.bias) + model.constant[:2]
    data = bytearray(graphwire.dumps(export(model, (torch.full((1, 3), 0.375),), strict=False)))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [each for each in archive.infolist() if f"/data/{folder}/" in each.filename]
        content = next(archive.read(each) for each in members if each.filename.endswith("_0"))
    data[data.index(content)] ^= 1
    new = tmp_path / "new.pt2"
    with pytest.raises(ChecksumError, match=folder):
        rewrite(bytes(data), new)
    assert not new.exists()
