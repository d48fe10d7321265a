"""Random edits of exported programs: what people do to a graph with FX passes, one small step each.

    done = edit(program, random.Random(7), count=4)

Each step keeps the rules of FX (`graph.lint` passes) and those of `ExportedProgram` that its own verifier checks; a step may
leave values that the graph states wrongly, as passes do. What was done is told as text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from torch.export import ExportedProgram
from torch.fx import GraphModule

from random_programs import holder_edits, interface_edits, node_edits, noted_edits, pass_edits
from random_programs.editing import Editing

__all__ = ["EDITS", "Editing", "edit"]

EDITS: Mapping[str, Callable[[Editing], str | None]] = MappingProxyType(
    {
        function.__name__: function
        for module in (node_edits, pass_edits, noted_edits, interface_edits, holder_edits)
        for function in module.EDITS
    }
)
"""Each kind of edit by its name. It tells what it did, or None where a program has nothing to do it with."""


def edit(
    program: ExportedProgram, chance: random.Random, *, count: int = 3, kinds: Sequence[str] = tuple(EDITS)
) -> list[str]:
    """Edit a program in place, in some random ways.

    Args:
        chance: what decides.
        count: how many edits are tried.
        kinds: the names of edits to choose from.

    Returns:
        What was done, in order.
    """
    done = []
    for _ in range(count):
        editing = Editing(program, chance)
        kind = chance.choice(kinds)
        told = EDITS[kind](editing)
        if told is not None:
            done.append(f"{kind}: {told}")
        editing.module.graph.lint()
    for owner in program.graph_module.modules():
        if isinstance(owner, GraphModule):
            inputs = owner.graph.find_nodes(op="placeholder")
            for node in inputs[next((at for at, each in enumerate(inputs) if each.args), len(inputs)) :]:
                node.args = node.args or (None,)  # what is behind a default value needs one, too
            owner.recompile()
    return done
