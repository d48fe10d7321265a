"""Which files words name: folders, patterns and files, on this machine, in memory and behind a real HTTP server."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from graphwire_fleet.sources import files_of


def listed(*words: str | Path, options: Any = None) -> tuple[list[str], list[str]]:
    """The paths of files below what words name, and the names of what cannot be listed."""
    problems: list[str] = []
    files = files_of([str(word) for word in words], options, lambda error, name: problems.append(name))
    return [file.below for file in files], problems


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b/2.PT2", "1.pt2", "b/.h/3.pt2", "c/4.pt2", "c/x.json", "c/d/5.pt2", "c/new\nline.pt2"):
        path = tmp_path / "top" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "top/link").symlink_to("c")
    return tmp_path / "top"


def test_folders_and_patterns_on_this_machine(folder: Path) -> None:
    below_c = ["4.pt2", "d/5.pt2", "new\nline.pt2"]
    assert listed(folder / "c") == (below_c, [])
    everything = ["1.pt2", "b/.h/3.pt2", "b/2.PT2", *(f"c/{name}" for name in below_c)]
    assert listed(folder) == (everything, [])
    assert listed(folder / "**/*.pt2") == (["1.pt2", *(f"c/{name}" for name in below_c)], [])
    assert listed(folder / "*/[0-9].*") == (["b/2.PT2", "c/4.pt2", "link/4.pt2"], [])
    assert listed(folder / "?.pt2", folder / "c/**") == (
        ["1.pt2", "4.pt2", "d/5.pt2", "new\nline.pt2", "x.json"],
        [],
    )
    assert listed(f"file://{folder}/1.pt2") == (["1.pt2"], [])


def test_a_file_that_several_words_name_is_there_once(folder: Path) -> None:
    assert listed(folder / "c/4.pt2", folder / "c", folder / "c/*.pt2", folder / "c/4.pt2")[0] == [
        "4.pt2",
        "d/5.pt2",
        "new\nline.pt2",
    ]
    # A listing of all does not follow links to folders, so what is below one is not there twice.
    assert "4.pt2" in listed(folder, folder / "link/*.pt2")[0]


def test_what_cannot_be_listed_is_reported_and_the_rest_goes_on(folder: Path) -> None:
    words = [
        folder / "nowhere",
        folder / "x*.pt2",
        "nosuch://a/b",
        folder / "1.pt2",
        "memory://nowhere/*.pt2",
    ]
    found, problems = listed(*words)
    assert found == ["1.pt2"]
    assert problems == [str(each) for each in (*words[:3], words[4])]


def test_a_name_is_valid_text_and_a_stamp_changes_with_the_file(folder: Path) -> None:
    odd = Path(os.fsdecode(bytes(folder) + b"/\xff.pt2"))
    odd.write_text("odd")
    (file,) = files_of([str(odd)], None, lambda error, name: None)
    assert file.name == f"{folder}/\\xff.pt2"
    assert Path(file.source).read_text() == "odd"
    odd.write_text("even")
    (changed,) = files_of([str(odd)], None, lambda error, name: None)
    assert (changed.name, changed.nbytes) == (file.name, 4)
    assert changed.stamp != file.stamp


def test_a_store_of_fsspec() -> None:
    store = fsspec.filesystem("memory")
    for name in ("1.pt2", "b/2.pt2", "b/c/3.pt2", "b/c/x.json"):
        store.pipe(f"/fleet/{name}", b"abc")
    assert listed("memory://fleet") == (["1.pt2", "b/2.pt2", "b/c/3.pt2"], [])
    assert listed("memory://fleet/b/**/*.pt2", "memory://fleet/b/2.pt2") == (["2.pt2", "c/3.pt2"], [])
    (file,) = files_of(["memory://fleet/b/2.pt2"], None, lambda error, name: None)
    assert (file.name, file.source, file.nbytes) == ("memory://fleet/b/2.pt2", "memory://fleet/b/2.pt2", 3)


class Server(ThreadingHTTPServer):
    """A folder, with a page of links for each folder in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *arguments: Any) -> None:
        self.server.requests.append(self.requestline)

    def list_directory(self, path: Any) -> Any:
        if not str(path).rstrip("/").endswith("evil"):
            return super().list_directory(path)
        page = b'<a href="%2e%2e%2fx.pt2">a</a> <a href="..">b</a> <a href="http://127.0.0.1:9/z.pt2">c</a> <a href="y.pt2">d</a>'
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page)
        return None


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    (folder / "evil").mkdir()
    (folder / "evil/y.pt2").write_text("y")
    (folder / "c/ü?.pt2").write_text("ü")
    server = Server(folder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_http_server(server: Server) -> None:
    assert listed(f"{server.url}/c/", f"{server.url}/c/4.pt2")[0] == [
        "4.pt2",
        "d/5.pt2",
        "new\nline.pt2",
        "ü?.pt2",
    ]
    assert listed(f"{server.url}/[c]/ü*.pt2") == (["c/ü?.pt2"], [])
    (file,) = files_of([f"{server.url}/1.pt2?key=secret"], None, lambda error, name: None)
    assert "secret" not in file.name
    assert file.source.endswith("?key=secret")
    server.requests.clear()
    assert len(list(files_of([f"{server.url}/"], None, lambda error, name: None, counting=True))) > 4
    assert not [each for each in server.requests if ".pt2" in each]


def test_a_page_of_links_leads_nowhere_else(server: Server) -> None:
    found, problems = listed(f"{server.url}/evil/")
    assert found == ["y.pt2"]
    assert len(problems) == 1
