"""Folders of files, on this machine and in the file systems of fsspec: what is in each, with sizes and stamps."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from graphwire.errors import GraphwireError
from graphwire.process import Threads
from graphwire.wire.archive.source import RemoteFile
from graphwire.wire.remote import protocols_of, shown_url
from graphwire_fleet.work import File

SEPARATOR = "/"
_STAMPS = (
    "ETag",
    "etag",
    "blob_id",
    "generation",
    "md5Hash",
    "content_md5",
    "crc32c",
    "checksum",
    "Content-MD5",
    "Digest",
    "VersionId",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "mtime",
    "updated",
    "modified",
    "created",
)
"""What file systems of fsspec tell of a file that changes with its content, the best first."""
_ESCAPED = "utf-8", "backslashreplace"
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_LIKE_ESCAPE = re.compile(rb"\\(?=x[0-9a-f]{2})")
"""Backslashes that look like those of a byte which is not UTF-8. They become escapes, so that no two files have one name."""
_AT_ONCE = 32
"""How many files a store is asked about at once, if its listing lacks their sizes or stamps."""


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    """Its part of the path in its tree."""
    plain: str
    """What a file on this machine would be named."""
    is_folder: bool
    is_link: bool = False
    """Whether it is a link to a folder."""
    facts: Any = None
    """What the listing tells of a file."""


class Tree(Protocol):
    """A folder, and all below it."""

    def entries(self, below: str) -> list[Entry]:
        """Return what is in a folder, by name.

        Args:
            below: the path of the folder below that of the tree; empty for itself.
        """
        ...

    def files(self, found: list[tuple[str, Entry]]) -> Iterator[File]:
        """Return files, by their paths below the tree's folder."""
        ...

    def below(self, file: File) -> str | None:
        """Return the path of a file below the folder; None if it is elsewhere."""
        ...

    def is_link(self, below: str) -> bool:
        """Whether a path below the folder is a link."""
        ...


class LocalTree:
    """A folder on this machine."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def entries(self, below: str) -> list[Entry]:
        folder = self._path(below)
        # Names only: a folder of a million files takes 80 MB so.
        return [self._entry(folder, name) for name in sorted(os.listdir(folder))]

    def files(self, found: list[tuple[str, Entry]]) -> Iterator[File]:
        for below, _ in found:
            yield local_file(self._path(below), below)

    def below(self, file: File) -> str | None:
        prefix = os.path.join(self._folder, "")
        return file.source[len(prefix) :] if file.source.startswith(prefix) else None

    def is_link(self, below: str) -> bool:
        return Path(self._path(below)).is_symlink()

    def _path(self, below: str) -> str:
        return os.path.join(self._folder, below) if below else self._folder

    def _entry(self, folder: str, name: str) -> Entry:
        path = os.path.join(folder, name)
        is_folder = os.path.isdir(path)
        return Entry(name, name, is_folder, is_folder and os.path.islink(path))


def local_file(path: str, below: str) -> File:
    """Return the file of an absolute path. One that cannot be asked about is a file too, whose reading fails."""
    name = _LIKE_ESCAPE.sub(rb"\\x5c", os.fsencode(path)).decode(*_ESCAPED)
    try:
        found = os.stat(path)
    except OSError as error:
        return File(name, path, below, 0, f"unknown: {error.strerror}")
    return File(name, path, below, found.st_size if stat.S_ISREG(found.st_mode) else 0, _stamp(found))


def has_local_file(name: str) -> bool:
    """Whether there is a file of a name that `local_file` gave."""
    return os.path.lexists(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), name.encode()))


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}"


class RemoteTree:
    """A folder in a file system of fsspec.

    Args:
        place: the folder.
        url: the URL of the folder, as the caller gives it.
        asks: whether the store is asked for the size and stamp of a file, if its listing lacks them.
    """

    def __init__(self, place: RemoteFile, url: str, *, asks: bool) -> None:
        self._asks = asks
        self._place = place
        self._path = place.path.rstrip(SEPARATOR)
        self._url = url.rstrip(SEPARATOR)
        self._is_http = "http" in protocols_of(place.fs)

    def entries(self, below: str) -> list[Entry]:
        path = f"{self._path}/{below}" if below else self._path
        if self._is_http:
            path += SEPARATOR
        found = {}
        for info in self._place.ask("list the folder", "ls", path, detail=True):
            inside = str(info["name"]).rstrip(SEPARATOR).removeprefix(path.rstrip(SEPARATOR) + SEPARATOR)
            # An HTTP server's page of a folder may link to itself, sorted otherwise.
            if inside and SEPARATOR not in inside and not (self._is_http and "?" in inside):
                plain = unquote(inside) if self._is_http else inside
                found[inside] = Entry(inside, plain, info["type"] == "directory", facts=info)
        # What is listed once is not kept.
        self._place.fs.invalidate_cache(path)
        return sorted(found.values(), key=lambda entry: entry.plain)

    def files(self, found: list[tuple[str, Entry]]) -> Iterator[File]:
        if not self._asks or all(_is_known(entry.facts) for _, entry in found):
            yield from (self._file(below, entry.facts) for below, entry in found)
            return
        with Threads(_AT_ONCE, "graphwire-fleet") as threads:
            for answer in [threads.submit(self._asked, *each) for each in found]:
                yield answer.result()

    def below(self, file: File) -> str | None:
        prefix = f"{self._url}/"
        return file.source[len(prefix) :] if file.source.startswith(prefix) else None

    def is_link(self, below: str) -> bool:
        return False

    def _asked(self, below: str, entry: Entry) -> File:
        try:
            return self._file(below, self._place.ask("find the file", "info", f"{self._path}/{below}"))
        except (GraphwireError, OSError):
            return self._file(below, entry.facts)

    def _file(self, below: str, info: Mapping[str, Any]) -> File:
        return remote_file(f"{self._url}/{below}", unquote(below) if self._is_http else below, info)


def remote_file(url: str, below: str, info: Mapping[str, Any]) -> File:
    """Return the file at a URL, of which a file system tells facts."""
    key = next((key for key in _STAMPS if info.get(key) is not None), None)
    # A store that tells nothing of a file that changes with it: the file is read each time.
    stamp = f"{info[key]}-{info.get('size')}" if key else f"unknown-{token_hex(8)}"
    return File(_identity(url), url, below, info.get("size") or 0, stamp)


def _is_known(info: Mapping[str, Any]) -> bool:
    return info.get("size") is not None and any(info.get(key) is not None for key in _STAMPS)


def _identity(url: str) -> str:
    """Return a URL without secrets, which no other URL has: a digest is in the place of its query."""
    from hashlib import sha256

    shown = shown_url(url)
    _, mark, query = url.partition("?")
    return f"{shown}{sha256(query.encode()).hexdigest()[:16]}" if mark else shown
