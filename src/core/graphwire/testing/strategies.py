"""Hypothesis strategies for trees, the values that every wire format encodes."""

from __future__ import annotations

from hypothesis import strategies as st

from graphwire.registry.interfaces import Tree

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
