"""Programs and their weights are written to URLs, whole or not at all, and read from there."""

from __future__ import annotations

import io
from pathlib import Path

import fsspec
import pytest
import torch
from fsspec.asyn import get_loop
from http_servers import folder_server
from inside.wire import REFERENCES, ArchiveReader, ArchiveWriter
from upath import UPath

import graphwire
from graphwire import Blobs, Checkpoint, errors

for _protocol in ("http", "memory", "local"):
    fsspec.get_filesystem_class(_protocol)
get_loop()


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 7))
    return torch.export.export(module, (torch.ones(2, 300),))


@pytest.fixture
def bucket() -> fsspec.AbstractFileSystem:
    store = fsspec.filesystem("memory")
    store.store.clear()
    return store


def _same(a: torch.export.ExportedProgram, b: torch.export.ExportedProgram) -> bool:
    return graphwire.content_hash(a, weights=True) == graphwire.content_hash(b, weights=True)


@pytest.mark.parametrize("url", ["memory://bucket/program.pt2", UPath("memory://bucket/deep/program.pt2")])
def test_a_saved_file_is_what_a_local_one_is(
    url: object, program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem
) -> None:
    graphwire.save(program, url, format="msgpack")
    assert bucket.cat(str(url)) == graphwire.dumps(program, format="msgpack")
    assert [name for name in bucket.find("/") if name.endswith(".part")] == []
    assert _same(graphwire.load(url), program)


def test_a_file_at_a_url_is_converted_upgraded_and_exported(
    program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem
) -> None:
    url = "memory://bucket/program.pt2"
    graphwire.save(program, url)
    graphwire.convert(url, "memory://bucket/converted.pt2", format="cbor")
    graphwire.convert(url, url, format="cbor")
    assert bucket.cat(url) == bucket.cat("memory://bucket/converted.pt2")
    before = bucket.info(url)["created"]
    graphwire.upgrade(url, url)
    assert bucket.info(url)["created"] == before  # nothing to do
    graphwire.upgrade(url, url, format="json")
    assert graphwire.verify(url) == []
    graphwire.weights(url, export="memory://bucket/weights.safetensors")
    assert _same(graphwire.load(url, weights="memory://bucket/weights.safetensors"), program)
    with pytest.raises(errors.ArchiveError, match=r"memory://bucket/weights.safetensors' exists"):
        graphwire.weights(url, export="memory://bucket/weights.safetensors")


def test_a_save_that_fails_leaves_the_old_file(
    program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem
) -> None:
    url = "memory://bucket/program.pt2"
    graphwire.save(program, url)
    old = bucket.cat(url)
    with pytest.raises(errors.ArchiveError, match="steps out"):
        graphwire.save(program, url, extra_files={"../out": b""}, format="json")
    assert bucket.cat(url) == old
    assert bucket.find("/") == ["/bucket/program.pt2"]


def test_nothing_is_written_to_http_servers(program: torch.export.ExportedProgram) -> None:
    with pytest.raises(
        errors.RemoteError, match=r"http://127.0.0.1:9/p.pt2: files cannot be written to HTTP"
    ):
        graphwire.save(program, "http://127.0.0.1:9/p.pt2")


@pytest.mark.parametrize("place", ["memory://bucket/sub/model.safetensors", Blobs("memory://bucket/blobs")])
def test_weights_beside_a_remote_program_are_found_there(
    place: object, program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    url = "memory://bucket/program.pt2"
    graphwire.save(program, url, weights=place)
    graphwire.save(program, "memory://bucket/again.pt2", weights=place)
    assert bucket.size(url) < 20_000
    for file in (url, UPath(url)):
        assert _same(graphwire.load(file), program)
    assert graphwire.verify(url) == []
    bucket.get("bucket/", str(tmp_path), recursive=True)
    with folder_server(tmp_path) as server:  # a program refers to its weights wherever both are
        assert _same(graphwire.load(f"{server.url}/program.pt2"), program)
        assert server.nbytes > 300 * 300 * 4
    for name in bucket.find("bucket"):
        if name.endswith("safetensors") or "/blobs/" in name:
            data = bytearray(bucket.cat(name))
            data[-1] ^= 1
            bucket.pipe(name, bytes(data))
    with pytest.raises((errors.ChecksumError, errors.WeightsError)):
        graphwire.load(url)


def test_a_checkpoint_may_be_at_a_url(
    program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    graphwire.save(program, tmp_path / "local.pt2")
    graphwire.weights(tmp_path / "local.pt2", export="memory://bucket/model.safetensors")
    graphwire.save(program, tmp_path / "bare.pt2", weights=None)
    loaded = graphwire.load(tmp_path / "bare.pt2", weights=None)
    graphwire.bind(loaded, "memory://bucket/model.safetensors")
    assert _same(loaded, program)
    assert _same(graphwire.load(tmp_path / "bare.pt2", weights=Checkpoint("memory://bucket/")), program)
    graphwire.save(program, "memory://bucket/p.pt2", weights=Checkpoint("memory://bucket/model.safetensors"))
    assert _same(graphwire.load("memory://bucket/p.pt2"), program)
    # A file elsewhere does not say where they are.
    graphwire.save(program, tmp_path / "far.pt2", weights=Checkpoint("memory://bucket/model.safetensors"))
    with pytest.raises(errors.WeightsError, match="does not state where"):
        graphwire.load(tmp_path / "far.pt2")


def test_no_url_comes_from_a_file(
    program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem
) -> None:
    """A reference that is a URL, or leads out of the folder, is refused, whatever is there."""
    graphwire.save(program, "memory://bucket/program.pt2", weights="memory://bucket/model.safetensors")
    bucket.cp("/bucket/model.safetensors", "/other/model.safetensors")
    with ArchiveReader(bucket.cat("/bucket/program.pt2")) as archive:
        records = {name: archive.read(name) for name in archive.names}
    for location in (
        "memory://other/model.safetensors",
        "../other/model.safetensors",
        "/other/model.safetensors",
    ):
        records[REFERENCES] = records[REFERENCES].replace(b"model.safetensors", location.encode())
        hostile = io.BytesIO()
        with ArchiveWriter(hostile, records={}) as out:
            for name, data in records.items():
                out.write(name, data, compress=False)
        bucket.pipe("/bucket/hostile.pt2", hostile.getvalue())
        with pytest.raises(errors.WeightsError, match="location"):
            graphwire.load("memory://bucket/hostile.pt2")
        records[REFERENCES] = records[REFERENCES].replace(location.encode(), b"model.safetensors")


def test_each_rank_reads_its_part_of_a_remote_checkpoint(
    bucket: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    whole = torch.arange(64 * 48, dtype=torch.float32).reshape(64, 48)
    part = torch.nn.Linear(48, 32, bias=False)
    part.weight.data = whole[:32].clone()
    full = torch.nn.Linear(48, 64, bias=False)
    full.weight.data = whole
    graphwire.save(torch.export.export(full, (torch.ones(1, 48),)), tmp_path / "full.pt2")
    graphwire.weights(tmp_path / "full.pt2", export="memory://bucket/full.safetensors")
    chosen = Checkpoint("memory://bucket/full.safetensors", ranks=2, rank=0, shard={"weight": 0})
    graphwire.save(
        torch.export.export(part, (torch.ones(1, 48),)), "memory://bucket/part.pt2", weights=chosen
    )
    for rank in (0, 1):
        loaded = graphwire.load("memory://bucket/part.pt2", rank=rank)
        assert torch.equal(loaded.state_dict["weight"], whole[32 * rank : 32 * (rank + 1)])


def test_a_program_goes_to_a_device_checked(
    program: torch.export.ExportedProgram, bucket: fsspec.AbstractFileSystem
) -> None:
    url = "memory://bucket/program.pt2"
    graphwire.save(program, url)
    assert _same(graphwire.load(url, copy=True, verify=True), program)
    assert graphwire.load(url, weights=None).state_dict["0.weight"].is_meta
    with graphwire.open(url) as archive:
        assert archive.is_remote
        assert archive.file == url
