"""Calls a remote file system, and calls it again after a failure that may pass."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from graphwire.errors import DecodeError, GraphwireError, RemoteError, exception_text
from graphwire.lazy import pattern
from graphwire.wire.bounds import Bounds

T = TypeVar("T")

_FINAL = (
    FileExistsError,
    FileNotFoundError,
    GraphwireError,
    ImportError,
    IsADirectoryError,
    MemoryError,
    NotADirectoryError,
    NotImplementedError,
    PermissionError,
    TypeError,
    ValueError,
)
"""Failures that another attempt would repeat. Clients have their own classes for the others."""
_PASSING_STATUS = frozenset({408, 425, 429, *range(500, 600)})
"""HTTP statuses of failures that may pass."""
_CAUSES = 4
"""How many errors are asked for a status, each raised from the next."""
_SECRET = pattern(r"\?[^\s'\")>]+")
"""The query of a URL, which may be a signature."""
_REMEDY = "Try again later; if it stays, look at the server, the network and storage_options="


class Attempts(Bounds, frozen=True):
    """How often a remote file system is called, and how long it may take."""

    count: int = 5
    """The attempts in all."""
    wait: float = 0.25
    """The seconds before the second attempt. Each further wait is twice as long, and a random part of it is left out, so that
    many readers do not return at once."""
    longest_wait: float = 8.0
    """In seconds."""
    seconds: float = 30.0
    """How long one attempt may take, beside the time for its bytes."""
    slowest: int = 1 << 15
    """In bytes a second. A slower transfer is a stalled one."""

    def __post_init__(self) -> None:
        Bounds.__post_init__(self)
        for name in ("count", "slowest"):
            if not getattr(self, name):
                raise DecodeError(f"{name}= of Attempts is 0", remedy="Pass 1 or more")

    def limit(self, nbytes: int = 0) -> float:
        """Return how many seconds an attempt to transfer bytes may take."""
        return self.seconds + nbytes / self.slowest

    def run(self, url: str, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns, after as many attempts as it takes.

        Args:
            url: what errors name.
            what: what the call does, as in "read bytes 0 to 9".

        Raises:
            OSError: the file does not exist, or access is denied.
            RemoteError: the last attempt failed.
        """
        from random import uniform

        wait = self.wait
        for left in range(self.count - 1, -1, -1):
            try:
                return call()
            except Exception as error:
                told = _told(error)
                if not left or not _may_pass(told):
                    raise _final_error(told, url, what) from error
            time.sleep(wait * uniform(0.5, 1.0))
            wait = min(2 * wait, self.longest_wait)
        raise AssertionError("there is at least one attempt")


class ShortAnswerError(OSError):
    """A server gives fewer or other bytes than it was asked for."""


def _told(error: Exception) -> Exception:
    """Return the failure of a request that a client hides: HTTP's `info` says of each that there is no such file."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception):
        is_of_http = isinstance(cause, OSError) or type(cause).__module__.partition(".")[0] == "aiohttp"
        return cause if is_of_http or _status_of(cause) is not None else error
    return error


def _may_pass(error: Exception) -> bool:
    if isinstance(error, GraphwireError):
        return False
    status = _status_of(error)
    return not isinstance(error, _FINAL) if status is None else status in _PASSING_STATUS


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error of any client has, or the error that it was raised from."""
    names: tuple[str, ...] = ("status", "status_code", "code")
    for _ in range(_CAUSES):
        for holder in (error, getattr(error, "response", None)):
            for name in names:
                status = getattr(holder, name, None)
                if isinstance(status, int) and 400 <= status < 600:
                    return int(status)
        if error.__cause__ is None:
            break
        error = error.__cause__
        names = ("status", "status_code")  # aiohttp's parser has a `code` for answers that end early
    return None


def _final_error(error: Exception, url: str, what: str) -> Exception:
    status = _status_of(error)
    if isinstance(error, (GraphwireError, MemoryError)):
        return error
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, "there is no such file", url)
    if isinstance(error, PermissionError) or status in (401, 403):
        text = "access is denied; credentials go into storage_options="
        return PermissionError(errno.EACCES, text, url)
    for kind, number, text in (
        (FileExistsError, errno.EEXIST, "there is such a file already"),
        (IsADirectoryError, errno.EISDIR, "this is a folder; name a file inside it"),
    ):
        if isinstance(error, kind):
            return kind(number, text, url)
    reason = f"HTTP status {status}" if status is not None else _SECRET.sub("?…", exception_text(error))
    return RemoteError(f"cannot {what}: {reason}", remedy=_REMEDY).of(url)


DEFAULT_ATTEMPTS = Attempts()
