"""Finds unused names for new values of a graph."""

from __future__ import annotations

import itertools
from collections.abc import Container

from graphwire.evolve.documents.trees import Record
from graphwire.schema import VALUE_TABLES


def value_names(graph: Record) -> set[str]:
    """Return the names of a graph's values."""
    return {name for table in VALUE_TABLES.values() for name in graph.get(table) or ()}


def free_name(stem: str, taken: Container[str | None], separator: str = "_") -> str:
    """Return the first of `stem`, `stem_1`, `stem_2` … that is not taken."""
    numbered = (f"{stem}{separator}{index}" for index in itertools.count(1))
    return next(name for name in itertools.chain((stem,), numbered) if name not in taken)
