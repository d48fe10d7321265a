"""Describes changes of operators: one row per change.

`operators` has the rows of torch's releases that introduced a version of the schema, `release_forms` those of later releases,
and an opset upgrader those of its namespace. The functions of a row edit one node. They receive a `form_editor.FormEditor`
between two versions of the schema, and an `editor.NodeEditor` on records of the current one. Methods that both editors have
share their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from graphwire.hooks import OpsetStep

EditNode: TypeAlias = Callable[[Any], None]
"""Edits one node."""


class Change(NamedTuple):
    """One change of one operator."""

    since: str | int
    """What first has the newer form: a release of torch (`2.14`), or a version of the operator's opset."""
    target: str
    """The serialized name of the operator in the older form."""
    up: EditNode | None = None
    """Converts a node to the newer form; None where the older one stays."""
    down: EditNode | None = None
    """Converts a node to the older form, or refuses it; None where the newer one stays."""
    becomes: str = ""
    """The serialized name in the newer form, if it differs."""
    older: str = ""
    """A parameter of `target` that only the older form has, where nothing else in a document distinguishes the forms."""
    newer: str = ""
    """A parameter of `newer_target` that only the newer form has, likewise."""

    @property
    def newer_target(self) -> str:
        """The serialized name in the newer form."""
        return self.becomes or self.target


def renamed_operator(since: str | int, target: str, becomes: str) -> Change:
    """Return the change of an operator's name."""
    return Change(
        since, target, lambda edit: edit.retarget(becomes), lambda edit: edit.retarget(target), becomes
    )


def renamed_parameter(since: str | int, target: str, older: str, newer: str) -> Change:
    """Return the change of a parameter's name."""
    return Change(
        since,
        target,
        lambda edit: edit.rename(older, newer),
        lambda edit: edit.rename(newer, older),
        older=older,
        newer=newer,
    )


def opset_steps(namespace: str, newest: int, changes: Iterable[Change]) -> tuple[OpsetStep, ...]:
    """Return the steps of a namespace from version 1 to `newest` and back, each with its changes."""
    ways: dict[tuple[int, int], dict[str, EditNode]] = {}
    for older in range(1, newest):
        ways |= {(older, older + 1): {}, (older + 1, older): {}}
    for row in changes:
        newer = int(row.since)
        if row.up is not None:
            ways[newer - 1, newer][row.target] = row.up
        if row.down is not None:
            ways[newer, newer - 1][row.newer_target] = row.down
    return tuple(OpsetStep(namespace, *way, operators) for way, operators in ways.items())
