"""The beginnings of the names that words of a command line look for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from graphwire.wire.archive.source import located, url_of
from graphwire.wire.remote import shown_url

_MAGIC = frozenset("*?[")


def roots_of(words: Sequence[str]) -> list[str]:
    """Return for each folder, pattern and file that words name how the names of its files begin."""
    roots = dict.fromkeys(map(_root, words))
    return [each for each in roots if not any(each != other and each.startswith(other) for other in roots)]


def _root(word: str) -> str:
    if url_of(word) is None or word.startswith("file://"):
        path = str(located(word))
        path = os.path.abspath(path)  # noqa: PTH100 - a link stays as it is named
        if os.path.isdir(path):  # noqa: PTH112
            return os.path.join(path, "")  # noqa: PTH118
        if os.path.lexists(path):
            return path
        return _fixed(path, _MAGIC)
    return _fixed(shown_url(word), _MAGIC - {"?"} if word.startswith("http") else _MAGIC)


def _fixed(name: str, magic: frozenset[str]) -> str:
    """Return the part of a pattern before the first name with a character of `magic`."""
    first = min((name.find(each) for each in magic if each in name), default=-1)
    return name if first < 0 else name[: name.rfind("/", 0, first) + 1]
