"""Schema 5.3 (torch 2.4). It has tokens and constant inputs, and one dialect.

The step to 7.3 (torch 2.5) replaced `dialect` by the list `verifiers`, and added `torch_version` and the module's metadata.

Upward the producer is torch's own term for older ones, `<=2.4`. Downward the producer and the module's metadata are dropped,
symbols get the names that 2.4 itself gives them (`evolve.reserved_names`), and views of attention become reshapes
(`evolve.operator_forms`). 2.4 supports only the dialect ATEN, whose graphs change nothing in place, so an operator
that does is an obstacle.
"""

from __future__ import annotations

from functools import partial

from graphwire.evolve.expressions import greatest_integer_from_infinity, infinity_from_greatest_integer
from graphwire.evolve.operator_forms import reshape_attention
from graphwire.evolve.reserved_names import name_symbols_by_operators
from graphwire.evolve.step import Step
from graphwire.evolve.trees import Edits, Record, Refuse, Where, rewrite, with_module, without
from graphwire.schema import Version

PRODUCER = "<=2.4"
DIALECT = "ATEN"


def up(tree: Record) -> Record:
    """Convert 5.3 to 7.3."""
    verifiers = [tree.get("dialect", DIALECT)]
    tree = with_module(without(tree, "dialect"), metadata={})
    return infinity_from_greatest_integer({**tree, "verifiers": verifiers, "torch_version": PRODUCER})


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert 7.3 to 5.3."""
    rewrite(tree, Edits(node=partial(_check_functional, refuse)))
    tree = name_symbols_by_operators(reshape_attention(tree))
    module = without(tree["graph_module"], "metadata")
    rest = without(tree, "verifiers", "torch_version", "graph_module")
    return greatest_integer_from_infinity({"graph_module": module, **rest, "dialect": DIALECT})


def _check_functional(refuse: Refuse, node: Record, where: Where) -> None:
    target = node["target"]
    if changes_inputs(target):
        refuse(where, f"the operator {target}, which changes its input in place")


def changes_inputs(target: str) -> bool:
    """Report whether an operator changes an input, judged by PyTorch's naming rule: a trailing underscore, or an out overload."""
    parts = target.split(".")
    if not target.startswith("torch.ops.") or len(parts) != 5:
        return False
    operator = parts[3]
    return (operator.endswith("_") and not operator.endswith("__")) or parts[4].endswith("out")


STEP = Step(
    Version(5, 3),
    Version(7, 3),
    up,
    down,
    absent=("the release of torch that wrote it", "metadata of the module"),
)
