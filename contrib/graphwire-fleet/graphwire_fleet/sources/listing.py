"""Lists the files that words name: folders, patterns and files, on this machine and at URLs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphwire.errors import ArchiveError, GraphwireError
from graphwire.wire.archive.source import RemoteFile, located, url_of
from graphwire.wire.remote import shown_url
from graphwire_fleet.sources.patterns import EVERYTHING, Pattern, State, split
from graphwire_fleet.sources.trees import (
    SEPARATOR,
    Entry,
    LocalTree,
    RemoteTree,
    Tree,
    local_file,
    remote_file,
)
from graphwire_fleet.work import File

_MAGIC, _HTTP_MAGIC = "*?[", "*["
_AT_ONCE = 256
"""How many files of a folder are asked about together."""
_LOCK, _OWN = ".lock", ("catalogue.json", "journal.json")
"""The files by which the folders of catalogues and journals are known: what they have is dropped."""
_DEPTH = 100
"""The most folders in one another: an HTTP server may link a page to itself below a new name."""


class _Below(NamedTuple):
    """A word that names files below a folder."""

    tree: Tree
    pattern: Pattern

    def has(self, file: File) -> bool:
        """Whether the listing of this word has a file."""
        below = self.tree.below(file)
        if below is None:
            return False
        *folders, name = below.split(SEPARATOR)
        state = self.pattern.start
        for index, folder in enumerate(folders):
            is_link = self.tree.is_link(SEPARATOR.join(folders[: index + 1]))
            state, _ = self.pattern.step(state, folder, is_link=is_link)
        return self.pattern.step(state, name)[1]


class _Single(NamedTuple):
    """A word that names one file."""

    file: File

    def has(self, file: File) -> bool:
        """Whether it is this file."""
        return file.name == self.file.name


def files_of(
    words: Sequence[str],
    storage_options: Mapping[str, Any] | None,
    on_problem: Callable[[Exception, str], None],
    *,
    counting: bool = False,
) -> Iterator[File]:
    """Return the files that words name, in the order of the words, those of a folder or pattern by name; each once.

    A folder stands for all files below it that are named `*.pt2`. A word that names no file, and has `*`, `?` or `[`, is a
    pattern, in which `**` matches any number of folders. Besides, a URL may have both. Folders are listed one after another,
    so the memory that this takes depends on the largest folder alone.

    Args:
        words: paths and URLs.
        storage_options: the options of the file systems of URLs, as `graphwire.open` has them.
        on_problem: called with an error and the name of what cannot be listed; the listing goes on.
        counting: whether only the number of files counts, so that stores are not asked about each.
    """
    source = _Source(storage_options, asks=not counting)
    before: list[_Below | _Single] = []
    for word in words:
        shown = shown_url(word) if url_of(word) else word
        try:
            found = source.meaning(word)
        except (GraphwireError, OSError) as error:
            on_problem(error, shown)
            continue
        count = 0
        problems: list[str] = []

        def report(error: Exception, name: str, problems: list[str] = problems) -> None:
            problems.append(name)
            on_problem(error, name)

        files = [found.file] if isinstance(found, _Single) else _walked(found, shown, report)
        for file in files:
            count += 1
            if not any(each.has(file) for each in before):
                yield file
        if not count and not problems:  # What cannot be listed may well have files.
            on_problem(_nothing(found).of(shown), shown)
        before.append(found)


def _nothing(found: _Below | _Single) -> ArchiveError:
    """Return the error for a word that names no file."""
    if isinstance(found, _Below) and found.pattern is EVERYTHING:
        return ArchiveError(
            "there is no file named *.pt2 below this folder",
            remedy="Files of other names need a pattern, such as 'folder/**/*.zip'",
        )
    return ArchiveError("there is no such file", remedy="Quote a pattern if the shell must not change it")


class _Source(NamedTuple):
    """How words are understood."""

    storage_options: Mapping[str, Any] | None
    asks: bool
    """Whether stores are asked about each file."""

    def meaning(self, word: str) -> _Below | _Single:
        """Return what a word names."""
        if url_of(word):
            found = self._at_url(word)
            if found is not None:
                return found
            word = str(located(word, self.storage_options))  # file://
        path = os.path.abspath(word)
        if os.path.isdir(path):
            return _Below(LocalTree(path), EVERYTHING)
        base, segments = split(path, _MAGIC)
        if not segments or os.path.lexists(path):
            os.stat(path)
            return _Single(local_file(path, os.path.basename(path)))
        return _Below(LocalTree(base or SEPARATOR), Pattern(segments))

    def _at_url(self, word: str) -> _Below | _Single | None:
        """Return what a URL names; None if it is on this machine."""
        chain, mark, last = word.rpartition("::")
        scheme, _, rest = last.partition("://")
        is_http = scheme.startswith("http")
        # The first name is a server or bucket, which may have brackets.
        host, _, path = rest.partition(SEPARATOR)
        fixed, segments = split(path, _HTTP_MAGIC if is_http else _MAGIC)
        base = f"{chain}{mark}{scheme}://{host}" + (f"/{fixed}" if fixed else "")
        is_pattern = bool(segments) and not (is_http and "?" in fixed)
        url = base if is_pattern else word
        place = located(url, self.storage_options)
        if not isinstance(place, RemoteFile):
            return None
        tree = RemoteTree(place, url, asks=self.asks)
        if is_pattern:
            return _Below(tree, Pattern(segments))
        if is_http and word.endswith(SEPARATOR):
            return _Below(tree, EVERYTHING)
        info = place.ask("find the file", "info", place.path)
        if info["type"] == "directory":
            return _Below(tree, EVERYTHING)
        return _Single(remote_file(word, place.name, info))


def _walked(
    found: _Below,
    shown: str,
    on_problem: Callable[[Exception, str], None],
    below: str = "",
    state: State | None = None,
) -> Iterator[File]:
    """Return the files below a folder, those of each folder by name."""
    tree, pattern = found
    try:
        entries = tree.entries(below)
    except (GraphwireError, OSError) as error:
        if below or not isinstance(error, FileNotFoundError):
            on_problem(error, f"{shown}: {below}" if below else shown)
        return
    names = {entry.name for entry in entries}
    if _LOCK in names and not names.isdisjoint(_OWN):
        return
    waiting: list[tuple[str, Entry]] = []
    for entry in entries:
        if entry.plain in (".", "..") or set(entry.plain) & {SEPARATOR, "\0"}:
            # Elsewhere, below another folder, it would be the name of something else.
            on_problem(
                ArchiveError(f"{entry.plain!r} is not a name"), f"{shown}: {below}" if below else shown
            )
            continue
        after, matches = pattern.step(
            pattern.start if state is None else state, entry.plain, is_link=entry.is_link
        )
        inside = f"{below}/{entry.name}" if below else entry.name
        if not entry.is_folder:
            if matches:
                waiting.append((inside, entry))
        elif after and inside.count(SEPARATOR) < _DEPTH:
            yield from tree.files(waiting)
            waiting = []
            yield from _walked(found, shown, on_problem, inside, after)
        if len(waiting) == _AT_ONCE:
            yield from tree.files(waiting)
            waiting = []
    yield from tree.files(waiting)
