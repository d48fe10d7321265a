"""Stores that cannot be reached, and clients with errors of their own: an error with the URL, and never a defect of graphwire."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from fsspec.spec import AbstractFileSystem
from http_servers import folder_server

import graphwire
from graphwire.cli import main
from graphwire.errors import GraphwireError, RemoteError

_QUICK = graphwire.Attempts(wait=0.001, count=2)


class ClientError(Exception):
    """An error of a client, which no other package knows."""


class Strange(AbstractFileSystem):
    """A file system whose client raises its own errors from every method."""

    protocol = "strange"
    cachable = False

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise ClientError("no credentials")

    info = ls = cat_file = exists = _open = mv = rm_file = _raise


class Closed(Strange):
    """A file system that cannot be made."""

    protocol = "closedstrange"

    def __init__(self, **options: Any) -> None:
        raise ClientError("no such profile")


@pytest.fixture(scope="module")
def closed() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a.pt2"
    for each in (url, f"simplecache::{url}", "memory://nowhere/a.pt2"):
        with suppress(
            RemoteError, FileNotFoundError
        ):  # A load is watched, and must not be the first to import a client.
            graphwire.inspect(each, limits=graphwire.Limits(remote=_QUICK))
    return url


@pytest.fixture(scope="module")
def absent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with folder_server(tmp_path_factory.mktemp("served")) as server:
        yield f"{server.url}/a.pt2"


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


@pytest.fixture(autouse=True)
def _clients(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (Strange, Closed):
        fsspec.register_implementation(each.protocol, each, clobber=True)
    monkeypatch.setattr("graphwire.wire.limits.DEFAULT_ATTEMPTS", _QUICK)


URLS: dict[str, type[Exception]] = {
    "CLOSED": RemoteError,
    "http://no-such-host.invalid/a.pt2": RemoteError,
    "simplecache::CLOSED": RemoteError,
    "ABSENT": FileNotFoundError,
    "memory://nowhere/a.pt2": FileNotFoundError,
    "file:///nowhere/a.pt2": FileNotFoundError,
    "strange://bucket/a.pt2": RemoteError,
    "closedstrange://bucket/a.pt2": RemoteError,
    "acme://bucket/a.pt2": RemoteError,
    "dropbox://bucket/a.pt2": RemoteError,
}
"""URLs, and what reading them raises."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "load": graphwire.load,
    "inspect": graphwire.inspect,
    "verify": graphwire.verify,
    "content_hash": graphwire.content_hash,
}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_raises_an_error_of_the_store(name: str, url: str, closed: str, absent: str) -> None:
    given = url.replace("CLOSED", closed).replace("ABSENT", absent)
    with pytest.raises(URLS[url]) as caught:
        FUNCTIONS[name](given, limits=graphwire.Limits(remote=_QUICK))
    assert given.removeprefix("file://") in str(caught.value)
    if isinstance(caught.value, GraphwireError):
        assert caught.value.remedy
        assert "defect" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["CLOSED", "strange://bucket/a.pt2", "closedstrange://bucket/a.pt2"])
def test_so_does_a_function_that_writes(url: str, closed: str, program: torch.export.ExportedProgram) -> None:
    url = url.replace("CLOSED", closed)
    calls: list[Callable[[], object]] = [
        lambda: graphwire.save(program, url),
        lambda: graphwire.save(program, url.replace("a.pt2", "b.pt2"), weights=f"{url}.safetensors"),
    ]
    for call in calls:
        with pytest.raises(RemoteError, match="://") as caught:
            call()
        assert "defect" not in str(caught.value)


def test_an_error_without_a_number_is_no_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from inside.cli import failure_lines

    for error in (FileNotFoundError("bucket/a.pt2"), PermissionError("denied"), TimeoutError()):
        assert failure_lines(error, "s3://bucket/a.pt2") == [
            f"s3://bucket/a.pt2: {type(error).__name__}{f': {error}' if str(error) else ''}"
        ]


@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("inspect", "strange://bucket/a.pt2"),
        *(
            (each, "closedstrange://bucket/a.pt2")
            for each in ("verify", "hash", "targets", "weights", "view")
        ),
    ],
)
def test_a_command_ends_with_2(
    command: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["-o", str(tmp_path / "page.html")] if command == "view" else []
    assert main([command, url, *more]) == 2
    told = capsys.readouterr().err
    assert url in told
    assert "defect" not in told
