"""Edits of unions: what a step does to a record in which one arm is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphwire.evolve.trees import Edit, Record, Where

__all__ = ["of_arm", "of_expression"]


def of_arm(arm: str, change: Callable[[Any], Record]) -> Edit:
    """An edit that puts `change` of an arm's content in place of the union; other unions stay."""

    def edit(union: Record, where: Where) -> Record:
        content = union.get(arm)
        return union if content is None else change(content)

    return edit


def of_expression(convert: Callable[[str], str]) -> Edit:
    """An edit of a symbolic value that converts the text of its expression."""
    return of_arm("as_expr", lambda value: {"as_expr": {**value, "expr_str": convert(value["expr_str"])}})
