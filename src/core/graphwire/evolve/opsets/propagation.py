"""Checks which results a stored program leaves to be found at load: only those of operators that an upgrader declares."""

from __future__ import annotations

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.opsets.graph_names import walk_nodes
from graphwire.hooks import Registry
from graphwire.schema import Program


def marked_operators(program: Program) -> frozenset[str]:
    """Return the operators of the nodes whose results are found at load (extension `propagate`), in subgraphs too."""
    if "propagate" not in program.requires:
        return frozenset()
    return frozenset(node.target for _, node in walk_nodes(program.graph_module.graph) if node.propagate)


def check_stored_marks(program: Program, registry: Registry) -> None:
    """Check that a program leaves only results of declared operators to be found at load.

    Args:
        program: a checked program, as a file has it or will have it.

    Raises:
        OpsetError: no installed upgrader declares an operator; the error names every such node.
    """
    strange = marked_operators(program)
    if strange:
        strange -= {name for step in registry.opset_steps for name in step.propagates}
    if not strange:
        return
    problems = [
        Problem(f"{place}.propagate", "undeclared", f"results of {node.target} are not described")
        for place, node in walk_nodes(program.graph_module.graph)
        if node.propagate and node.target in strange
    ]
    raise OpsetError(
        "no installed opset upgrader declares that it leaves results of "
        f"{', '.join(sorted(strange))[:400]} to be found at load",
        problems=problems,
        remedy="Install and allow the plugin whose upgrader wrote it; the upgrader must list the operator in `propagates`, or "
        "describe its results",
    )
