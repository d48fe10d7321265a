"""Relaxes assertions on sizes that torch 2.1 wrote too strictly.

2.1 assumes that a size found at run time (of `nonzero`, of a mask) is at least 2, whatever the program states, and writes
that assumption into the graph: `ge(size, 2)`, an assertion whose message is `nonzero.shape[0] is outside of inline constraint
[2, 6].`. Such programs fail on inputs that they were written for (also in 2.1 itself). Since 2.2 the bound is the one that
the program states. A file of 2.1 does not contain it; a size is never negative, so the bound becomes 0.
"""

from __future__ import annotations

import re
from typing import Any

from graphwire.evolve.documents import Edits, Node, Record, Where, expression_edit, rewrite
from graphwire.lazy import pattern

_ASSERT = "torch.ops.aten._assert_async.msg"
_SCALAR = "torch.ops.aten.scalar_tensor.default"
_AT_LEAST = "_operator.ge"
_MESSAGE = pattern(r"\S+\.shape\[\d+\] is outside of inline constraint \[2, [^\]]*\]\.")


def relax_size_assertions(tree: Record) -> Record:
    """Relax the assertions in a program that was just converted from schema 1 to 2: sizes are at least 0, not 2."""
    return rewrite(tree, Edits(graph=_relaxed))


def _relaxed(graph: Record, where: Where) -> Record:
    asserted = {
        _reference(_argument(node, "self"), "as_tensor", "name")
        for node in graph["nodes"]
        if node["target"] == _ASSERT
        and _MESSAGE.fullmatch(_argument(node, "assert_msg").get("as_string") or "")
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
            nodes.append({**node, "inputs": [_zero_bound(named) for named in node["inputs"]]})
        else:
            nodes.append(node)
    return {**graph, "nodes": nodes, "sym_bool_values": values} if conditions else graph


def _argument(node: Node, name: str) -> Record:
    return next((named["arg"] for named in node["inputs"] if named["name"] == name), {})


def _reference(argument: Record, arm: str, field: str) -> Any:
    return (argument.get(arm) or {}).get(field)


def _zero_bound(named: Record) -> Record:
    return {**named, "arg": {"as_int": 0}} if named["name"] == "b" else named


_AT_LEAST_ZERO = expression_edit(lambda text: re.sub(r">= 2$", ">= 0", text))
