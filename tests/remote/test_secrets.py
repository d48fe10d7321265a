"""Secrets of the caller stay with the server that they are for, and out of messages."""

from __future__ import annotations

import argparse
import collections
import http.server
import io
import json
import threading
import traceback
import warnings
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import fsspec
import pytest
import torch
from fsspec.asyn import get_loop
from hypothesis import example, given, strategies as st
from hypothesis.provisional import urls
from inside.wire import RemoteFolder, located, shown_text, shown_url
from nightly import one_in

import graphwire
from graphwire import Attempts
from graphwire.cli import COMMANDS, main
from graphwire.errors import GraphwireError

for _protocol in ("http", "simplecache", "zip", "reference"):
    fsspec.get_filesystem_class(_protocol)
get_loop()
fsspec.filesystem("reference", fo={}, remote_protocol="memory")

SECRET = "hunter2-7d1f"


class RedirectingServer(http.server.ThreadingHTTPServer):
    """Records what it is sent, and answers with the file, or with a redirection."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[dict[str, str]] = []
        self.to = ""
        self.content = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/program.pt2"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: RedirectingServer

    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers))
        if self.server.to:
            self.send_response(302)
            self.send_header("Location", self.server.to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content, wanted = self.server.content, self.headers.get("Range", "").removeprefix("bytes=")
        if wanted:
            first, _, last = wanted.partition("-")
            start = int(first) if first else max(0, len(content) - int(last))
            end = min(int(last) + 1, len(content)) if first and last else len(content)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            content = content[start:end]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[tuple[RedirectingServer, RedirectingServer]]:
    made = RedirectingServer(), RedirectingServer()
    for each in made:
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
    made[0].to, made[1].content = made[1].url, _PROGRAM
    yield made
    for each in made:
        each.shutdown()
        each.server_close()


def zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("program.pt2", data)
    return made.getvalue()


_EXPORTED = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
_PROGRAM = graphwire.dumps(_EXPORTED)


def _basic() -> Any:
    from aiohttp import BasicAuth

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return BasicAuth("user", SECRET)


OPTIONS = {
    "a token of a header": lambda: {"headers": {"PRIVATE-TOKEN": SECRET}},
    "a header of a store": lambda: {"headers": {"X-Amz-Security-Token": SECRET, "X-Api-Key": SECRET}},
    "the header that aiohttp knows": lambda: {"headers": {"Authorization": SECRET}},
    "a cookie": lambda: {"cookies": {"session": SECRET}},
    "a cookie as a header": lambda: {"headers": {"cookie": SECRET}},
    "credentials": lambda: {"auth": _basic()},
    "a header of the client": lambda: {"client_kwargs": {"headers": {"X-Api-Key": SECRET}}},
    "a cookie of the client": lambda: {"client_kwargs": {"cookies": {"session": SECRET}}},
    "credentials of the client": lambda: {"client_kwargs": {"auth": _basic()}},
    "options of a protocol": lambda: {
        "http": {"headers": {"X-Api-Key": SECRET}, "cookies": {"session": SECRET}}
    },
}


def _is_told(seen: list[dict[str, str]]) -> bool:
    encoded = b64encode(f"user:{SECRET}".encode()).decode()
    return any(SECRET in value or encoded in value for each in seen for value in each.values())


@pytest.mark.filterwarnings("ignore:The 'auth' parameter is deprecated")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("way", ["", "simplecache::", "zip://program.pt2::"])
def test_a_redirection_takes_no_secret_to_another_origin(
    options: str, way: str, servers: tuple[RedirectingServer, RedirectingServer], tmp_path: Path
) -> None:
    first, second = servers
    given = OPTIONS[options]()
    if way:
        given = {**(given if "http" in given else {"http": given}), "cache_storage": str(tmp_path)}
    if "zip" in way:
        second.content = zipped(_PROGRAM)
    graphwire.load(f"{way}{first.url}", storage_options=given)
    assert _is_told(first.seen)
    assert second.seen
    assert not _is_told(second.seen)


@pytest.mark.filterwarnings("ignore:The 'auth' parameter is deprecated")
@pytest.mark.parametrize("options", OPTIONS)
def test_what_a_file_refers_to_at_another_origin_gets_no_secret(
    options: str, servers: tuple[RedirectingServer, RedirectingServer]
) -> None:
    first, second = servers
    second.content, first.to = _PROGRAM, ""
    first.content = json.dumps({"program.pt2": [second.url, 0, len(_PROGRAM)]}).encode()
    given = OPTIONS[options]()
    given = given.get("http", given)
    references = f"{first.url.removesuffix('.pt2')}.json"
    for way in (
        {"target_options": given, "remote_options": given},
        {"target_options": {**given, "use_listings_cache": False}, "fs": {"http": given}},
    ):
        first.seen.clear()
        graphwire.load("reference://program.pt2", storage_options={"fo": references, **way})
        assert _is_told(first.seen)
        assert second.seen
        assert not _is_told(second.seen)


@pytest.mark.parametrize("way", ["", "simplecache::"])
def test_a_header_that_the_caller_allows_by_name_goes_everywhere(
    way: str, servers: tuple[RedirectingServer, RedirectingServer], tmp_path: Path
) -> None:
    own = {"headers": {"X-Trace": SECRET, "X-Api-Key": "other"}, "headers_of_any_origin": ["x-trace"]}
    options = {"http": own, "cache_storage": str(tmp_path)} if way else own
    graphwire.load(f"{way}{servers[0].url}", storage_options=options)
    assert all(each["X-Trace"] == SECRET for each in servers[1].seen)
    assert not any("X-Api-Key" in each for each in servers[1].seen)


def test_a_redirection_inside_of_an_origin_keeps_what_the_server_needs(
    servers: tuple[RedirectingServer, RedirectingServer],
) -> None:
    _, second = servers
    options = {"headers": {"X-Api-Key": SECRET}, "cookies": {"session": SECRET}}
    graphwire.load(second.url, storage_options=options)
    assert all(each["X-Api-Key"] == SECRET and SECRET in each["Cookie"] for each in second.seen)


# -------------------------------------------------------------------------------------------------------------- messages

secrets = st.text("abc0/@:?#&=%+.-", min_size=4).map(lambda text: f"Se{text}cret")


@example("https", "1", "Se0000cret", "Se00::cret")
@example("https", "1", "Se0000cret", "Se::b://cret")
@example("https", "1", "Se::b://cret", "Se0000cret")
@given(
    st.sampled_from(["https", "s3", "ftp", "simplecache::https"]),
    st.text("ab1", min_size=1),
    secrets,
    secrets,
)
def test_no_part_of_a_password_or_signature_is_shown(
    scheme: str, user: str, password: str, query: str
) -> None:
    url = f"{scheme}://{user}:{password}@host.example/folder/program.pt2?signature={query}"
    for shown in (shown_url(url), shown_text(f"cannot open '{url}', it says ({url})")):
        assert "Se" not in shown
        assert "cret" not in shown


def _lines() -> list[list[str]]:
    """Return a command line for each argument of each command that takes a text, with `URL` in its place."""
    found = []
    for name, (_, adder) in COMMANDS.items():
        parser = argparse.ArgumentParser()
        adder()(parser)
        for words, each in _parsers([name], parser):
            own = [action for action in each._actions if action.nargs != 0]
            needed = [
                words
                for action in own
                if action.required or not action.option_strings
                for words in [_filled(action, "x.pt2")]
            ]
            before = [*words, *chain.from_iterable(needed)]
            found += [[*before, *_filled(action, "URL")] for action in own]
    return found


def _parsers(
    words: list[str], parser: argparse.ArgumentParser
) -> Iterator[tuple[list[str], argparse.ArgumentParser]]:
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for action in below:
        for name, each in action.choices.items():
            yield from _parsers([*words, name], each)
    if not below:
        yield words, parser


def _filled(action: argparse.Action, text: str) -> list[str]:
    return [*action.option_strings[:1], text]


LINES = _lines()
PASSWORDS = (
    "hun,ter2",
    "hun ter2",
    "hun'ter2",
    'hun"ter2',
    "hun/ter2",
    "hun@ter2",
    "hun?ter2",
    "hun#ter2",
    "hun(ter2)",
    "hun::ter2",
    "hun\\ter2",
    "hün✓ter2",
)
FORMS = (
    "nosuch://user:{0}@h.example/x.pt2",
    "memory://user:{0}@h.example/x.pt2?signature={0}",
    "zip://x.pt2::memory://user:{0}@h.example/x.zip",
    "simplecache::https://user:{0}@127.0.0.1:9/x.pt2",
)


@pytest.mark.parametrize("form", one_in(4, FORMS))
def test_no_command_prints_a_password(
    form: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(LINES) > 100
    for number, line in enumerate(LINES):
        url = form.format(PASSWORDS[number % len(PASSWORDS)])
        words = [url if word == "URL" else word for word in line]
        main([*words, "--debug"] if number % 5 == 0 else words)
        printed = "".join(capfd.readouterr())
        assert "ter2" not in printed, words
        assert "hun" not in printed.replace("hundred", ""), words


class Repeating(fsspec.AbstractFileSystem):
    """A file system that repeats its options in an error, as Google's client does: at once, or when it is asked for something."""

    protocol = "repeating"
    cachable = False

    def __init__(self, late: bool = False, **options: Any) -> None:
        super().__init__(late=late, **options)
        self.problem = f"refused: /tokeninfo?access_token={options} {list(map(str, _leaves(options)))}"
        if not late:
            raise OSError(self.problem)

    def _refuse(self, *args: Any, **options: Any) -> Any:
        try:
            raise ValueError(self.problem)
        except ValueError as error:
            raise OSError(f"unknown: {self.problem}") from error

    info = cat_file = ls = isdir = open = exists = mv = rm_file = ukey = modified = _refuse


def _leaves(options: Any) -> Iterator[Any]:
    if isinstance(options, dict | list | tuple):
        for each in options.values() if isinstance(options, dict) else options:
            yield from _leaves(each)
    elif isinstance(options, str | bytes | int):
        yield options
        if isinstance(options, str):
            yield from (quote(options), unquote(options), json.dumps(options))


Credentials = collections.namedtuple("Credentials", "login password")
HIDDEN: dict[str, Callable[[str], Any]] = {
    "a text": lambda secret: secret,
    "bytes": lambda secret: secret.encode(),
    "a list": lambda secret: ["x", secret],
    "pairs": lambda secret: [("X-Api-Key", secret)],
    "a tuple with names": lambda secret: Credentials("me", secret),
    "options of a part": lambda secret: {"password": {"of": secret}},
}


TOLD = r"host\.example|repeats a part of an option"


@pytest.fixture
def repeating() -> None:
    fsspec.register_implementation("repeating", Repeating, clobber=True)


def _assert_hidden(error: BaseException) -> None:
    told = "".join(traceback.format_exception(error))
    assert "hunter" not in told
    assert "987654321" not in told


@pytest.mark.usefixtures("repeating")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize(
    "secret", ["hunter2", "hun'ter\"2\\hunter", "hünter✓hunter", "hun%74er2 hunter", "hunter\nhunter"]
)
def test_errors_of_clients_show_no_options(secret: str, kind: str, late: bool, tmp_path: Path) -> None:
    options = {"token": HIDDEN[kind](secret), "pin": 987654321, "endpoint_url": "https://host.example"}
    limits = graphwire.Limits(remote=Attempts(count=1))
    for below in (False, True):
        given = {"repeating": {**options, "late": late}} if below else {**options, "late": late}
        with pytest.raises(GraphwireError, match=TOLD) as caught:
            graphwire.load("repeating://x", storage_options=given, limits=limits)
        _assert_hidden(caught.value)
        with pytest.raises(GraphwireError, match=TOLD) as caught:
            graphwire.save(_EXPORTED, "repeating://x", storage_options=given)
        _assert_hidden(caught.value)


@pytest.mark.usefixtures("repeating")
@pytest.mark.parametrize("call", ["names", "open", "remove", "age", "create"])
def test_errors_of_folders_show_no_options(call: str) -> None:
    file = located("repeating://a/b", {"token": "hunter2", "late": True})
    folder = RemoteFolder(file.as_folder(), Attempts(count=1))
    method = getattr(folder, call)
    with pytest.raises(GraphwireError) as caught:
        method("c").__enter__()
    _assert_hidden(caught.value)


@pytest.mark.parametrize("text", ["user p@ss: 530", "PASS p%40ss", 'pass="p@ss"', "of p@ss"])
def test_a_password_is_not_shown_as_the_client_reads_it(text: str) -> None:
    for url in ("ftp://user:p%40ss@host.example/x", "https://user:p%40ss@host.example/x"):
        assert "ss" not in shown_text(text, url).replace("password", "").replace("message", "")
        assert "ss" not in shown_text(text, "", {"fo": url}).replace("password", "").replace("message", "")


@given(urls())
def test_urls_without_secrets_stay_as_they_are(url: str) -> None:
    if "@" not in url and "?" not in url:
        assert shown_url(url) == url


@pytest.mark.parametrize("password", ["p@ss", "p/ss", "p@s/s", "12/34", "p?ss", "p#ss"])
def test_errors_show_no_password(password: str) -> None:
    limits = graphwire.Limits(remote=Attempts(count=1, seconds=0.2))
    for scheme in ("http", "nosuch"):
        with pytest.raises((GraphwireError, OSError)) as caught:
            graphwire.load(f"{scheme}://user:{password}@127.0.0.1:9/x.pt2", limits=limits)
        assert password not in str(caught.value)
    with pytest.raises(GraphwireError) as caught:
        graphwire.load(f"zip://x::memory://user:{password}@h.example/x.zip", limits=limits)
    assert password not in "".join(traceback.format_exception(caught.value, limit=0))
