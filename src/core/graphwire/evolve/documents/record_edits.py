"""Edits that several schema steps use: of a union's arm, of an expression, of some fields of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from graphwire.evolve.documents.trees import Record, Where

SureEdit: TypeAlias = Callable[[Record, Where], Record]
"""An edit that always returns a record."""


def arm_edit(arm: str, change: Callable[[Any], Record]) -> SureEdit:
    """Return an edit that replaces a union by `change` of the content of one arm; unions with another arm stay."""

    def edit(union: Record, where: Where) -> Record:
        content = union.get(arm)
        return union if content is None else change(content)

    return edit


def expression_edit(convert: Callable[[str], str]) -> SureEdit:
    """Return an edit of a symbolic value that converts the text of its expression."""
    return arm_edit("as_expr", lambda value: {"as_expr": {**value, "expr_str": convert(value["expr_str"])}})


def without(record: Record, *fields: str) -> Record:
    """Return a record without some of its fields."""
    return {key: value for key, value in record.items() if key not in fields}


def with_module(program: Record, **fields: Any) -> Record:
    """Return a program with other fields of its graph module."""
    return {**program, "graph_module": {**program["graph_module"], **fields}}
