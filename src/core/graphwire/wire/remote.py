"""How are files at URLs read by ranges, and written whole?"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol

from graphwire.errors import RemoteError, exception_text

# ------------------------------------------------------------ tells URLs from paths, and opens the file systems of URLs
# fsspec is imported when a URL is given, and not before. A URL comes from the caller, never from the content of a file.


_URL = r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://"
"""`scheme://`, after any number of chained ones, as in `simplecache::s3://`. One letter is a drive."""
_NEXT_IN_CHAIN = r"::(?=[A-Za-z][A-Za-z0-9+.-]*(?:://|::|\Z))"
_INSTALL = "Run: pip install 'graphwire[remote]'"


class UniversalPath(Protocol):
    """A path of universal_pathlib, or anything else with these attributes; `str` of it is a URL or a path."""

    @property
    def protocol(self) -> str:
        """The protocol of its file system."""
        ...

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options of its file system."""
        ...


class RemoteFile(NamedTuple):
    """A file at a URL, in an open file system of fsspec."""

    fs: Any
    """The `fsspec.AbstractFileSystem`."""
    path: str
    """The path of the file in it."""
    url: str
    """The URL in messages: without credentials."""

    @property
    def name(self) -> str:
        """The last name of the path, without a query."""
        return self.path.partition("?")[0].rpartition("/")[2]

    def ask(self, what: str, method: str, *args: Any, **options: Any) -> Any:
        """Return what a method of the file system returns, called again after failures that may pass.

        Args:
            what: what the call does, for errors, as in "list the folder".
            method: the name of the method.

        Raises:
            OSError: the file does not exist, or access is denied.
            RemoteError: everything else that a client raises.
        """
        from graphwire.wire.limits import DEFAULT_ATTEMPTS

        return DEFAULT_ATTEMPTS.run(self.url, what, lambda: getattr(self.fs, method)(*args, **options))

    def beside(self, location: str) -> RemoteFile:
        """Return a file below the folder of this one.

        Args:
            location: plain names with `/` between them, already checked.
        """
        from urllib.parse import quote

        path, url = (each.partition("?")[0].rpartition("/")[0] for each in (self.path, self.url))
        # Only in the URLs of HTTP do escapes, `?` and `#` have a meaning.
        quoted = quote(location) if is_http(self.fs) else location
        return RemoteFile(
            self.fs, f"{path}/{quoted}" if path or self.path.startswith("/") else quoted, f"{url}/{location}"
        )

    def as_folder(self) -> RemoteFile:
        """Return the folder of this name: a file without a name in it."""
        return self._replace(path=f"{self.path.rstrip('/')}/", url=f"{self.url.rstrip('/')}/")

    def __str__(self) -> str:
        return self.url


def is_http(fs: Any) -> bool:
    """Return whether a file system reads from HTTP servers."""
    return "http" in protocols_of(fs)


def protocols_of(fs: Any) -> tuple[str, ...]:
    """Return the names of a file system's protocol."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def shown_url(url: str) -> str:
    """Return a URL for messages: without a user's name and password, and without its query, which may be a signature."""
    return "::".join(map(_shown_part, re.split(_NEXT_IN_CHAIN, url)))


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


def shown_text(text: str) -> str:
    """Return the text of a client's error for messages: each URL in it as `shown_url` shows it."""
    words = re.split(r"([\s'\"<>(),]+)", text)
    return "".join(shown_url(each) if "://" in each else each for each in words)


def url_of(file: object) -> str | None:
    """Return the URL that a value names; None if it names something on this machine.

    Args:
        file: a URL as text; a path of universal_pathlib; or anything else.
    """
    if isinstance(file, str):
        text = file
    elif isinstance(file, PurePath):  # It has one slash where a URL has two.
        return None
    elif isinstance(file, os.PathLike):
        path = os.fspath(file)
        text = path if isinstance(path, str) else ""
    elif hasattr(file, "protocol") and hasattr(file, "storage_options"):
        text = str(file)
    else:
        return None
    return text if re.match(_URL, text) else None


def located(file: Any, options: Mapping[str, Any] | None = None) -> Any:
    """Return a `RemoteFile` if a value names a file at a URL, otherwise the value. Nothing is read.

    A URL `file://` becomes a path, so that the file is mapped as any other.

    Args:
        options: the options of the file system, as fsspec takes them; or a mapping of options for each protocol. A path of
            universal_pathlib brings its own.

    Raises:
        RemoteError: no installed file system knows the URL, or it refuses the options.
    """
    url = None if isinstance(file, RemoteFile) else url_of(file)
    if url is None:
        return file
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError("fsspec is not installed", remedy=_INSTALL).of(shown_url(url)) from error
    own = dict(getattr(file, "storage_options", None) or {})
    try:
        fs, path = url_to_fs(url, **_options_for(url, {**(options or {}), **own}))
    except ImportError as error:
        remedy = f"{_INSTALL}, and the package that fsspec names"
        raise RemoteError(f"the URL needs a package: {shown_text(str(error))}", remedy=remedy).of(
            shown_url(url)
        ) from error
    except ValueError as error:
        raise RemoteError(f"no file system for the URL: {shown_text(str(error))}", remedy=_INSTALL).of(
            shown_url(url)
        ) from error
    except MemoryError:
        raise
    except (
        Exception
    ) as error:  # Clients have their own classes, such as for a profile or credentials that are not there.
        raise RemoteError(
            f"the file system cannot be opened: {shown_text(exception_text(error))}",
            remedy="Look at storage_options=: they are those of fsspec's file system",
        ).of(shown_url(url)) from error
    return path if "file" in protocols_of(fs) else RemoteFile(fs, path, shown_url(url))


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
    for protocol in _HTTP.intersection(used):
        own = dict(found.get(protocol) or {})
        if protocol == used[0]:  # whose options need not be below its name
            own |= {key: found.pop(key) for key in _OPTIONS if key in found}
        cookies = own.pop("cookies", None)
        if headers := _with_cookies(own.get("headers"), cookies):
            own["headers"] = headers
        anywhere = own.pop("headers_of_any_origin", ())
        own["get_client"] = partial(_client, own.get("get_client"), tuple(anywhere))
        found[protocol] = own
    for protocol in _S3.intersection(used):
        own = dict(found.get(protocol) or {})
        if protocol == used[0] and "config_kwargs" in found:
            own["config_kwargs"] = found.pop("config_kwargs")
        with suppress(ImportError, TypeError):  # not installed, which opening tells; or it lacks the option
            from aiobotocore.config import AioConfig

            session = __getattr__("S3Session")
            AioConfig(http_session_cls=session)
            own["config_kwargs"] = {"http_session_cls": session, **(own.get("config_kwargs") or {})}
        found[protocol] = own
    return found


_S3 = frozenset(("s3", "s3a"))
_HTTP = frozenset(("http", "https"))
_OPTIONS = ("get_client", "cookies", "headers", "headers_of_any_origin")
_OF_ANY_ORIGIN = frozenset(("accept", "accept-encoding", "accept-language", "range", "user-agent"))
"""The headers that are sent to another origin, too. Any other one may be a secret of the caller, who may allow it by its name."""


def _client(make: Any, anywhere: tuple[str, ...], **options: Any) -> Any:
    """Return the coroutine of a client of HTTP that follows a redirection to another origin without the caller's credentials.

    aiohttp itself drops the header `Authorization`, and sends all other headers, cookies and the credentials of the client.

    Args:
        make: the caller's own maker of clients, or None.
        anywhere: the names of headers that the caller lets go to every origin.
        options: those of the client.
    """
    from aiohttp import TraceConfig
    from fsspec.implementations.http import get_client

    headers = _with_cookies(options.pop("headers", None), options.pop("cookies", None))
    if (auth := options.pop("auth", None)) is not None:
        headers["Authorization"] = auth.encode()
    trace = TraceConfig()
    trace.on_request_redirect.append(partial(_leave_origin, _OF_ANY_ORIGIN.union(map(str.lower, anywhere))))
    traces = [*(options.pop("trace_configs", None) or ()), trace]
    return (make or get_client)(headers=headers, trace_configs=traces, **options)


async def _leave_origin(kept: frozenset[str], session: Any, context: Any, step: Any) -> None:
    """Drop the caller's headers, but those of some names, if a redirection leads to another origin."""
    place = step.response.headers.get("Location") or step.response.headers.get("URI") or ""
    here = step.response.url
    try:
        is_same = here.join(type(here)(place)).origin() == here.origin()
    except ValueError:  # aiohttp refuses it
        is_same = False
    if not is_same:
        for name in [each for each in step.headers if each.lower() not in kept]:
            step.headers.popall(name, None)


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
