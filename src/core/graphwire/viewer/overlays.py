"""Overlays: numbers for nodes, such as measured latencies, by which a page colours the graph."""

from __future__ import annotations

import csv
import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from graphwire.errors import EncodeError

OverlayValues: TypeAlias = Mapping[str, Mapping[str, float]]
"""Numbers by the name of the overlay, such as `latency [ms]`, and by the name of the node."""

_MOST_NAMED = 8


class Overlay(msgspec.Struct, frozen=True):
    """Numbers for the nodes of one file."""

    name: str
    """What the numbers are, with their unit, such as `latency [ms]`."""
    file: int
    """The index of the file."""
    values: dict[str, float]
    """By the name of the node; inside a subgraph by `SUBGRAPH/NODE`."""
    method: str | None = None
    """The program; None for every program of the file."""


def named_overlays(
    given: OverlayValues, nodes: Sequence[Collection[str]], method: str | None = None
) -> list[Overlay]:
    """Return the overlays of a page.

    Args:
        given: the numbers.
        nodes: the names of the nodes of each file.
        method: the program that the numbers are for; None for all.

    Raises:
        EncodeError: a name is not one of a node, or a value is not a finite number.
    """
    if not isinstance(given, Mapping):
        raise _unusable("overlay=", f"is a {type(given).__name__}")
    overlays = []
    for name, values in given.items():
        if not isinstance(values, Mapping):
            raise _unusable(f"the overlay {name!r:.80}", f"has a {type(values).__name__}")
        numbers = {str(node): _number(name, node, value) for node, value in values.items()}
        if unknown := [node for node in numbers if not any(node in known for known in nodes)]:
            raise _unknown_nodes(name, unknown, nodes)
        for index, known in enumerate(nodes):
            found = {node: number for node, number in numbers.items() if node in known}
            if found:
                overlays.append(Overlay(name, index, found, method))
    return overlays


def _unusable(what: str, problem: str) -> EncodeError:
    remedy = 'Pass numbers by name and node, such as {"latency [ms]": {"linear_3": 0.4}}'
    return EncodeError(f"{what} {problem}, not numbers for nodes", remedy=remedy)


def _number(name: str, node: object, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise EncodeError(
            f"the overlay {name!r:.80} has {value!r:.40} for the node {node!r:.80}, which is not a finite number",
            remedy="Leave out nodes without a number",
        )
    return number


def _unknown_nodes(name: str, unknown: list[str], nodes: Sequence[Collection[str]]) -> EncodeError:
    listed = ", ".join(map(repr, unknown[:_MOST_NAMED]))
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    near = difflib.get_close_matches(unknown[0], [each for known in nodes for each in known], 1)
    remedy = "`graphwire inspect FILE --nodes` lists the nodes"
    if near:
        remedy = f"Is {unknown[0]!r:.80} the node {near[0]!r:.80}? {remedy}"
    return EncodeError(
        f"the overlay {name!r:.80} names nodes that are not there: {listed}{more}", remedy=remedy
    )


# ----------------------------------------------------------------------------------------------------------- files


def read_overlays(path: Path) -> dict[str, dict[str, Any]]:
    """Return the overlays in a file, by name and node.

    A CSV file has a header: the names of nodes are in the first column, and each other column is an overlay. A JSON file has an
    object with numbers by node, by the name of the overlay; or one object with numbers by node, an overlay named as the file.

    Raises:
        EncodeError: the file has something else.
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8-sig")
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise EncodeError(
            f"{str(path)!r:.200} is neither CSV nor JSON by its suffix",
            remedy="Name it NAME.csv or NAME.json",
        )
    return read(path, text)


def _read_csv(path: Path, text: str) -> dict[str, dict[str, Any]]:
    try:
        rows = [row for row in csv.reader(text.splitlines(), strict=True) if row]
    except csv.Error as error:
        raise EncodeError(f"{str(path)!r:.200} is not CSV: {error}") from error
    if len(rows) < 2 or len(rows[0]) < 2:
        raise EncodeError(
            f"{str(path)!r:.200} has no header and numbers below it",
            remedy='Begin with a line such as "node,latency [ms]"',
        )
    names = rows[0][1:]
    return {
        name: {row[0]: value for row, value in _column(rows[1:], index) if value.strip()}
        for index, name in enumerate(names, 1)
    }


def _column(rows: list[list[str]], index: int) -> Iterator[tuple[list[str], str]]:
    yield from ((row, row[index]) for row in rows if index < len(row))


def _read_json(path: Path, text: str) -> dict[str, dict[str, Any]]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"{str(path)!r:.200} is not JSON: {error}") from error
    if not isinstance(tree, dict) or not tree:
        raise _unusable(repr(str(path)), f"has a {type(tree).__name__}")
    return tree if all(isinstance(each, dict) for each in tree.values()) else {path.stem: tree}


_READERS = {".csv": _read_csv, ".json": _read_json}
