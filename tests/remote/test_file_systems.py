"""File systems of fsspec that fail, lie, or hold much."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from inside.wire import RemoteSource

import graphwire
from graphwire import Attempts, Limits, errors
from graphwire.cli import main

_QUICK = Limits(remote=Attempts(wait=0.001))


class Unreliable(MemoryFileSystem):
    """A file system that fails as a test wants it."""

    protocol = "unreliable"
    cachable = False
    fails: Any = staticmethod(lambda method, number: None)
    """Called with each method and the number of calls; may raise, or return a function that changes the result."""
    calls: list[str]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("unreliable://").strip("/")

    def _changed(self, method: str, result: Any) -> Any:
        self.calls.append(method)
        change = type(self).fails(method, len(self.calls))
        return change(result) if change else result

    def info(self, path: str, **options: Any) -> Any:
        return self._changed("info", super().info(path, **options))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        return self._changed("cat_file", super().cat_file(path, start, end, **options))

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        self._changed("mv", None)
        super().mv(path1, path2, **options)


@pytest.fixture
def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))


@pytest.fixture
def url(program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    fsspec.register_implementation("unreliable", Unreliable, clobber=True)
    monkeypatch.setattr(Unreliable, "fails", Unreliable.fails)
    graphwire.save(program, "unreliable://bucket/program.pt2")
    yield "unreliable://bucket/program.pt2"
    Unreliable.store.clear()


def _raise(error: Exception) -> None:
    raise error


def test_calls_that_fail_are_made_again(url: str, program: torch.export.ExportedProgram) -> None:
    Unreliable.fails = lambda method, number: _raise(ConnectionResetError("reset")) if number % 3 else None
    assert graphwire.content_hash(url, limits=_QUICK) == graphwire.content_hash(program)
    Unreliable.fails = lambda method, number: (
        (lambda data: data[:-1]) if method == "cat_file" and number < 4 else None
    )
    assert graphwire.verify(url, limits=_QUICK) == []


@pytest.mark.parametrize(
    ("fails", "kind", "problem"),
    [
        (
            lambda method, number: _raise(OSError("out of order")),
            errors.RemoteError,
            "find the file: OSError: out",
        ),
        (lambda method, number: _raise(PermissionError("no")), PermissionError, "storage_options="),
        (
            lambda method, number: (
                (lambda info: info | {"size": info["size"] + 9}) if method == "info" else None
            ),
            errors.RemoteError,
            "instead of",
        ),
        (
            lambda method, number: (
                (lambda info: info | {"size": info["size"] - 9}) if method == "info" else None
            ),
            errors.ArchiveError,
            "has no end record",
        ),
        (
            lambda method, number: (lambda info: info | {"size": None}) if method == "info" else None,
            errors.RemoteError,
            "does not state its size",
        ),
    ],
)
def test_a_file_system_that_fails_or_lies_is_an_error_with_the_url(
    fails: Any, kind: type[Exception], problem: str, url: str
) -> None:
    Unreliable.fails = fails
    with pytest.raises(kind, match=problem) as caught:
        graphwire.open(url, limits=_QUICK)
    assert url in (getattr(caught.value, "file", ""), getattr(caught.value, "filename", ""))


class _ClientError(Exception):
    """An error of a store's client, which has the HTTP status where the client wants it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("it failed")
        self.__dict__ |= attributes


_WHERE_CLIENTS_STATE_IT = {
    "aiohttp": lambda status: _ClientError(status=status),
    "azure": lambda status: _ClientError(status_code=status),
    "gcsfs": lambda status: _ClientError(code=status),
    "httpx": lambda status: _ClientError(response=SimpleNamespace(status_code=status)),
}


@pytest.mark.parametrize(
    ("client", "is_cause"),
    [*((client, False) for client in _WHERE_CLIENTS_STATE_IT), ("azure", True), ("httpx", True)],
)
@pytest.mark.parametrize(
    ("status", "kind", "calls"),
    [
        (404, FileNotFoundError, 1),
        (403, PermissionError, 1),
        (400, errors.RemoteError, 1),
        (503, errors.RemoteError, 5),
    ],
)
def test_the_status_of_a_clients_error_decides(
    client: str, is_cause: bool, status: int, kind: type[Exception], calls: int, url: str
) -> None:
    asked = []

    def fails(method: str, number: int) -> None:
        asked.append(method)
        error = _WHERE_CLIENTS_STATE_IT[client](status)
        if is_cause:
            raise RuntimeError("cannot") from error
        raise error

    Unreliable.fails = fails
    with pytest.raises(kind):
        graphwire.open(url, limits=_QUICK)
    assert len(asked) == calls


def test_a_folder_is_no_file(url: str, program: torch.export.ExportedProgram) -> None:
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        graphwire.open("unreliable://bucket")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        graphwire.save(program, "unreliable:///")


def test_a_write_that_fails_at_its_end_leaves_the_old_file(
    url: str, program: torch.export.ExportedProgram
) -> None:
    old = Unreliable.store["/bucket/program.pt2"].getvalue()
    Unreliable.fails = lambda method, number: _raise(OSError("broken")) if method == "mv" else None
    with pytest.raises(errors.RemoteError, match="cannot move the file to its name: OSError: broken"):
        graphwire.save(program, url, format="cbor")
    assert {name: file.getvalue() for name, file in Unreliable.store.items()} == {"/bucket/program.pt2": old}
    Unreliable.fails = lambda method, number: (lambda info: info | {"size": 1}) if method == "info" else None
    with pytest.raises(errors.RemoteError, match="the written file has 1 bytes instead of"):
        graphwire.save(program, url, format="cbor")


def test_commands_take_urls_and_options(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = '{"unreliable": {"global_store": true}}'
    assert main(["inspect", url, "--storage-options", given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == url
    assert main(["convert", url, "unreliable://bucket/converted.pt2", "--format", "cbor"]) == 0
    assert main(["verify", url, "unreliable://bucket/converted.pt2"]) == 0
    assert main(["diff", url, "unreliable://bucket/converted.pt2"]) == 0
    capsys.readouterr()
    assert main(["hash", url]) == 0
    (tmp_path / "hashes").write_text(capsys.readouterr().out)
    assert main(["hash", "--check", str(tmp_path / "hashes")]) == 0
    assert main(["neutral", url]) == 0
    assert main(["inspect", "unreliable://bucket/absent.pt2"]) == 2
    assert "unreliable://bucket/absent.pt2: there is no such file" in capsys.readouterr().err
    for wrong in ("[]", "{"):
        assert main(["inspect", url, "--storage-options", wrong]) == 2


class _Zeros:
    """A file of zeros."""

    def __init__(self, size: int) -> None:
        self._size = size

    def tail(self, count: int) -> tuple[int, bytes]:
        return self._size, bytes(count)

    def read(self, start: int, end: int) -> bytes:
        return bytes(end - start)


def test_reading_takes_bounded_memory() -> None:
    """Half a gibibyte is read through 48 MiB, and what threads hold for a moment."""
    source = RemoteSource(_Zeros(512 << 20))
    source.expect([(0, 512 << 20)])
    memory = memoryview(bytearray(1 << 20))
    gc.collect()
    tracemalloc.start()
    for at in range(0, 512 << 20, 1 << 20):
        source.read_into(at, memory)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    source.close()
    assert most < 80 << 20
    with pytest.raises(errors.ArchiveError, match="closed"):
        source.read_at(0, 1)
