"""Checks the nodes that opset upgraders wrote against the signatures of the installed operators."""

from __future__ import annotations

from graphwire.errors import Problem
from graphwire.evolve.opsets import walk_nodes
from graphwire.hooks import Registry
from graphwire.schema import Program


def signature_mismatches(before: Program, after: Program, registry: Registry) -> list[Problem]:
    """Return the problems of upgraded nodes whose inputs do not match the installed operators.

    Args:
        before: the program before the upgrade.
        after: the program after it.
        registry: provides the handlers that resolve the operators.
    """
    known = {id(node) for _, node in walk_nodes(before.graph_module.graph)}
    problems = []
    for place, node in walk_nodes(after.graph_module.graph):
        if id(node) in known:
            continue
        handler = registry.op_handler(node.target)
        if handler is None or handler.convention != "schema" or hasattr(handler, "encode_node"):
            continue
        try:
            schema = getattr(handler.resolve(node.target), "_schema", None)
        except Exception:  # noqa: BLE001 a plugin's code; an error is raised when something needs the operator
            continue
        if schema is None:
            continue
        names = {argument.name for argument in schema.arguments}
        given = {named.name for named in node.inputs if named.name}
        for name in sorted(given - names):
            message = f"{node.target} has no parameter {name}; it has {', '.join(sorted(names)) or 'none'}"
            problems.append(Problem(place, "no-parameter", message))
        if all(named.name for named in node.inputs):
            required = {argument.name for argument in schema.arguments if not argument.has_default_value()}
            for name in sorted(required - given):
                problems.append(
                    Problem(
                        place, "no-argument", f"{node.target} lacks a value for {name}, which has no default"
                    )
                )
    return problems
