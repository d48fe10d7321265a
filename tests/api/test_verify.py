"""`verify` tells every problem of a file, whatever else is wrong with it."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from small_programs import SMALL_PROGRAMS

import graphwire
from graphwire.errors import ArchiveError, Problem


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(SMALL_PROGRAMS["buffers_and_constants"]().program)


def headers(data: bytes) -> dict[str, int]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {each.filename: each.header_offset for each in archive.infolist()}


def rewritten(
    data: bytes, changes: dict[str, bytes | None], *, added: dict[str, bytes] | None = None
) -> bytes:
    """The archive with some records of other bytes, or without them, and others added."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(stream, "w") as made:
        for each in archive.infolist():
            content = changes.get(each.filename.partition("/")[2], archive.read(each))
            if content is not None:
                made.writestr(each, content)
        for name, content in (added or {}).items():
            made.writestr(f"program/{name}", content)
    return stream.getvalue()


def shifted(data: bytes, start: int, by: int) -> bytes:
    """The archive with `by` bytes put in at `start`, which no record owns."""
    made = bytearray(data[:start] + b"?" * by + data[start:])
    end = made.rfind(b"PK\x05\x06")
    at = struct.unpack_from("<I", made, end + 16)[0] + by
    struct.pack_into("<I", made, end + 16, at)
    while made[at : at + 4] == b"PK\x01\x02":
        lengths = struct.unpack_from("<3H", made, at + 28)
        (offset,) = struct.unpack_from("<I", made, at + 42)
        struct.pack_into("<I", made, at + 42, offset + by * (offset >= start))
        at += 46 + sum(lengths)
    return bytes(made)


def kinds(problems: list[Problem]) -> set[str]:
    return {problem.kind for problem in problems}


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_damaged_header_hides_no_other_damage(data: bytes, chance: st.DataObject) -> None:
    """A bit of any record's local header, and a byte of another record."""
    places = headers(data)
    name, other = chance.draw(st.permutations(sorted(places)))[:2]
    broken = bytearray(data)
    broken[places[name] + chance.draw(st.sampled_from([0, 8, 26, 30]))] ^= 1 << chance.draw(st.integers(0, 7))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        changed = bool(archive.getinfo(other).file_size)
    if changed:
        start = places[other]
        broken[start + 30 + sum(struct.unpack_from("<2H", broken, start + 26))] ^= 1
    try:
        problems = graphwire.verify(bytes(broken))
    except ArchiveError as error:
        raise AssertionError(f"verify raises for {name}") from error
    told = " ".join(str(problem) for problem in problems)
    assert name in told or places[name] == 0  # a file that does not begin as an archive is none
    assert not changed or other in told or places[name] == 0


@pytest.mark.parametrize("where", ["between", "before the directory"])
def test_bytes_that_no_record_owns_are_told(data: bytes, where: str) -> None:
    (directory,) = struct.unpack_from("<I", data, data.rfind(b"PK\x05\x06") + 16)
    at = directory if where == "before the directory" else sorted(headers(data).values())[3]
    grown = shifted(data, at, 300)
    (problem,) = graphwire.verify(grown)
    assert (problem.kind, "300 bytes" in problem.message) == ("unowned", True)
    graphwire.loads(grown)


def test_a_comment_is_told(data: bytes) -> None:
    grown = data[:-2] + struct.pack("<H", 500) + b"c" * 500
    (problem,) = graphwire.verify(grown)
    assert problem == Problem("behind the directory", "unowned", "500 bytes belong to no record")


def test_an_extra_field_that_holds_a_file_is_told(data: bytes) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(stream, "w") as made:
        for each in archive.infolist():
            content = archive.read(each)
            each.extra = (
                struct.pack("<2H", 0x4242, 1000) + b"x" * 1000
                if each.filename.endswith("model.json")
                else b""
            )
            made.writestr(each, content)
    problems = graphwire.verify(stream.getvalue())
    assert [problem.kind for problem in problems] == [
        "unowned",
        "unowned",
    ]  # in its header, and in the directory
    assert all("models/model.json" in problem.place for problem in problems)


def test_what_torch_wrote_owns_all_of_its_bytes(tmp_path: Path) -> None:
    torch.export.save(SMALL_PROGRAMS["buffers_and_constants"]().program, tmp_path / "torch.pt2")
    assert graphwire.verify(tmp_path / "torch.pt2") == []


@pytest.mark.parametrize("manifest", [None, b'{"sha256":{}}', b"{}", b"nonsense"])
def test_a_file_of_ours_without_its_manifest_is_told(data: bytes, manifest: bytes | None) -> None:
    assert "manifest" in kinds(graphwire.verify(rewritten(data, {"manifest.json": manifest})))
    pretending = rewritten(data, {"manifest.json": manifest}, added={".data/serialization_id": b"0" * 40})
    assert "manifest" in kinds(graphwire.verify(pretending))  # its program says who wrote it


def test_a_file_for_a_target_has_a_manifest_to_lose(data: bytes) -> None:
    target = graphwire.dumps(SMALL_PROGRAMS["buffers_and_constants"]().program, target="torch-2.13")
    assert graphwire.verify(target) == []
    assert kinds(graphwire.verify(rewritten(target, {"manifest.json": None}))) == {"manifest"}


def test_a_closed_archive_has_no_problems_but_is_closed(data: bytes) -> None:
    archive = graphwire.open(data)
    archive.close()
    with pytest.raises(ArchiveError, match="the archive is closed"):
        archive.problems()


def test_a_small_file_that_another_program_shortens_leaves_what_was_loaded(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(50, 50), (torch.ones(1, 50),))
    path = tmp_path / "model.pt2"
    graphwire.save(program, path)
    loaded, module = graphwire.load(path), graphwire.load_module(path)
    torch.export.save(program, path)  # writes into the same file
    path.write_bytes(b"")  # to mapped memory this would be a bus error
    for each in (loaded.module(), module):
        assert torch.equal(each(torch.ones(1, 50)), program.module()(torch.ones(1, 50)))


def test_saving_into_the_file_that_is_mapped_is_refused(tmp_path: Path) -> None:
    side = 2100  # a smaller file is read, not mapped
    program = torch.export.export(torch.nn.Linear(side, side), (torch.ones(1, side),))
    path = tmp_path / "model.pt2"
    graphwire.save(program, path)
    before = path.read_bytes()
    with path.open("r+b") as file:
        loaded = graphwire.load(file)
        file.seek(0)
        for other in (loaded, program):  # whatever is saved, the loaded program would change
            with pytest.raises(ArchiveError, match="still maps this file"):
                graphwire.save(other, file)
        file.flush()
        assert path.read_bytes() == before
        del loaded
        file.seek(0)
        graphwire.save(program, file)  # nothing shows it any more
    assert graphwire.verify(path) == []
    with path.open("r+b") as file:
        graphwire.save(graphwire.load(file, copy=True), file)
    graphwire.save(graphwire.load(path), path)
    assert graphwire.verify(path) == []
