"""Programs in stores, each read and written by its own client: S3, Google Cloud Storage, Azure, and servers with nginx."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest
import stores
import torch
from fsspec.asyn import get_loop
from inside.wire import ArchiveWriter, atomic_write, located
from remote.test_secrets import SECRET, RedirectingServer
from stores import Store

import graphwire
from graphwire import Blobs, errors

# Clients leave connections and tasks to the collector.
pytestmark = pytest.mark.filterwarnings("ignore")

fsspec.get_filesystem_class(
    "http"
)  # The imports of a client come before a load, in which the tests allow none.
get_loop()

_NO_AZURITE = pytest.mark.skipif(
    not stores.HAS_AZURITE, reason="`make test-remote` installs Azurite with Node"
)


@pytest.fixture(scope="module", params=["s3", "gs", pytest.param("az", marks=_NO_AZURITE)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with getattr(stores, request.param)() as store:
        yield store


@pytest.fixture(scope="module")
def s3() -> Iterator[Store]:
    with stores.s3() as store:
        yield store


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    """A program of 16 MiB, which takes several parts of an upload."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
    return torch.export.export(module, (torch.ones(2, 1024),))


def _files(store: Store) -> Any:
    files = fsspec.filesystem(store.url.partition(":")[0], **store.options)
    files.invalidate_cache()
    return files


def test_a_program_is_written_and_read(store: Store, program: torch.export.ExportedProgram) -> None:
    url = f"{store.url}/deep/program.pt2"
    graphwire.save(program, url, storage_options=store.options)
    assert _files(store).cat(url) == graphwire.dumps(program)
    loaded = graphwire.load(url, storage_options=store.options)
    there, here = (graphwire.content_hash(each, weights=True) for each in (loaded, program))
    assert there == here
    protocol = store.url.partition(":")[0]
    assert graphwire.verify(url, storage_options={protocol: store.options, "memory": {}}) == []


def test_a_store_without_credentials_asks_for_them_at_once(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    options = {"endpoint_url": s3.options["endpoint_url"]}
    with pytest.raises(PermissionError, match="credentials go into storage_options="):
        graphwire.inspect(f"{s3.url}/private.pt2", storage_options=options)


def test_a_program_is_replaced_by_its_conversion(store: Store, program: torch.export.ExportedProgram) -> None:
    url = f"{store.url}/replaced.pt2"
    graphwire.save(program, url, storage_options=store.options)
    graphwire.convert(url, url, format="cbor", storage_options=store.options)
    assert graphwire.diff(url, program, storage_options=store.options).same
    assert graphwire.verify(url, storage_options=store.options) == []


@pytest.mark.parametrize("shared", [False, True], ids=["checkpoint", "blobs"])
def test_weights_are_beside_it(store: Store, program: torch.export.ExportedProgram, shared: bool) -> None:
    url = f"{store.url}/beside.pt2"
    place: Any = Blobs(f"{store.url}/blobs") if shared else f"{store.url}/w/model.safetensors"
    graphwire.save(program, url, weights=place, storage_options=store.options)
    assert graphwire.verify(url, storage_options=store.options) == []
    loaded = graphwire.load(url, storage_options=store.options)
    assert torch.equal(loaded.state_dict["3.weight"], program.state_dict["3.weight"])


def test_what_fails_while_it_is_written_leaves_nothing(store: Store) -> None:
    url = f"{store.url}/half.pt2"
    writing = atomic_write(located(url, store.options))
    with pytest.raises(errors.ArchiveError), writing as file, ArchiveWriter(file) as archive:
        archive.write_stream("data/weights/weight_0", 20 << 20, [bytes(12 << 20)])
    assert not _files(store).exists(url)


def test_a_file_that_is_not_there_is_not_asked_for_twice(store: Store) -> None:
    url = f"{store.url}/absent.pt2"
    with pytest.raises(FileNotFoundError) as caught:
        graphwire.open(url, storage_options=store.options)
    assert caught.value.filename == url


def test_s3_gets_parts_and_keeps_none_of_a_failed_upload(
    s3: Store, program: torch.export.ExportedProgram
) -> None:
    graphwire.save(program, "s3://bucket/parts.pt2", storage_options=s3.options)
    assert _files(s3).info("bucket/parts.pt2")["ETag"].strip('"').endswith("-4")
    test_what_fails_while_it_is_written_leaves_nothing(s3)
    assert not _files(s3).call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads")


def test_a_store_that_denies_access_is_a_permission_error_with_the_url(s3: Store) -> None:
    with pytest.raises((PermissionError, FileNotFoundError)) as caught:
        graphwire.open("s3://nobucket/program.pt2", storage_options=s3.options)
    assert caught.value.filename == "s3://nobucket/program.pt2"
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises((OSError, errors.RemoteError)):
        graphwire.save(program, "s3://nobucket/program.pt2", storage_options=s3.options)


@pytest.mark.skipif(not stores.NGINX, reason="nginx is not installed")
def test_nginx_serves_programs(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    served, state = tmp_path / "served", tmp_path / "state"
    served.mkdir()
    state.mkdir()
    graphwire.save(program, served / "program.pt2", weights=served / "model.safetensors")
    with ExitStack() as stack:
        url = f"{stack.enter_context(stores.nginx(served, state))}/program.pt2"
        assert graphwire.verify(url) == []
        loaded = graphwire.load(url)
        assert torch.equal(loaded.state_dict["3.weight"], program.state_dict["3.weight"])
        with pytest.raises(FileNotFoundError):
            graphwire.open(f"{url}.absent")
    asked = (state / "access.log").read_text(encoding="utf-8").splitlines()
    assert all('" 206 ' in line or '" 404 ' in line for line in asked)


def _token() -> Any:
    from gcsfs.credentials import Credentials

    return Credentials(token=SECRET)


CREDENTIALS: dict[str, Any] = {
    "s3://bucket/x.pt2": lambda here: {
        "key": "k",
        "secret": SECRET,
        "token": SECRET,
        "endpoint_url": here,
        "config_kwargs": {"retries": {"max_attempts": 0}},
    },
    "gs://bucket/x.pt2": lambda here: {"endpoint_url": here, "token": _token()},
    "az://bucket/x.pt2": lambda here: {
        "connection_string": f"BlobEndpoint={here}/account;SharedAccessSignature=sv=1&sig={SECRET}"
    },
}


@pytest.mark.parametrize("url", CREDENTIALS)
@pytest.mark.parametrize("below", [False, True], ids=["", "below the protocol"])
def test_a_redirection_takes_no_token_to_another_origin(url: str, below: bool) -> None:
    first, second = RedirectingServer(), RedirectingServer()
    first.to = second.url.replace("127.0.0.1", "localhost")
    for each in (first, second):
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
    options = CREDENTIALS[url](first.url.removesuffix("/program.pt2"))
    file = located(url, {url.partition(":")[0]: options} if below else options)
    with suppress(Exception):  # what comes from there is no file of a store
        file.fs.cat_file(file.path)
    for each in (first, second):
        each.shutdown()
        each.server_close()
    assert first.seen
    assert not any(SECRET in value for headers in second.seen for value in headers.values())
