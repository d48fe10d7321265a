"""A store that cannot be reached, or refuses, is an error with its URL and a remedy, whatever is asked of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire.cli import main


class Refusing(BaseHTTPRequestHandler):
    """Answers each request with the status that its path begins with."""

    def do_GET(self) -> None:
        self.send_error(int(self.path.split("/")[1]))

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def closed() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr("graphwire.wire.limits.DEFAULT_ATTEMPTS", graphwire.Attempts(wait=0.001))


STORES = {
    "closed": "CLOSED/folder/a.pt2",
    "a name that no server has": "http://no-such-host.invalid/a.pt2",
    "absent": "SERVER/404/a.pt2",
    "denied": "SERVER/403/a.pt2",
    "failing": "SERVER/500/a.pt2",
    "nothing in memory": "memory://nowhere/a.pt2",
    "no file on this machine": "file:///nowhere/a.pt2",
    "unknown": "acme://bucket/a.pt2",
    "without its package": "dropbox://bucket/a.pt2",
}
ASKED = {
    "a file": "verify URL -o OUT",
    "a folder": "inspect URL/ -o OUT",
    "a pattern": "targets URL/*.pt2 -o OUT",
    "a catalogue": "query URL select",
    "a catalogue to merge": "compact URL",
    "a file to rewrite": "upgrade URL -o OUT --journal NEW",
    "a question": "uses URL cat",
    "two catalogues": "changes URL URL",
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("asked", ASKED)
def test_the_error_names_it_and_blames_nobody_else(
    asked: str, store: str, server: str, closed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = STORES[store].replace("SERVER", server).replace("CLOSED", closed)
    places = {"URL": url, "OUT": str(tmp_path / "out"), "NEW": str(tmp_path / "new")}
    words = ASKED[asked].split()
    for name, value in places.items():
        words = [each.replace(name, value) for each in words]
    assert main(["fleet", *words]) == 2
    told = capsys.readouterr().err
    assert "a defect" not in told
    assert "Traceback" not in told
    first = next(line for line in told.splitlines() if "error: " in line)
    assert url.removeprefix("file://").rpartition("/")[0] in first, told


@pytest.mark.parametrize("store", ["closed", "denied", "unknown"])
def test_a_catalogue_cannot_be_written_there(
    store: str, server: str, closed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graphwire.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), tmp_path / "a.pt2")
    url = STORES[store].replace("SERVER", server).replace("CLOSED", closed)
    assert main(["fleet", "inspect", str(tmp_path), "-o", url]) == 2
    told = capsys.readouterr().err
    assert "a defect" not in told
    assert url in told
