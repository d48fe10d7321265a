"""Patterns such as `models/**/*.pt2`: which names match, and into which folders a listing has to look."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from graphwire_fleet.sources.trees import SEPARATOR

_ANY_FOLDERS = "**"
_SUFFIX = ".pt2"

State: TypeAlias = frozenset[int]
"""The segments of a pattern that the next name of a path may match."""


class Segment(NamedTuple):
    """One name of a pattern."""

    text: str
    is_name: re.Pattern[str]

    def matches(self, name: str) -> bool:
        """Whether it matches a name. `*` does not match a name that begins with a dot, as in a shell."""
        hidden = name.startswith(".") and not self.text.startswith(".")
        return not hidden and self.is_name.match(name) is not None


class Pattern:
    """The names below a folder that a word matches.

    Args:
        segments: the names of a pattern. `**` is any number of folders.
        hidden: whether names that begin with a dot match as others do.
    """

    def __init__(self, segments: Iterable[str], *, hidden: bool = False) -> None:
        names = list(segments)
        if names and names[-1] == _ANY_FOLDERS:
            names.append("*")
        self._segments = [Segment(each, re.compile(fnmatch.translate(each), re.DOTALL)) for each in names]
        self._hidden = hidden
        self.start = self._closed({0})

    def step(self, state: State, name: str, *, is_link: bool = False) -> tuple[State, bool]:
        """Return the state below a folder of this name, and whether a file of this name matches.

        Args:
            is_link: whether the name is a link to a folder, which `**` does not follow.
        """
        after, found = set[int](), False
        for index in state:
            segment = self._segments[index]
            if segment.text == _ANY_FOLDERS:
                if not is_link and (self._hidden or not name.startswith(".")):
                    after.add(index)
            elif self._matches(segment, name):
                found = found or index + 1 == len(self._segments)
                after.add(index + 1)
        return self._closed(after), found

    def _matches(self, segment: Segment, name: str) -> bool:
        return segment.matches(name)

    def _closed(self, state: set[int]) -> State:
        last = len(self._segments)
        for index in sorted(state):
            following = index
            while following < last and self._segments[following].text == _ANY_FOLDERS:
                following += 1
                state.add(following)
        return frozenset(each for each in state if each < last)


class _Folder(Pattern):
    """All files below a folder that are named `*.pt2`, in any case of letters."""

    def _matches(self, segment: Segment, name: str) -> bool:
        return name.lower().endswith(_SUFFIX)


EVERYTHING = _Folder((_ANY_FOLDERS, f"*{_SUFFIX}"), hidden=True)
"""What a folder stands for."""


def split(path: str, magic: str) -> tuple[str, list[str]]:
    """Return the part of a path before the first name with a character of `magic`, and the names from there."""
    names = path.split(SEPARATOR)
    first = next((index for index, name in enumerate(names) if set(name) & set(magic)), len(names))
    return SEPARATOR.join(names[:first]), [name for name in names[first:] if name]
