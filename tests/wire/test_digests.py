"""The manifest: a digest of every record, which `verify` compares, and which stands in the way of no reader."""

from __future__ import annotations

import hashlib
import io
import json
import random
import threading
import tracemalloc
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import export

import graphwire
from graphwire import errors
from graphwire.wire.archive import ArchiveReader, ArchiveWriter
from graphwire.wire.digests import MANIFEST, read_manifest


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(export(nn.Linear(700, 700), (torch.ones(1, 700),)), extra_files={"note": b"hello"})


def records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def rewritten(data: bytes, **changes: bytes | None) -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream, records={}) as archive:
        for name, content in {**records(data), **changes}.items():
            if content is not None:
                archive.write(name, content, compress=False)
    return stream.getvalue()


def test_every_record_is_listed_with_its_digest(data: bytes) -> None:
    found = records(data)
    listed = json.loads(found.pop(MANIFEST))["sha256"]
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert graphwire.verify(data) == []


def test_a_record_that_was_changed_with_its_checksum_is_found(data: bytes) -> None:
    weight = bytearray(records(data)["data/weights/weight_0"])
    weight[7] ^= 1
    changed = rewritten(data, **{"data/weights/weight_0": bytes(weight)})
    assert [(p.place, p.kind) for p in graphwire.verify(changed)] == [
        ("record 'program/data/weights/weight_0'", "record")
    ]
    with pytest.raises(errors.ChecksumError, match=r"weight_0.*SHA-256"):
        graphwire.loads(changed, verify=True)
    graphwire.loads(changed)


def test_records_that_the_manifest_and_the_archive_do_not_both_have_are_found(data: bytes) -> None:
    changed = rewritten(data, **{"extra/note": None, "extra/other": b"x"})
    found = {(p.place, p.kind) for p in graphwire.verify(changed)}
    assert found == {("record 'extra/note'", "manifest"), ("record 'extra/other'", "manifest")}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sha256": 3}', b"[" * 100_000])
def test_a_damaged_manifest_is_a_problem_and_no_hindrance(data: bytes, content: bytes) -> None:
    changed = rewritten(data, **{MANIFEST: content})
    assert [p.kind for p in graphwire.verify(changed)] == ["manifest"]
    graphwire.loads(changed)
    with pytest.raises(errors.ArchiveError, match="manifest"):
        graphwire.loads(changed, verify=True)


def test_a_file_without_a_manifest_is_in_order(data: bytes) -> None:
    assert graphwire.verify(rewritten(data, **{MANIFEST: None})) == []


def test_chunks_of_any_size_come_to_one_digest(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(5 << 20)
    path = tmp_path / "file"
    with path.open("wb") as stream, ArchiveWriter(stream, manifest=True) as archive:
        archive.write_stream("whole", len(content), [content])
        parts = [content[:10], content[10 : 3 << 20], content[3 << 20 :]]
        archive.write_stream("parts", len(content), parts)
        archive.write_stream("empty", 0, [])
    with ArchiveReader(path) as archive:
        listed = read_manifest(archive.read(MANIFEST))
    assert listed["whole"] == listed["parts"] == hashlib.sha256(content).hexdigest()
    assert listed["empty"] == hashlib.sha256(b"").hexdigest()


class _Copy(bytearray):
    """Memory that can be seen to be gone."""


@pytest.mark.parametrize("lent", [True, False])
def test_large_and_small_records_in_any_order_have_their_digests(lent: bool) -> None:
    draw = random.Random(1)
    contents = {f"record_{i}": draw.randbytes(draw.choice([100, 1 << 20, 3 << 20])) for i in range(30)}
    with ArchiveWriter(stream := io.BytesIO(), manifest=True) as archive:
        for name, content in contents.items():
            chunks = [content[start : start + (1 << 19)] for start in range(0, len(content), 1 << 19)]
            archive.write_stream(name, len(content), chunks, lent=lent)
    listed = read_manifest(ArchiveReader(stream).read(MANIFEST))
    assert {name: listed[name] for name in contents} == {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }


def test_few_copies_are_kept_until_they_are_hashed() -> None:
    made: list[weakref.ref[_Copy]] = []

    def copies(byte: int) -> Iterator[_Copy]:
        copy = _Copy(bytes([byte]) * (2 << 20))
        made.append(weakref.ref(copy))
        yield copy

    most = 0
    with ArchiveWriter(io.BytesIO(), manifest=True) as archive:
        for index in range(20):
            archive.write_stream(f"copy_{index}", 2 << 20, copies(index))
            most = max(most, sum(each() is not None for each in made))
    assert 1 <= most <= 3
    assert not any(each() for each in made)


def test_an_archive_that_fails_leaves_no_thread() -> None:
    def fails() -> Iterator[bytes]:
        yield bytes(1 << 20)
        raise OSError("gone")

    def write() -> None:
        with ArchiveWriter(io.BytesIO(), manifest=True) as archive:
            archive.write_stream("whole", 4 << 20, [bytes(4 << 20)], lent=True)
            archive.write_stream("half", 2 << 20, fails(), lent=True)

    with pytest.raises(OSError, match="gone"):
        write()
    assert not [each for each in threading.enumerate() if each.name.startswith("graphwire-sha256")]


def test_a_failure_at_the_end_leaves_no_thread() -> None:
    def fails() -> None:
        raise OSError("no space")

    archive = ArchiveWriter(io.BytesIO(), manifest=True, settle=fails)
    for index in range(20):
        archive.write_stream(f"weight_{index}", 4 << 20, [bytes(4 << 20)], lent=True)
    with pytest.raises(OSError, match="no space"):
        archive.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("graphwire-sha256")]


def test_weights_that_are_no_file_are_converted_without_all_of_them_in_memory(tmp_path: Path) -> None:
    model = nn.ParameterList(torch.rand(1 << 19) for _ in range(24))  # 2 MiB each
    data = graphwire.dumps(export(_Sum(model), (torch.ones(1),)))
    tracemalloc.start()
    try:
        graphwire.convert(data, tmp_path / "converted.pt2", format="cbor")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert graphwire.verify(tmp_path / "converted.pt2") == []


class _Sum(nn.Module):
    def __init__(self, weights: nn.ParameterList) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[:1]
        return x
