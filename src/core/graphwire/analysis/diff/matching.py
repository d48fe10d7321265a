"""Matching of the elements of two sequences by keys ("patience" diff).

Every element has several keys, the most specific first. Keys that occur once in each sequence are anchors: the longest run
of anchors with the same order on both sides is matched. The parts between anchors are matched in the same way, then by the
next key. So the time is near O(n log n) in the length of the sequences, however different they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

Keys = Sequence[Hashable]

_QUICK = 10_000
"""The largest number of pairs for which a part is compared with difflib, which is thorough, but at least quadratic."""


class _Gap(NamedTuple):
    """The two parts, one of each sequence, between matched elements."""

    a: range
    b: range
    level: int


def match(a: Sequence[Keys], b: Sequence[Keys], *, moved_levels: int = 0) -> list[tuple[int, int]]:
    """Return the pairs of matching indices, sorted by the first. Each index is in at most one pair.

    Args:
        a: the keys of each element of the first sequence, the most specific first; all of the same length.
        b: the same for the second sequence.
        moved_levels: the number of keys by which elements that moved are matched.
    """
    levels = len(a[0]) if a else 0
    pairs: list[tuple[int, int]] = []
    pending = [_Gap(range(len(a)), range(len(b)), 0)]
    while pending:
        gap = _trimmed(pending.pop(), a, b, pairs)
        if not gap.a or not gap.b or gap.level >= levels:
            continue
        anchors = _anchors(gap, a, b)
        if not anchors:
            if gap.level + 1 < levels:
                pending.append(gap._replace(level=gap.level + 1))
            else:
                pairs += _in_turn(gap, a, b)
            continue
        pairs += anchors
        last_a, last_b = gap.a.start, gap.b.start
        for at_a, at_b in [*anchors, (gap.a.stop, gap.b.stop)]:
            pending.append(_Gap(range(last_a, at_a), range(last_b, at_b), gap.level))
            last_a, last_b = at_a + 1, at_b + 1
    _match_moved(a, b, pairs, moved_levels)
    return sorted(pairs)


def _trimmed(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys], pairs: list[tuple[int, int]]) -> _Gap:
    """Match equal elements at both ends of the gap, and return the rest of the gap."""
    start_a, stop_a, start_b, stop_b, level = gap.a.start, gap.a.stop, gap.b.start, gap.b.stop, gap.level
    while start_a < stop_a and start_b < stop_b and a[start_a][level] == b[start_b][level]:
        pairs.append((start_a, start_b))
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < stop_a and start_b < stop_b and a[stop_a - 1][level] == b[stop_b - 1][level]:
        stop_a, stop_b = stop_a - 1, stop_b - 1
        pairs.append((stop_a, stop_b))
    return _Gap(range(start_a, stop_a), range(start_b, stop_b), level)


def _anchors(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys]) -> list[tuple[int, int]]:
    """Return the longest run of keys that occur once on each side, in the same order on both."""
    level = gap.level
    count_a = Counter(a[index][level] for index in gap.a)
    count_b = Counter(b[index][level] for index in gap.b)
    places = {b[index][level]: index for index in gap.b}
    alone = [
        (index, places[key])
        for index in gap.a
        if count_a[key := a[index][level]] == 1 and count_b.get(key) == 1
    ]
    return [alone[place] for place in increasing_run([at_b for _, at_b in alone])]


def increasing_run(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[length], places[length] = value, place
    run: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]


def _in_turn(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys]) -> list[tuple[int, int]]:
    """Match repeated keys: by longest common runs in small gaps, and otherwise each with the next equal key after the last
    match."""
    if len(gap.a) * len(gap.b) <= _QUICK:
        keys_a, keys_b = ([side[i][gap.level] for i in places] for side, places in ((a, gap.a), (b, gap.b)))
        blocks = SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_matching_blocks()
        return [(gap.a[one + i], gap.b[other + i]) for one, other, size in blocks for i in range(size)]
    places: dict[Hashable, deque[int]] = {}
    for index in gap.b:
        places.setdefault(b[index][gap.level], deque()).append(index)
    pairs, reached = [], gap.b.start
    for index in gap.a:
        waiting = places.get(a[index][gap.level], deque())
        while waiting and waiting[0] < reached:
            waiting.popleft()
        if waiting:
            reached = waiting.popleft() + 1
            pairs.append((index, reached - 1))
    return pairs


def _match_moved(a: Sequence[Keys], b: Sequence[Keys], pairs: list[tuple[int, int]], levels: int) -> None:
    """Match the remaining elements of both sides regardless of position, and add them to `pairs`."""
    for level in range(levels):
        matched_a, matched_b = {one for one, _ in pairs}, {other for _, other in pairs}
        places: dict[Hashable, deque[int]] = {}
        for index, keys in enumerate(b):
            if index not in matched_b:
                places.setdefault(keys[level], deque()).append(index)
        for index, keys in enumerate(a):
            if index not in matched_a and (waiting := places.get(keys[level])):
                pairs.append((index, waiting.popleft()))
