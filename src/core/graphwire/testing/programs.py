"""Assert that two exported programs are the same in everything that a file must keep, and list the differences.

Programs are compared as snapshots (`graphwire.testing.snapshots`), so a program can also be compared with its own earlier
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.export import ExportedProgram

from graphwire.testing.snapshots import Snapshot, graph_nodes, snapshot, tree_of_values


def assert_same_program(actual: ExportedProgram, expected: ExportedProgram | Snapshot) -> None:
    """Assert that two exported programs are the same in everything that a file must keep.

    Compared are the graph node by node with its metadata, subgraphs, signature, ranges, module calls, guards, verifiers,
    example inputs, and every weight and constant bit by bit, with the memory that they share. The `users` of each node of
    `actual` must also be right, because torch does not always maintain them.

    Args:
        actual: the program to check.
        expected: a program, or the `snapshot` of one.

    Raises:
        AssertionError: they differ; the message lists every difference with its place.
    """
    assert_same_snapshot(snapshot(actual), expected if isinstance(expected, dict) else snapshot(expected))
    _fail_of_differences("users of nodes", _wrong_users(actual))


def assert_same_snapshot(actual: Snapshot, expected: Snapshot) -> None:
    """Assert that two snapshots are the same.

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
    """Yield a line for every difference of two snapshots."""
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
