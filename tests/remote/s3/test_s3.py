"""Programs in an S3-compatible store: moto's server and s3fs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
import torch
from moto.server import ThreadedMotoServer

import graphwire
from graphwire import Blobs, errors
from graphwire.wire.archive import ArchiveWriter, atomic_write
from graphwire.wire.remote import located


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """The storage options of a running server, with a bucket `bucket`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "key": "a",
        "secret": "b",
        "endpoint_url": f"http://{host}:{port}",
        "default_block_size": 5 << 20,
    }
    store = fsspec.filesystem("s3", **options)
    store.mkdir("bucket")
    yield options
    server.stop()


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    """A program of 16 MiB, which takes several parts of an upload."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
    return torch.export.export(module, (torch.ones(2, 1024),))


def test_a_program_is_written_in_parts_and_read(
    options: dict[str, Any], program: torch.export.ExportedProgram
) -> None:
    url = "s3://bucket/deep/program.pt2"
    graphwire.save(program, url, storage_options=options)
    store = fsspec.filesystem("s3", **options)
    assert store.cat("bucket/deep/program.pt2") == graphwire.dumps(program)
    assert store.info("bucket/deep/program.pt2")["ETag"].strip('"').endswith("-4")  # parts
    loaded = graphwire.load(url, storage_options=options)
    there, here = (graphwire.content_hash(each, weights=True) for each in (loaded, program))
    assert there == here
    assert graphwire.verify(url, storage_options={"s3": options, "memory": {}}) == []


@pytest.mark.parametrize("place", ["s3://bucket/w/model.safetensors", Blobs("s3://bucket/blobs")])
def test_weights_are_beside_it(
    place: Any, options: dict[str, Any], program: torch.export.ExportedProgram
) -> None:
    graphwire.save(program, "s3://bucket/beside.pt2", weights=place, storage_options=options)
    assert graphwire.verify("s3://bucket/beside.pt2", storage_options=options) == []
    loaded = graphwire.load("s3://bucket/beside.pt2", storage_options=options)
    assert torch.equal(loaded.state_dict["3.weight"], program.state_dict["3.weight"])


def test_what_fails_while_it_is_written_leaves_nothing(options: dict[str, Any]) -> None:
    store = fsspec.filesystem("s3", **options)
    writing = atomic_write(located("s3://bucket/half.pt2", options))
    with pytest.raises(errors.ArchiveError), writing as file, writing, ArchiveWriter(file) as archive:
        archive.write_stream("data/weights/weight_0", 20 << 20, [bytes(12 << 20)])
    store.invalidate_cache()
    assert not store.exists("bucket/half.pt2")
    uploads = store.call_s3("list_multipart_uploads", Bucket="bucket")
    assert not uploads.get("Uploads")


def test_a_store_that_denies_access_is_a_permission_error_with_the_url(options: dict[str, Any]) -> None:
    with pytest.raises((PermissionError, FileNotFoundError)) as caught:
        graphwire.open("s3://nobucket/program.pt2", storage_options=options)
    assert caught.value.filename == "s3://nobucket/program.pt2"
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises((OSError, errors.RemoteError)):
        graphwire.save(program, "s3://nobucket/program.pt2", storage_options=options)
