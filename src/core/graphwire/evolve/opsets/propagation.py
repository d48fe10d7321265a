"""Which values a stored program may leave to be found at load: those of operators that an installed upgrader declares."""

from __future__ import annotations

from collections.abc import Iterable

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.opsets.graph_names import walk_nodes
from graphwire.hooks import OpsetStep, Registry
from graphwire.schema import Program


def declared_operators(steps: Iterable[OpsetStep]) -> frozenset[str]:
    """The operators of which upgraders declare to leave results unstated (`PropagatingUpgrader.propagates`)."""
    return frozenset(name for step in steps for name in step.propagates)


def marked_operators(program: Program) -> frozenset[str]:
    """The operators of the nodes that leave results to be found (extension `propagate`), in subgraphs too."""
    if "propagate" not in program.requires:
        return frozenset()
    return frozenset(node.target for _, node in walk_nodes(program.graph_module.graph) if node.propagate)


def check_stored_marks(program: Program, registry: Registry) -> None:
    """Do nothing for a program that leaves no results to be found, or only those of declared operators.

    Args:
        program: a checked one, as a file says it or shall say it.

    Raises:
        OpsetError: nobody here declares an operator; every such node is named.
    """
    strange = marked_operators(program)
    if strange:
        strange -= declared_operators(registry.opset_steps)
    if not strange:
        return
    problems = [
        Problem(f"{place}.propagate", "undeclared", f"results of {node.target} are not stated")
        for place, node in walk_nodes(program.graph_module.graph)
        if node.propagate and node.target in strange
    ]
    raise OpsetError(
        "no installed opset upgrader declares to leave results of "
        f"{', '.join(sorted(strange))[:400]} to be found at load",
        problems=problems,
        remedy="Install and allow the plugin whose upgrader wrote it; the upgrader names the operator in `propagates`, or "
        "states what is known of its results",
    )
