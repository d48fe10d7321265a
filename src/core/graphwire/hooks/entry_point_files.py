"""Finds installed plugins in the files of `sys.path`, without `importlib.metadata`, whose import takes longer than the search.

Only the plain case is read here: folders `*.dist-info` and `*.egg-info` with well-formed files. Whatever is not plain, such as a
zip archive on the path, another finder of distributions, or a malformed file, is left to `importlib.metadata`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from graphwire.lazy import pattern

_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_SECTION = pattern(r"\[([^\[\]]+)\]")
_ENTRY = pattern(r"([\w.-]+) *= *([A-Za-z_][\w.]*)(?::([A-Za-z_][\w.]*))?")


class EntryPointLine(NamedTuple):
    """An entry point, and the distribution that has it."""

    distribution: str
    version: str
    name: str
    module: str
    attributes: str
    """The dotted name of an object in the module; empty for the module itself."""


class _UnusualError(Exception):
    """Something that `importlib.metadata` has to read."""


def entry_points_in_files(group: str) -> list[EntryPointLine] | None:
    """Return the entry points of a group; None if something on the path is not plain."""
    if any(
        hasattr(finder, "find_distributions") and getattr(finder, "__module__", "") != _FINDERS
        for finder in sys.meta_path
    ):
        return None
    try:
        return list(_entry_points(group))
    except (_UnusualError, OSError, UnicodeDecodeError):
        return None


_FINDERS = "_frozen_importlib_external"
"""The module of Python's own `PathFinder`, which finds distributions in the folders of the path."""


def _entry_points(group: str) -> Iterator[EntryPointLine]:
    seen: dict[str, int] = {}
    found: list[tuple[str, list[EntryPointLine]]] = []
    for folder in map(Path, dict.fromkeys(sys.path)):
        if folder.is_file() or folder.suffix == ".egg":
            raise _UnusualError  # a zip archive, or a distribution of its own
        if not folder.is_dir():
            continue
        for entry in os.listdir(folder):  # noqa: PTH208 a path for each entry takes long
            stem, _, kind = entry.rpartition(".")
            suffix = f".{kind}"
            if suffix not in _METADATA and suffix not in (".egg", ".egg-link"):
                continue
            project = re.sub(r"[-_.]+", "-", stem.partition("-")[0]).lower()
            seen[project] = seen.get(project, 0) + 1
            if suffix not in _METADATA:
                raise _UnusualError
            lines = _lines_of(folder / entry, _METADATA[suffix], group)
            if lines:
                found.append((project, lines))
    for project, lines in found:
        if seen[project] > 1:
            raise _UnusualError  # Which copy counts depends on the order of the path.
        yield from lines


def _lines_of(folder: Path, metadata: str, group: str) -> list[EntryPointLine]:
    path = folder / "entry_points.txt"
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    if group not in text:
        return []
    entries = list(_entries(text, group))
    if not entries:
        return []
    header = (folder / metadata).read_text("utf-8").partition("\n\n")[0]
    name = re.search(r"^Name: *([A-Za-z0-9][\w.-]*)$", header, re.MULTILINE)
    version = re.search(r"^Version: *([\w.+!-]+)$", header, re.MULTILINE)
    if name is None or version is None:
        raise _UnusualError
    return [EntryPointLine(name[1], version[1], *entry) for entry in entries]


def _entries(text: str, group: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if match := _SECTION.fullmatch(stripped):
            section = match[1].strip()
        elif section == group:
            match = _ENTRY.fullmatch(stripped)
            if match is None or line[:1].isspace():
                raise _UnusualError
            yield match[1], match[2], match[3] or ""
