"""Programs at URLs are read by ranges, checked, and equal to those of local files."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import audit
import fsspec
import pytest
import torch
from fsspec.asyn import get_loop
from http_servers import Connection, FolderServer, folder_server, misbehaving_server
from inside.wire import MANIFEST, ArchiveReader, ArchiveWriter, read_manifest, url_of
from upath import UPath

import graphwire
from graphwire import Attempts, Limits, errors

for _protocol in ("http", "memory", "simplecache", "local"):
    fsspec.get_filesystem_class(_protocol)
get_loop()  # Imports and sockets of the library come before a load, in which the tests allow none.

_QUICK = Limits(remote=Attempts(wait=0.001, seconds=0.3, slowest=1 << 24))
"""Limits with which a test of a server that fails takes no seconds."""


@pytest.fixture(scope="module")
def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(12)), torch.nn.Linear(512, 7))


@pytest.fixture(scope="module")
def folder(module: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program in a file, `program.pt2`."""
    folder = tmp_path_factory.mktemp("served")
    graphwire.save(torch.export.export(module, (torch.ones(2, 512),)), folder / "program.pt2", format="cbor")
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[FolderServer]:
    with folder_server(folder) as server:
        yield server


class Hole(io.FileIO):
    """A new file in which zeros take no space."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb")

    def write(self, data: bytes) -> int:
        if len(data) == 1 << 20 and not any(data[:: 1 << 12]):
            self.seek(len(data), os.SEEK_CUR)
            return len(data)
        return super().write(data)


def _result(loaded: torch.export.ExportedProgram) -> torch.Tensor:
    return loaded.module()(torch.ones(2, 512))


def test_a_program_on_a_server_is_loaded_in_parallel_and_read_once(
    server: FolderServer, folder: Path, module: torch.nn.Module
) -> None:
    server.waits = True
    loaded = graphwire.load(f"{server.url}/program.pt2")
    assert torch.equal(_result(loaded), module(torch.ones(2, 512)))
    assert server.most_at_once > 1
    size = (folder / "program.pt2").stat().st_size
    assert server.nbytes < size + 3 * (1 << 17)  # the end, windows and gaps
    assert all(each.startswith("GET bytes=") for each in server.requests)


def test_every_function_takes_a_url(server: FolderServer, folder: Path, tmp_path: Path) -> None:
    url, path = f"{server.url}/program.pt2", folder / "program.pt2"
    assert graphwire.content_hash(url, weights=True) == graphwire.content_hash(path, weights=True)
    assert graphwire.verify(url) == []
    assert graphwire.inspect(url).methods == graphwire.inspect(path).methods
    assert [each.name for each in graphwire.weights(url)] == [each.name for each in graphwire.weights(path)]
    assert graphwire.diff(url, path).same
    assert graphwire.targets(url) == graphwire.targets(path)
    assert graphwire.plan_upgrade(url) == graphwire.plan_upgrade(path)
    graphwire.convert(url, tmp_path / "converted.pt2", format="json")
    assert graphwire.diff(tmp_path / "converted.pt2", path).same


def test_urls_of_fsspec_and_paths_of_universal_pathlib(server: FolderServer, folder: Path) -> None:
    fsspec.filesystem("memory").pipe("/bucket/program.pt2", (folder / "program.pt2").read_bytes())
    there = graphwire.content_hash(folder / "program.pt2")
    for file in (
        "memory://bucket/program.pt2",
        UPath("memory://bucket/program.pt2"),
        (folder / "program.pt2").as_uri(),
        f"simplecache::{server.url}/program.pt2",
    ):
        assert graphwire.content_hash(file) == there, file
    assert graphwire.inspect(UPath("memory://bucket/program.pt2")).file == "memory://bucket/program.pt2"


def test_options_go_to_the_file_system_of_their_protocol(server: FolderServer) -> None:
    url = f"{server.url}/program.pt2"
    for options in ({"headers": {"X": "1"}}, {"http": {"headers": {"X": "1"}}, "s3": {"key": "other"}}):
        assert graphwire.verify(url, storage_options=options) == []
    with pytest.raises(errors.DecodeError, match="storage_options= takes Mapping"):
        graphwire.open(url, storage_options="key")  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_inspection_of_ten_gibibytes_takes_four_requests(tmp_path: Path, folder: Path) -> None:
    """Its weight is a hole in the file."""
    program = 0
    with (
        ArchiveReader(folder / "program.pt2") as small,
        Hole(tmp_path / "big.pt2") as hole,
        ArchiveWriter(hole, records={}) as big,
    ):
        for name in small.names:
            if name == "data/weights/weight_0":
                big.write_stream(name, 10 << 30, repeat(bytes(1 << 22), 10 << 8))
            else:
                big.write(name, small.read(name), compress=False)
            program += small.size(name) * name.startswith("models/")
    with folder_server(tmp_path) as server:
        found = graphwire.inspect(f"{server.url}/big.pt2")
        assert found.size > 10 << 30
        assert len(server.requests) <= 4
        assert server.nbytes - program <= 512 << 10


def test_local_files_never_import_fsspec(folder: Path) -> None:
    code = (
        "import sys, os, graphwire; os.chdir(sys.argv[1]); os.link('program.pt2', 'a:b');"
        " graphwire.verify('a:b'); graphwire.inspect('program.pt2'); os.unlink('a:b');"
        " assert 'fsspec' not in sys.modules and 'aiohttp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True)


def test_a_url_that_nothing_installed_knows_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.RemoteError, match=r"nosuch://a: .*graphwire\[remote\]"):
        graphwire.open("nosuch://a")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        errors.RemoteError, match=r"fsspec is not installed. Run: pip install 'graphwire\[remote\]'"
    ):
        graphwire.open("memory://a")


def test_a_file_that_is_not_there_is_a_file_not_found_error(server: FolderServer) -> None:
    for url in (f"{server.url}/absent.pt2", "memory://bucket/absent.pt2"):
        with pytest.raises(FileNotFoundError) as caught:
            graphwire.load(url)
        assert caught.value.filename == url


def test_errors_name_the_url_without_what_is_secret() -> None:
    with pytest.raises(errors.RemoteError) as caught:
        graphwire.open("http://user:secret@127.0.0.1:9/program.pt2?signature=secret", limits=_QUICK)
    assert str(caught.value).startswith("http://127.0.0.1:9/program.pt2?…: cannot read the end")
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ misbehaviour


async def _cuts(request: Connection) -> None:
    """Send half an answer, two times of three."""
    if request.number % 3 != 2:
        await request.send(
            "206 Partial Content", request.wanted[: len(request.wanted) // 2], **request.headers
        )
    else:
        await request.answer()


async def _stalls(request: Connection) -> None:
    """Send nothing at the first and third request."""
    if request.number in (0, 2):
        await asyncio.sleep(30)
    await request.answer()


async def _is_busy(request: Connection) -> None:
    """Refuse every second request."""
    if request.number % 2 == 0:
        await request.send("503 Service Unavailable", b"later", Content_Length=5)
    else:
        await request.answer()


@pytest.mark.parametrize("behave", [_cuts, _stalls, _is_busy])
def test_what_fails_and_may_pass_is_tried_again(
    behave: object, folder: Path, module: torch.nn.Module
) -> None:
    with misbehaving_server((folder / "program.pt2").read_bytes(), behave) as (url, asked):
        loaded = graphwire.load(url, limits=_QUICK)
        assert torch.equal(_result(loaded), module(torch.ones(2, 512)))
        assert len(asked) > len(set(asked))


async def _always_cuts(request: Connection) -> None:
    await request.send("206 Partial Content", request.wanted[:1], **request.headers)


async def _ignores_ranges(request: Connection) -> None:
    await request.send("200 OK", request.data, Content_Length=len(request.data))


async def _sends_another_range(request: Connection) -> None:
    if request.number:
        stated = f"bytes {request.start + 1}-{request.end}/{len(request.data)}"
        await request.answer(Content_Range=stated)
    else:
        await request.answer()


async def _sends_too_much(request: Connection) -> None:
    body = request.wanted + bytes(1 << 20)
    await request.send("206 Partial Content", body, **(request.headers | {"Content_Length": len(body)}))


async def _states_no_range(request: Connection) -> None:
    await request.send("206 Partial Content", request.wanted, Content_Length=len(request.wanted))


async def _changes_the_file(request: Connection) -> None:
    await request.answer(ETag=f'"{request.number}"')


async def _changes_bytes(request: Connection) -> None:
    """Change the end of large answers."""
    large = request.end - request.start > 1 << 20
    wrong = request.wanted[:-4096] + bytes(4096) if large else request.wanted
    await request.send("206 Partial Content", wrong, **request.headers)


@pytest.mark.parametrize(
    ("behave", "kind", "problem"),
    [
        (_always_cuts, errors.RemoteError, "cannot read the end: "),
        (_ignores_ranges, errors.RemoteError, "the server does not send parts of files"),
        (_sends_another_range, errors.RemoteError, "the server cannot be trusted"),
        (_sends_too_much, errors.RemoteError, "it sends more than the"),
        (_states_no_range, errors.RemoteError, "does not state which"),
        (_changes_the_file, errors.RemoteError, "the file changed while it was read"),
        (_changes_bytes, errors.ChecksumError, "CRC-32"),
    ],
)
def test_what_is_in_doubt_is_an_error_with_the_url(
    behave: object, kind: type[errors.GraphwireError], problem: str, folder: Path
) -> None:
    with misbehaving_server((folder / "program.pt2").read_bytes(), behave) as (url, asked):
        with pytest.raises(kind, match=problem) as caught:
            graphwire.load(url, limits=_QUICK)
        assert caught.value.file == url
        assert len(asked) <= 60


async def _knows_no_suffix(request: Connection) -> None:
    if request.number:
        await request.answer()
    else:
        await _ignores_ranges(request)


async def _refuses_a_suffix(request: Connection) -> None:
    if request.number:
        await request.answer()
    else:
        await request.send("416 No", b"", Content_Length=0, Content_Range=f"bytes */{len(request.data)}")


@pytest.mark.parametrize("behave", [_knows_no_suffix, _refuses_a_suffix])
def test_a_server_may_know_ranges_from_the_start_only(behave: object, folder: Path) -> None:
    with misbehaving_server((folder / "program.pt2").read_bytes(), behave) as (url, _):
        assert graphwire.verify(url, limits=_QUICK) == []


@pytest.mark.parametrize(
    ("text", "is_url"),
    [
        ("s3://bucket/program.pt2", True),
        ("simplecache::s3://bucket/program.pt2", True),
        ("zip://a.pt2::https://example.org/a.zip", True),
        ("C:\\models\\program.pt2", False),
        ("C:/models/program.pt2", False),
        ("C://models/program.pt2", False),
        ("a:b", False),
        ("a::b", False),
        ("models/s3://program.pt2", False),
        ("//host/share/program.pt2", False),
        ("program.pt2", False),
        (Path("s3://bucket/program.pt2"), False),
        (b"s3://bucket/program.pt2", False),
        (UPath("s3://bucket/program.pt2"), True),
        (UPath("program.pt2"), False),
    ],
)
def test_what_is_a_url(text: object, is_url: bool) -> None:
    assert (url_of(text) is not None) == is_url


def test_a_small_file_of_a_server_without_ranges_is_read_whole(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with misbehaving_server(graphwire.dumps(program), _ignores_ranges) as (url, asked):
        assert graphwire.content_hash(url) == graphwire.content_hash(program)
        assert len(asked) == 1


# ------------------------------------------------------------------------------------------------------------- cache


@pytest.mark.parametrize("weights", [graphwire.IN_FILE, "model.safetensors"])
def test_weights_in_a_cache_are_not_read_again(
    weights: object, module: torch.nn.Module, tmp_path: Path
) -> None:
    small = torch.nn.Sequential(torch.nn.Linear(512, 600), torch.nn.Linear(600, 512, bias=False), module)
    program = torch.export.export(small, (torch.ones(2, 512),))
    place = weights if weights is graphwire.IN_FILE else tmp_path / "model.safetensors"
    graphwire.save(program, tmp_path / "program.pt2", weights=place)
    kept = tmp_path / "cache"
    with folder_server(tmp_path) as server:
        url = f"{server.url}/program.pt2"
        expected = small(torch.ones(2, 512))
        assert torch.equal(_result(graphwire.load(url, cache=kept)), expected)
        files = sorted(each for each in kept.rglob("*") if each.is_file())
        assert sum(each.stat().st_size for each in files) >= 12 * 512 * 512 * 4
        read, server.nbytes = server.nbytes, 0
        assert torch.equal(_result(graphwire.load(url, cache=kept)), expected)
        assert server.nbytes < 1 << 19 < read
        assert all(
            "'.graphwire-" in deed for deed in audit.deeds
        )  # A load writes nothing else: parts below the cache.
        audit.deeds.clear()
        for each in files:  # A damaged file is fetched again, whatever is in it.
            each.write_bytes(bytes(each.stat().st_size))
        assert torch.equal(_result(graphwire.load(url, cache=kept)), expected)
        assert all(any(each.read_bytes()) for each in files)
        audit.deeds.clear()


def test_a_cache_keeps_nothing_that_has_another_digest(folder: Path, tmp_path: Path) -> None:
    data = (folder / "program.pt2").read_bytes()
    with ArchiveReader(data) as archive:
        digests = read_manifest(archive.read(MANIFEST)).sha256
    assert "data/weights/weight_4" in digests
    hostile = tmp_path / "hostile.pt2"
    with ArchiveReader(data) as archive, hostile.open("wb") as file, ArchiveWriter(file, records={}) as out:
        for name in archive.names:  # Right checksums, and another weight than the manifest lists.
            record = archive.read(name)
            out.write(name, bytes(len(record)) if name == "data/weights/weight_4" else record, compress=False)
    with (
        folder_server(tmp_path) as server,
        pytest.raises(errors.ChecksumError, match="not the ones that were written"),
    ):
        graphwire.load(f"{server.url}/hostile.pt2", cache=tmp_path / "cache")
    audit.deeds.clear()
    digest = digests["data/weights/weight_4"]
    assert not (tmp_path / "cache" / "sha256" / digest[:2] / digest[2:]).exists()
