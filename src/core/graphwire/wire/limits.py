"""Limits on the memory and work that reading a file may take. Real models never reach the defaults."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from graphwire import errors

if TYPE_CHECKING:
    from graphwire.wire.archive.source import RemoteFile

# ------------------------------------------------------------------------------ bounds that a caller changes one by one
# checked when they are made, and shown without those that have their defaults.


class Bounds(msgspec.Struct, frozen=True):
    """The base class of values whose fields are numbers, or `Bounds` themselves. The type of a default is that of the field."""

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            DecodeError: a value is of another type, or negative.
        """
        for name, default in zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False):
            value = getattr(self, name)
            if value is not default and (wanted := _wanted(value, default)):
                raise errors.DecodeError(
                    f"{name}= of {type(self).__name__} is {errors.shown(value)}, not {wanted}",
                    remedy=f"The default is {default!r}",
                )

    def __repr__(self) -> str:
        held = [(name, getattr(self, name), getattr(type(self)(), name)) for name in self.__struct_fields__]
        changed = ", ".join(f"{name}={value!r}" for name, value, default in held if value != default)
        return f"{type(self).__name__}({changed})"


def _wanted(value: Any, default: Any) -> str:
    """Return what a value should be, for a message; empty if it is that."""
    if isinstance(default, Bounds):
        kind = next(each for each in type(default).__mro__ if each.__base__ is Bounds)
        return "" if isinstance(value, kind) else f"graphwire.{kind.__name__}"
    if isinstance(default, float):
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        return "" if good else "a number from 0"
    if type(default) is int:
        good = hasattr(value, "__index__") and not isinstance(value, bool) and value >= 0
        return "" if good else "an integer from 0"
    return ""


# ------ limits on the memory and work that reading a pickle may take, and the check of the resulting value against them


class PickleLimits(Bounds, frozen=True):
    """The limits that apply while a pickle is read."""

    nbytes: int = 256 << 20
    """Bytes of the pickle. A state dict takes about 250 for each tensor; the elements are in records of their own."""
    steps: int = 1 << 22
    """Opcodes. Each takes at most about 64 bytes of memory (one that takes more counts as several). A tensor takes about 40
    opcodes."""
    depth: int = 400
    """Nesting depth of containers."""
    values: int = 1 << 22
    """Values in the result. A shared value counts each time it occurs."""
    integer_bytes: int = 255
    """Bytes of one integer. torch never needs more than eight."""
    text_bytes: int = 16 << 20
    """Bytes of one text or byte string."""
    name_bytes: int = 512
    """Bytes of a module's or a class's name, or of a storage's key."""


DEFAULT_PICKLE_LIMITS = PickleLimits()


def check_pickle_value(root: Any, limits: PickleLimits) -> None:
    """Check that the value of a pickle does not contain itself, and keeps to the limits on depth and count.

    A shared part counts each time it occurs. The check visits each container once, children first.

    Raises:
        DecodeError: a container contains itself.
        LimitError: the value exceeds `limits`.
    """
    heights: dict[int, int] = {}
    sizes: dict[int, int] = {}
    open_ones: set[int] = set()
    pending = [root] if _children(root) else []
    while pending:
        value = pending[-1]
        identity = id(value)
        if identity in heights:
            pending.pop()
            continue
        children = _children(value)
        if identity not in open_ones:
            open_ones.add(identity)
            if len(open_ones) > limits.depth:
                raise _too_deep(limits)
            for child in children:
                if id(child) in open_ones:
                    raise errors.DecodeError("the pickle holds a container that contains itself")
                if id(child) not in heights and _children(child):
                    pending.append(child)
            continue
        pending.pop()
        open_ones.discard(identity)
        heights[identity] = 1 + max(heights.get(id(child), 0) for child in children)
        sizes[identity] = 1 + sum(sizes.get(id(child), 1) for child in children)
        if heights[identity] > limits.depth:
            raise _too_deep(limits)
        if sizes[identity] > limits.values:
            raise errors.LimitError(f"the pickle unfolds to more than {limits.values:,} values")


def _children(value: Any) -> Any:
    """Return the children of a container; none for any other value, whose size is checked when it is created."""
    if type(value) is tuple or isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _too_deep(limits: PickleLimits) -> errors.LimitError:
    return errors.LimitError(f"the pickle nests containers more than {limits.depth} deep")


# ----------------------------------------- calls a remote file system, and calls it again after a failure that may pass


T = TypeVar("T")

_FINAL = (
    FileExistsError,
    FileNotFoundError,
    errors.GraphwireError,
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
_REMEDY = "Try again later; if it stays, look at the server, the network and storage_options="


class Attempts(Bounds, frozen=True):
    """How often a remote file system is called, and how long it may take."""

    count: int = 5
    """The attempts in all."""
    wait: float = 0.25
    """The seconds before the second attempt. Each further wait is twice as long, and a random part of it is dropped, so that
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
                raise errors.DecodeError(f"{name}= of Attempts is 0", remedy="Pass 1 or more")

    def limit(self, nbytes: int = 0) -> float:
        """Return how many seconds an attempt to transfer bytes may take."""
        return self.seconds + nbytes / self.slowest

    def run(self, file: RemoteFile, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns, after as many attempts as it takes.

        Args:
            file: what is asked for. Errors name it, and show neither its secrets nor those of its file system's options.
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
            except errors.unless_interrupted(Exception) as error:  # clients have their own classes
                told = _told(error)
                if not left or not _may_pass(told):
                    raise _final_error(told, file, what) from _cause(error, file)
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


def _lacks_credentials(error: BaseException) -> bool:
    """Whether a client has no credentials, or none that it can use: each has classes of its own for that, of the same names."""
    names = {each.__name__ for each in type(error).__mro__}
    return any("Credential" in name or "Authentication" in name for name in names)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, errors.GraphwireError) or _lacks_credentials(error):
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


def _cause(error: Exception, file: RemoteFile) -> Exception | None:
    from graphwire.wire.remote import secrets_of, told_cause

    return told_cause(error, *secrets_of(file))


def _final_error(error: Exception, file: RemoteFile, what: str) -> Exception:
    from graphwire.wire.remote import secrets_of, shown_text

    url, status = file.url, _status_of(error)
    if isinstance(error, (errors.GraphwireError, MemoryError)):
        return error
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, "there is no such file", url)
    if isinstance(error, PermissionError) or status in (401, 403) or _lacks_credentials(error):
        text = "access is denied; credentials go into storage_options="
        return PermissionError(errno.EACCES, text, url)
    for kind, number, text in (
        (FileExistsError, errno.EEXIST, "there is such a file already"),
        (IsADirectoryError, errno.EISDIR, "this is a folder; name a file inside it"),
    ):
        if isinstance(error, kind):
            return kind(number, text, url)
    reason = (
        f"HTTP status {status}"
        if status is not None
        else shown_text(errors.exception_text(error), *secrets_of(file))
    )
    return errors.RemoteError(f"cannot {what}: {reason}", remedy=_REMEDY).of(url)


DEFAULT_ATTEMPTS = Attempts()


class Limits(Bounds, frozen=True):
    """The limits that apply while a file is read. A caller who trusts a file raises some of them.

    Mapped payloads have no limit: they take no memory until they are used, and never reach past the end of the file.
    """

    program_bytes: int = 1 << 30
    """Bytes of one record that is read into memory, after inflation. A program of 10,000 nodes takes about 10 MiB."""
    inflate_ratio: int = 500
    """Inflated bytes for each deflated byte of a record, and for each byte of the files of a weight store that reads its bytes by
    itself. Programs of many equal layers reach about 40."""
    inflate_free_bytes: int = 16 << 20
    """In bytes. A record that inflates to at most this size may have any ratio."""
    unmapped_bytes: int = 64 << 30
    """Bytes read from a source that cannot be mapped (a pipe, a file object without a file)."""
    records: int = 1_000_000
    """Records of one archive."""
    name_bytes: int = 4096
    """Bytes of one record's name."""
    tree_depth: int = 400
    """Nesting depth of the containers in one document. A value above 400 has no effect (`document.MAX_DEPTH`)."""
    tree_nodes: int = 1 << 26
    """Values (containers and scalars, without keys) in one document."""
    containers: int = 1 << 23
    """Lists and dicts in one document, counted before any is created: an empty one takes 1 byte in the document and at least
    56 in memory. The count is slightly too high if text contains the same bytes. A program of 100,000 nodes has 1.5 to
    3 million."""
    pickle: PickleLimits = DEFAULT_PICKLE_LIMITS
    """The limits for each pickle in a file of torch: weights, constants, example inputs."""
    remote: Attempts = DEFAULT_ATTEMPTS
    """How often a server is asked for bytes of a file at a URL, and how long it may take."""


DEFAULT_LIMITS = Limits()
