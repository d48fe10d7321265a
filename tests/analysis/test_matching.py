"""Matching of sequences: nothing twice, nothing lost that is the same, and quickly."""

from __future__ import annotations

import random
import time

from hypothesis import given, strategies as st

from graphwire.analysis.diff.nodes import increasing_run, match

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=30)


def _keys(words) -> list[tuple[str, str]]:
    return [(word, word.lower()) for word in words]


@given(a=WORDS, b=WORDS)
def test_each_index_stands_in_one_pair_at_most_and_pairs_are_equal(a, b) -> None:
    pairs = match(_keys(a), _keys(b), moved_levels=1)
    assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    assert all(a[one] == b[other] for one, other in pairs)


@given(a=WORDS, b=WORDS)
def test_without_moves_the_order_is_kept(a, b) -> None:
    pairs = match(_keys(a), _keys(b))
    assert [other for _, other in pairs] == sorted(other for _, other in pairs)


@given(a=WORDS)
def test_a_sequence_is_itself(a) -> None:
    assert match(_keys(a), _keys(a)) == [(index, index) for index in range(len(a))]


@given(a=WORDS, at=st.integers(0, 30), word=st.sampled_from("xyz"))
def test_what_is_put_in_is_the_only_one_without_a_partner(a, at, word) -> None:
    b = [*a[:at], word, *a[at:]]
    pairs = match(_keys(a), _keys(b))
    assert len(pairs) == len(a)


@given(a=st.permutations("abcdefgh"))
def test_what_has_moved_finds_its_partner(a) -> None:
    assert len(match(_keys("abcdefgh"), _keys(a), moved_levels=1)) == 8


def test_a_less_telling_key_matches_what_is_left() -> None:
    assert match(_keys("abC"), _keys("abc")) == [(0, 0), (1, 1), (2, 2)]


@given(values=st.lists(st.integers(), unique=True, max_size=12))
def test_the_increasing_run_is_a_longest_one(values) -> None:
    run = [values[place] for place in increasing_run(values)]
    assert run == sorted(run)
    longest = [1] * len(values)
    for at, value in enumerate(values):
        longest[at] = 1 + max((longest[i] for i in range(at) if values[i] < value), default=0)
    assert len(run) == max(longest, default=0)


def test_long_sequences_that_have_little_in_common_take_no_time() -> None:
    salt = random.Random(0)
    a, b = ([salt.choice("abcdefghij") for _ in range(5000)] for _ in range(2))
    begun = time.process_time()
    match(_keys(a), _keys(b), moved_levels=1)
    assert time.process_time() - begun < 2
