"""Converts the operators of a document to their forms in the next schema version or the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from graphwire.evolve.documents import (
    AppliedStep,
    Edits,
    Node,
    Record,
    Refuse,
    Report,
    Version,
    Where,
    first_release,
    node_label,
    refusing,
    rewrite,
    version_with,
)
from graphwire.evolve.operators.availability import ARRIVALS
from graphwire.evolve.operators.form_editor import FormEditor, GraphValues
from graphwire.evolve.operators.schema_forms import CHANGES
from graphwire.evolve.opsets import EditNode

_Functions: TypeAlias = dict[Version, dict[str, list[EditNode]]]


def _by_version(functions: Iterable[tuple[str | int, str, EditNode | None]]) -> _Functions:
    """Group functions by schema version and operator, from rows `(release, operator, function)`."""
    found: _Functions = {}
    for release, target, function in functions:
        version = version_with(str(release))
        if version is not None and function is not None:
            found.setdefault(version, {}).setdefault(target, []).append(function)
    return found


_UP: Final = _by_version((row.since, row.target, row.up) for row in CHANGES)
_DOWN: Final = _by_version((row.since, row.newer_target, row.down) for row in (*CHANGES, *ARRIVALS))


def operators_up(tree: Record, newer: Version) -> tuple[Record, list[AppliedStep]]:
    """Convert the operators of a document that was just converted to `newer` to that version's forms; list the conversions."""
    done: dict[str, list[str]] = {}

    def note(node: Node, edit: FormEditor) -> None:
        if edit.nodes != [node]:
            what = f"operator {edit.target.removeprefix('torch.ops.')} in the form of {newer}"
            done.setdefault(what, []).append(node_label(node))

    tree = _edited(tree, _UP.get(newer), lambda where, construct: None, note)
    return tree, [AppliedStep(what, tuple(nodes)) for what, nodes in done.items()]


def operators_down(tree: Record, newer: Version, report: Report) -> Record:
    """Convert the operators of a document of `newer`, before its step down, to the forms of the version below.

    Report operators and parameters that `newer` introduced, unless a node computes the same without them.
    """
    return _edited(tree, _DOWN.get(newer), refusing(report, first_release(newer)), lambda node, edit: None)


def _edited(
    tree: Record,
    functions: Mapping[str, Iterable[EditNode]] | None,
    refuse: Refuse,
    note: Callable[[Node, FormEditor], None],
) -> Record:
    """Edit the nodes of a document with the functions for their operators.

    Args:
        refuse: receives what a function refuses.
        note: receives each edited node, as it was, and its editor.
    """
    if functions is None:
        return tree

    def of_graph(graph: Record, where: Where) -> Record:
        values = GraphValues(graph)
        nodes: list[Node] = []
        for index, node in enumerate(graph["nodes"]):
            found = functions.get(node["target"])
            if found is None:
                nodes.append(node)
                continue
            edit = FormEditor(values, node, Where(where, ".nodes", index, node), refuse)
            for function in found:
                edit.apply(function)
            note(node, edit)
            nodes += edit.nodes
        return values.added_to(nodes)

    return rewrite(tree, Edits(graph=of_graph))
