"""Assert that two exported programs are the same in everything that a file must keep, and list the differences.

Programs are compared as portraits (`graphwire.testing.portraits`), so a program can also be compared with its own earlier
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from torch.export import ExportedProgram

from graphwire.hooks import Tree
from graphwire.testing.portraits import Portrait, graph_nodes, portrait, tree_of_values


def assert_same_program(actual: ExportedProgram, expected: ExportedProgram | Portrait) -> None:
    """Assert that two exported programs are the same in everything that a file must keep.

    Compared are the graph node by node with its metadata, subgraphs, signature, ranges, module calls, guards, verifiers,
    example inputs, and every weight and constant bit by bit, with the memory that they share. The `users` of each node of
    `actual` must also be right, because torch does not always maintain them.

    Args:
        actual: the program to check.
        expected: a program, or the `portrait` of one.

    Raises:
        AssertionError: they differ; the message lists every difference with its place.
    """
    assert_same_portrait(portrait(actual), expected if isinstance(expected, dict) else portrait(expected))
    _fail_of_differences("users of nodes", _wrong_users(actual))


def assert_same_portrait(actual: Portrait, expected: Portrait) -> None:
    """Assert that two portraits are the same.

    Raises:
        AssertionError: they differ; the message lists every difference with its place.
    """
    _fail_of_differences("programs", differences(actual, expected))


def assert_same_values(actual: Any, expected: Any) -> None:
    """Assert that two values are the same, in containers, types and every bit of their tensors.

    The type, shape, strides and elements of each tensor are compared. All nans are equal among Python floats, but not among
    elements of tensors.

    Raises:
        AssertionError: they differ; the message lists every difference with its place.
    """
    _fail_of_differences("values", differences(tree_of_values(actual), tree_of_values(expected), "value"))


def _fail_of_differences(what: str, found: Iterator[str]) -> None:
    lines = list(found)
    if lines:
        head = f"the {what} differ in {len(lines)} place{'s' if len(lines) != 1 else ''}:"
        raise AssertionError("\n  ".join([head, *lines]))


def _wrong_users(program: ExportedProgram) -> Iterator[str]:
    for node in graph_nodes(program):
        missing = [each.name for each in node.all_input_nodes if node not in each.users]
        unused = [each.name for each in node.users if node not in each.all_input_nodes]
        if missing or unused:
            yield f"{node.name} is not listed as a user of {missing}, or lists {unused}, which do not use it"


def differences(actual: Any, expected: Any, place: str = "program") -> Iterator[str]:
    """Yield a line for every difference of two portraits."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in (key for key in expected if key not in actual):
            yield f"{_below(place, key)} is missing, expected {_shown(expected[key])}"
        for key in (key for key in actual if key not in expected):
            yield f"{_below(place, key)} is unexpected: {_shown(actual[key])}"
        common = [key for key in expected if key in actual]
        if common != [key for key in actual if key in expected]:
            yield f"{place} has another order: {_shown(list(actual))}, expected {_shown(list(expected))}"
        for key in common:
            yield from differences(actual[key], expected[key], _below(place, key))
    elif isinstance(actual, list) and isinstance(expected, list):
        if len(actual) != len(expected):
            yield f"{place} has {len(actual)} elements, expected {len(expected)}"
        for index, (one, other) in enumerate(zip(actual, expected, strict=False)):
            yield from differences(one, other, f"{place}[{index}]")
    elif type(actual) is not type(expected) or actual != expected:
        yield f"{place} is {_shown(actual)}, expected {_shown(expected)}"


def _below(place: str, key: Any) -> str:
    return f"{place}.{key}" if isinstance(key, str) and key.isidentifier() else f"{place}[{key!r}]"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


# -------------- hypothesis strategies for trees, the values that every wire format encodes, and exact equality of trees


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
