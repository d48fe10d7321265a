"""Secrets of the caller stay with the server that they are for, and out of messages."""

from __future__ import annotations

import http.server
import threading
import warnings
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from fsspec.asyn import get_loop
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.provisional import urls

import graphwire
from graphwire import Attempts
from graphwire.errors import GraphwireError
from graphwire.wire.remote import shown_text, shown_url

for _protocol in ("http", "simplecache"):
    fsspec.get_filesystem_class(_protocol)
get_loop()

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


_PROGRAM = graphwire.dumps(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)))


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
@pytest.mark.parametrize("chain", ["", "simplecache::"])
def test_a_redirection_takes_no_secret_to_another_origin(
    options: str, chain: str, servers: tuple[RedirectingServer, RedirectingServer], tmp_path: Path
) -> None:
    first, second = servers
    given = OPTIONS[options]()
    if chain:
        given = {**(given if "http" in given else {"http": given}), "cache_storage": str(tmp_path)}
    graphwire.load(f"{chain}{first.url}", storage_options=given)
    assert _is_told(first.seen)
    assert second.seen
    assert not _is_told(second.seen)


@pytest.mark.parametrize("chain", ["", "simplecache::"])
def test_a_header_that_the_caller_allows_by_name_goes_everywhere(
    chain: str, servers: tuple[RedirectingServer, RedirectingServer], tmp_path: Path
) -> None:
    own = {"headers": {"X-Trace": SECRET, "X-Api-Key": "other"}, "headers_of_any_origin": ["x-trace"]}
    options = {"http": own, "cache_storage": str(tmp_path)} if chain else own
    graphwire.load(f"{chain}{servers[0].url}", storage_options=options)
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
