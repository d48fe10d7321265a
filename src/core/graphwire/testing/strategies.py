"""Hypothesis strategies for trees, the values that every wire format encodes, and exact equality of trees."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphwire.registry import Tree

_AWKWARD_KEYS = ["", "$", "$bytes", "$float", "$$bytes", "\0", "a.b", "0", "é", "e\u0301"]
_AWKWARD_KEYS += ["__proto__", "as_tensor"]


def scalars() -> st.SearchStrategy[Tree]:
    """Return a strategy for the scalars of a tree."""
    integers = st.integers() | st.integers(-(1 << 70), 1 << 70)
    return st.one_of(st.none(), st.booleans(), integers, st.floats(), st.text(), st.binary())


def trees(*, max_leaves: int = 30) -> st.SearchStrategy[Tree]:
    """Return a strategy for trees of every kind of value, with keys that are hard for formats.

    Args:
        max_leaves: the maximum number of scalars in a tree.
    """
    keys = st.one_of(st.text(max_size=12), st.sampled_from(_AWKWARD_KEYS))

    def containers(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        lists: st.SearchStrategy[Tree] = st.lists(inner, max_size=6)
        dicts: st.SearchStrategy[Tree] = st.dictionaries(keys, inner, max_size=6)
        return lists | dicts

    return st.recursive(scalars(), containers, max_leaves=max_leaves)


def same_tree(left: Any, right: Any) -> bool:
    """Return whether two values are identical: exact types, dict order, and the bits of floats, except that all nans are equal.

    Lists, tuples and dicts are compared by their elements, however deep they are.
    """
    rest = [(left, right)]
    while rest:
        one, other = rest.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, dict):
            one, other = list(one.items()), list(other.items())
        elif isinstance(one, float):  # The text differs for -0.0 and 0.0, and is the same for every nan.
            one, other = repr(one), repr(other)
        if isinstance(one, (list, tuple)):
            if len(one) != len(other):
                return False
            rest.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True
