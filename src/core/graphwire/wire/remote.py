"""How are files at URLs read by ranges, and written whole?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import PurePath
from typing import Any

from graphwire.errors import RemoteError, exception_text, unless_interrupted
from graphwire.wire.archive.source import URL_START, RemoteFile

# ------------------------------------------------------------ tells URLs from paths, and opens the file systems of URLs
# fsspec is imported when a URL is given, and not before. A URL comes from the caller, never from the content of a file.


_NEXT_IN_CHAIN = r"::(?=[A-Za-z][A-Za-z0-9+.-]*(?:://|::|\Z))"
_INSTALL = "Run: pip install 'graphwire[remote]'"


def is_http(fs: Any) -> bool:
    """Return whether a file system reads from HTTP servers."""
    return "http" in protocols_of(fs)


def protocols_of(fs: Any) -> tuple[str, ...]:
    """Return the names of a file system's protocol."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def shown_url(url: str) -> str:
    """Return a URL for messages: without a user's name and password, and without its query, which may be a signature.

    Where `::` may stand in a password or a query, nobody can tell whether another URL begins: then the rest is not shown.
    """
    parts = re.split(_NEXT_IN_CHAIN, url)
    shown: list[str] = []
    for index, part in enumerate(parts):
        scheme, _, rest = part.partition("://")
        is_cut = ":" in re.split(r"[/?#]", rest, maxsplit=1)[0] and any(
            "@" in each for each in parts[index + 1 :]
        )
        shown.append(f"{scheme}://…" if is_cut else _shown_part(part))
        if shown[-1] != part:
            break
    return "::".join(shown)


def _shown_part(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in rest and ("@" in authority or ":" in authority):
        # A password with `/`, `?`, `#` or `@` that is not escaped ends where nobody can tell: then nothing is shown.
        if rest.count("@") > 1 or "@" not in authority:
            return f"{scheme}://…"
        rest = rest.partition("@")[2]
    shown, mark, _ = rest.partition("?")
    return f"{scheme}://{shown}?…" if mark else f"{scheme}://{shown}"


def shown_text(text: str, url: str = "", options: Mapping[str, Any] | None = None) -> str:
    """Return the text of a client's error for messages.

    Nobody can tell where a URL in a text ends if it has a password or a query. So a text is shown up to the password or the query
    of its first URL.

    Args:
        url: the URL that the client was given. A text that repeats a part of its secrets is not shown at all.
        options: those that the client was given. Texts among them, such as tokens, are not shown, but URLs are.
    """
    given = [*_texts(options or {})]
    for value in sorted(
        (each for each in given if len(each) > 1 and "://" not in each), key=len, reverse=True
    ):
        for form in (forms := _forms(value)):
            text = text.replace(form, "…")
        # What has to be escaped may be so more than once, as in the `repr` of a list of texts.
        if len({*forms[:_ESCAPED]}) > 1 and any(
            each in text for each in re.findall("[0-9A-Za-z]{4,}", value)
        ):
            return "its message repeats a part of an option"
    if found_urls := [each for each in (url, *given) if "://" in each]:
        text = without_secrets(text, found_urls)
        parts = re.split(r"[:/?#@&=]", "&".join(secret for each in found_urls for secret in _secrets(each)))
        if any(form in text for each in parts if len(each) > 1 for form in _forms(each)):
            return "its message repeats a part of the URL's password or query"
    for found in re.finditer(URL_START, text):
        rest = text[found.end() :]
        if "@" in rest:
            return f"{text[: found.end()]}…"
        if "?" in rest:
            return f"{text[: found.end()]}{rest.partition('?')[0]}?…"
    return text


def _forms(secret: str) -> list[str]:
    """Return how clients write a secret: as it is, with escapes of Python, of JSON and of URLs, and without those of URLs."""
    from urllib.parse import quote, unquote

    read = unquote(secret)
    escaped = [form for each in (secret, read) for form in (each, repr(each)[1:-1], json.dumps(each)[1:-1])]
    return [*escaped, *(quote(each, safe) for each in (secret, read) for safe in ("/", ""))]


_ESCAPED = 6
"""So many of these forms differ only if something in the secret has to be escaped."""


def _secrets(url: str) -> list[str]:
    """Return the passwords, with users, and the queries of a URL."""
    found: list[str] = []
    for part in re.split(_NEXT_IN_CHAIN, url):
        if found:  # it may belong to the query before it
            found.append(part)
        elif _shown_part(part) != part:
            user, mark, place = part.partition("://")[2].rpartition("@")
            parts = user.split("::") if "::" in user else ()  # where fsspec divides it
            found += [f"{user}{mark}", place.partition("?")[2], *parts]
    return [each for each in found if each]


def _same(first: str, second: str) -> str:
    """Return the beginning that two texts have in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return first[: next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))]


def without_secrets(text: str, urls: Iterable[str]) -> str:
    """Return a text that has each of some URLs, whole or cut off, as `shown_url` shows it."""
    found = [each[0] for each in (re.search(f"{URL_START}.*", each, re.DOTALL) for each in urls) if each]
    for url in [
        part for each in found for part in {each: 0, **dict.fromkeys(re.split(_NEXT_IN_CHAIN, each))}
    ]:
        shown = shown_url(url)
        if shown == url:
            continue
        for given in (url, repr(url)[1:-1], json.dumps(url)[1:-1], str(PurePath(url))):
            head = _same(given, shown)
            at = text.find(head)
            while at >= 0:
                same = _same(given, text[at:])
                put = shown if same == given else f"{head}…" if same != head else head
                if text.startswith(shown, at):
                    same = put = shown
                text = text[:at] + put + text[at + len(same) :]
                at = text.find(head, at + len(put))
        for each in _secrets(url):  # clients have paths without the beginning of the URL
            text = text.replace(each, "…").replace(repr(each)[1:-1], "…")
    return text


def open_url(url: str, options: Mapping[str, Any]) -> RemoteFile | str:
    """Return the file at a URL, or its path if that is on this machine: see `located`."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError("fsspec is not installed", remedy=_INSTALL).of(shown_url(url)) from error
    try:
        fs, path = url_to_fs(url, **_options_for(url, options))
    except ImportError as error:
        remedy = f"{_INSTALL}, and the package that is missing"
        raise RemoteError(
            f"the URL needs a package: {shown_text(str(error), url, options)}", remedy=remedy
        ).of(shown_url(url)) from told_cause(error, url, options)
    except ValueError as error:
        raise RemoteError(
            f"no file system for the URL: {shown_text(str(error), url, options)}", remedy=_INSTALL
        ).of(shown_url(url)) from told_cause(error, url, options)
    except MemoryError:
        raise
    except unless_interrupted(
        Exception
    ) as error:  # clients have their own classes, such as for credentials that are not there
        raise RemoteError(
            f"the file system cannot be opened: {shown_text(exception_text(error), url, options)}",
            remedy="Look at storage_options=: they are those of fsspec's file system",
        ).of(shown_url(url)) from told_cause(error, url, options)
    return path if "file" in protocols_of(fs) else RemoteFile(fs, path, shown_url(url))


def secrets_of(file: RemoteFile) -> tuple[str, Mapping[str, Any]]:
    """Return what a file's client knows and messages must not show: its URL, if the client takes one, and the options."""
    return file.path if "://" in file.path else "", getattr(file.fs, "storage_options", None) or {}


def told_cause(error: Exception, url: str, options: Mapping[str, Any]) -> Exception | None:
    """Return the cause of an error, for tracebacks; None if the URL has secrets, or the cause, or one of its own, repeats one."""
    if shown_url(url) != url:
        return None
    here: BaseException | None = error
    seen = set[int]()  # some are raised again from themselves
    while here is not None and id(here) not in seen:
        if shown_text(text := exception_text(here), url, options) != text:
            return None
        seen.add(id(here))
        here = here.__cause__ or here.__context__
    return error


def _options_for(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a URL: those of other protocols are dropped. HTTP and S3 get a client that keeps secrets to
    their origin; those of Google and Azure follow no redirection to another one."""
    from fsspec.registry import known_implementations

    parts = re.split(_NEXT_IN_CHAIN, url)
    used = [part.partition("://")[0] for part in parts]
    found = {
        key: value
        for key, value in options.items()
        if key in used or key not in known_implementations or not isinstance(value, Mapping)
    }
    given = {
        key: found.pop(key)
        for key in [*found]
        if used[0] in _GUARDED
        and key in (*_OF_HTTP, "config_kwargs")  # whose options need not be below its name
    }
    origins = tuple(sorted(filter(None, map(_origin, [*parts, *_texts(found)]))))
    for protocol in _GUARDED.intersection(used):
        found[protocol] = {**dict(found.get(protocol) or {}), **(given if protocol == used[0] else {})}
    return _guarded(found, "", origins)


_S3 = frozenset(("s3", "s3a"))
_HTTP = frozenset(("http", "https"))
_GUARDED = _S3 | _HTTP
_OF_HTTP = ("get_client", "cookies", "headers", "headers_of_any_origin")
_PROTOCOLS_OF = {
    "target_options": "target_protocol",
    "ref_storage_args": "target_protocol",
    "remote_options": "remote_protocol",
}
"""The options with those of another file system, and the options with its protocol."""
_PROTOCOLS = frozenset((*_PROTOCOLS_OF.values(), "protocol"))
_OF_ANY_ORIGIN = frozenset(("accept", "accept-encoding", "accept-language", "range", "user-agent"))
"""The headers that are sent to another origin, too. Any other one may be a secret of the caller, who may allow it by its name."""


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts among options, and their long numbers, at any depth; but no names of protocols, which are no secrets."""
    if isinstance(value, str):
        if key not in _PROTOCOLS:
            yield value
    elif isinstance(value, bytes):
        yield from (value.decode("utf-8", "replace"), repr(value)[2:-1])
    elif isinstance(value, int) and abs(value) > 999:
        yield str(value)
    elif isinstance(value, Mapping) and key != "fo":  # whose references are content
        for name, each in value.items():
            yield from _texts(each, name)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _texts(each, key)


def _origin(url: str) -> str:
    """Return the origin of a URL of HTTP, with the port; an empty text if it is none."""
    from urllib.parse import urlsplit

    with suppress(ValueError):
        found = urlsplit(url)
        if found.scheme in _HTTP and found.hostname:
            host = f"[{found.hostname}]" if ":" in found.hostname else found.hostname
            return f"{found.scheme}://{host}:{found.port or (443 if found.scheme == 'https' else 80)}"
    return ""


def _guarded(options: Mapping[str, Any], protocol: str, origins: tuple[str, ...]) -> dict[str, Any]:
    """Return options of a file system, and of those that it makes, with clients that keep secrets to their origins.

    Args:
        protocol: that of the file system; an empty text if it is not known, as for the options of a chain.
        origins: those that the caller named.
    """
    own = dict(options)
    for key, value in options.items():
        if isinstance(value, Mapping) and key in _PROTOCOLS_OF:
            target = options.get(_PROTOCOLS_OF[key]) or (
                "http" if _OF_HTTP_ONLY & {*value, *(value.get("client_kwargs") or ())} else ""
            )
            own[key] = _guarded(value, str(target), origins)
        elif isinstance(value, Mapping) and (key in (*_GUARDED, "fs") or protocol in ("", "fs")):
            own[key] = _guarded(value, key, origins)
    if protocol in _HTTP:
        headers = _with_cookies(own.get("headers"), own.pop("cookies", None))
        if (auth := own.pop("auth", None)) is not None:
            headers["Authorization"] = auth.encode()
        if headers:
            own["headers"] = headers
        anywhere = tuple(own.pop("headers_of_any_origin", ()))
        own["get_client"] = partial(_client, own.get("get_client"), anywhere, origins)
    elif protocol in _S3:
        with suppress(ImportError, TypeError):  # not installed, which opening tells; or it lacks the option
            from aiobotocore.config import AioConfig

            session = __getattr__("S3Session")
            AioConfig(http_session_cls=session)
            own["config_kwargs"] = {"http_session_cls": session, **(own.get("config_kwargs") or {})}
    return own


_OF_HTTP_ONLY = frozenset((*_OF_HTTP, "auth"))
"""Options, also of its client, that tell that a file system is one of HTTP."""


def _client(make: Any, anywhere: tuple[str, ...], origins: tuple[str, ...], **options: Any) -> Any:
    """Return the coroutine of a client of HTTP that asks another origin without the caller's credentials.

    aiohttp itself drops the header `Authorization` at a redirection, and sends all other headers, cookies and the credentials of
    the client.

    Args:
        make: the caller's own maker of clients, or None.
        anywhere: the names of headers that the caller lets go to every origin.
        origins: those that the caller named; if there are none, that of the first request counts.
        options: those of the client.
    """
    from aiohttp import TraceConfig
    from fsspec.implementations.http import get_client

    headers = _with_cookies(options.pop("headers", None), options.pop("cookies", None))
    if (auth := options.pop("auth", None)) is not None:
        headers["Authorization"] = auth.encode()
    kept = _OF_ANY_ORIGIN.union(map(str.lower, anywhere))
    trace = TraceConfig()
    trace.on_request_start.append(partial(_begin_request, kept, {*origins}))
    trace.on_request_redirect.append(partial(_leave_origin, kept))
    traces = [*(options.pop("trace_configs", None) or ()), trace]
    return (make or get_client)(headers=headers, trace_configs=traces, **options)


async def _begin_request(
    kept: frozenset[str], origins: set[str], session: Any, context: Any, step: Any
) -> None:
    """Drop the caller's headers, but those of some names, if a request goes to an origin that the caller did not name, as the
    content of a file can have it."""
    origin = _origin(str(step.url))
    if not origins:
        origins.add(origin)
    if origin not in origins:
        _drop(step, kept)


def _drop(step: Any, kept: frozenset[str]) -> None:
    for name in [each for each in step.headers if each.lower() not in kept]:
        step.headers.popall(name, None)


async def _leave_origin(kept: frozenset[str], session: Any, context: Any, step: Any) -> None:
    """Drop the caller's headers, but those of some names, if a redirection leads to another origin."""
    place = step.response.headers.get("Location") or step.response.headers.get("URI") or ""
    here = step.response.url
    try:
        is_same = here.join(type(here)(place)).origin() == here.origin()
    except ValueError:  # aiohttp refuses it
        is_same = False
    if not is_same:
        _drop(step, kept)


def _with_cookies(headers: Any, cookies: Any) -> dict[str, str]:
    """Return headers with cookies, which aiohttp would send to every origin."""
    found = dict(headers or {})
    if cookies:
        found["Cookie"] = "; ".join(f"{name}={value}" for name, value in dict(cookies).items())
    return found


@cache
def __getattr__(name: str) -> Any:  # pickles of file systems have the name of the class
    if name != "S3Session":
        raise AttributeError(name)
    from aiobotocore.httpsession import AIOHTTPSession
    from aiohttp import TraceConfig

    class S3Session(AIOHTTPSession):  # type: ignore[misc] # it has no types
        """A client's session that follows a redirection to another origin without the caller's token of S3."""

        async def _get_session(self, proxy_url: Any) -> Any:
            session = await super()._get_session(proxy_url)
            if not session.trace_configs:
                trace = TraceConfig()
                trace.on_request_redirect.append(partial(_leave_origin, _OF_ANY_ORIGIN))
                trace.freeze()
                session.trace_configs.append(trace)
            return session

    S3Session.__qualname__ = "S3Session"
    return S3Session
