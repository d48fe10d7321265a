"""How did operators change between schema versions and releases?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from graphwire.evolve import trees
from graphwire.evolve.availability import ARRIVALS
from graphwire.evolve.operator_forms import SCHEMA_CHANGES, FormEditor, GraphValues
from graphwire.evolve.planner import EditNode
from graphwire.evolve.step import AppliedStep, first_release, version_with
from graphwire.evolve.trees import Node, Record, Where
from graphwire.schema import Version

# --------------------- converts the operators of a document to their forms in the next schema version or the one before


_Functions: TypeAlias = dict[Version, dict[str, list[EditNode]]]


def _by_version(functions: Iterable[tuple[str | int, str, EditNode | None]]) -> _Functions:
    """Group functions by schema version and operator, from rows `(release, operator, function)`."""
    found: _Functions = {}
    for release, target, function in functions:
        version = version_with(str(release))
        if version is not None and function is not None:
            found.setdefault(version, {}).setdefault(target, []).append(function)
    return found


_UP: Final = _by_version((row.since, row.target, row.up) for row in SCHEMA_CHANGES)
_DOWN: Final = _by_version((row.since, row.newer_target, row.down) for row in (*SCHEMA_CHANGES, *ARRIVALS))


def operators_up(tree: Record, newer: Version) -> tuple[Record, list[AppliedStep]]:
    """Convert the operators of a document that was just converted to `newer` to that version's forms; list the conversions."""
    done: dict[str, list[str]] = {}

    def note(node: Node, edit: FormEditor) -> None:
        if edit.nodes != [node]:
            what = f"operator {edit.target.removeprefix('torch.ops.')} in the form of {newer}"
            done.setdefault(what, []).append(trees.node_label(node))

    tree = _edited(tree, _UP.get(newer), lambda where, construct: None, note)
    return tree, [AppliedStep(what, tuple(nodes)) for what, nodes in done.items()]


def operators_down(tree: Record, newer: Version, report: trees.Report) -> Record:
    """Convert the operators of a document of `newer`, before its step down, to the forms of the version below.

    Report operators and parameters that `newer` introduced, unless a node computes the same without them.
    """
    return _edited(
        tree, _DOWN.get(newer), trees.refusing(report, first_release(newer)), lambda node, edit: None
    )


def _edited(
    tree: Record,
    functions: Mapping[str, Iterable[EditNode]] | None,
    refuse: trees.Refuse,
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

    return trees.rewrite(tree, trees.Edits(graph=of_graph))


# -------------------------------------------------------- relaxes assertions on sizes that torch 2.1 wrote too strictly
# 2.1 assumes that a size found at run time (of `nonzero`, of a mask) is at least 2, whatever the program states, and writes
# that assumption into the graph: `ge(size, 2)`, an assertion whose message is `nonzero.shape[0] is outside of inline constraint
# [2, 6].`. Such programs fail on inputs that they were written for (also in 2.1 itself). Since 2.2 the bound is the one that
# the program states. A file of 2.1 does not contain it; a size is never negative, so the bound becomes 0.


_ASSERT = "torch.ops.aten._assert_async.msg"
_SCALAR = "torch.ops.aten.scalar_tensor.default"
_AT_LEAST = "_operator.ge"
_MESSAGE = r"\S+\.shape\[\d+\] is outside of inline constraint \[2, [^\]]*\]\."


def relax_size_assertions(tree: Record) -> Record:
    """Relax the assertions in a program that was just converted from schema 1 to 2: sizes are at least 0, not 2."""
    return trees.rewrite(tree, trees.Edits(graph=_relaxed))


def _relaxed(graph: Record, where: Where) -> Record:
    asserted = {
        _reference(_argument(node, "self"), "as_tensor", "name")
        for node in graph["nodes"]
        if node["target"] == _ASSERT
        and re.fullmatch(_MESSAGE, _argument(node, "assert_msg").get("as_string") or "")
    }
    conditions = {
        _reference(_argument(node, "s"), "as_sym_bool", "as_name")
        for node in graph["nodes"]
        if node["target"] == _SCALAR and _reference(node["outputs"][0], "as_tensor", "name") in asserted
    } - {None}
    values = dict(graph["sym_bool_values"])
    nodes = []
    for node in graph["nodes"]:
        name = _reference(node["outputs"][0], "as_sym_bool", "as_name") if node["outputs"] else None
        if node["target"] == _AT_LEAST and name in conditions and _argument(node, "b").get("as_int") == 2:
            values[name] = _AT_LEAST_ZERO(values[name], where)
            bounds = [
                {**each, "arg": {"as_int": 0}} if each["name"] == "b" else each for each in node["inputs"]
            ]
            nodes.append({**node, "inputs": bounds})
        else:
            nodes.append(node)
    return {**graph, "nodes": nodes, "sym_bool_values": values} if conditions else graph


def _argument(node: Node, name: str) -> Record:
    return next((named["arg"] for named in node["inputs"] if named["name"] == name), {})


def _reference(argument: Record, variant: str, field: str) -> Any:
    return (argument.get(variant) or {}).get(field)


_AT_LEAST_ZERO = trees.expression_edit(lambda text: re.sub(r">= 2$", ">= 0", text))
