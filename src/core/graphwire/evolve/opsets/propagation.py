"""Checks which results a stored program leaves to be found at load: only those of operators that an upgrader declares."""

from __future__ import annotations

from collections.abc import Iterable

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.opsets.graph_names import walk_nodes
from graphwire.hooks import OpsetStep, Registry
from graphwire.schema import Program


def declared_operators(steps: Iterable[OpsetStep]) -> frozenset[str]:
    """Return the operators whose results upgraders may leave undescribed (`PropagatingUpgrader.propagates`)."""
    return frozenset(name for step in steps for name in step.propagates)


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
        strange -= declared_operators(registry.opset_steps)
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
