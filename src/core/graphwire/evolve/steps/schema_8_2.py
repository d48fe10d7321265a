"""Schema 8.2 (torch 2.6). It has symbolic floats and constructor text; a higher-order operator's one result is a list of one.

The step to 8.7 (torch 2.7) added `NamedArgument.kind`, `Node.is_hop_single_tensor_return`, the table of namedtuple fields,
the element types float8_e4m3fn and float8_e5m2, and text for floats that are not finite.

Upward a named argument of a higher-order operator is passed by keyword. For other operators the document does not record how
arguments are passed; their schema decides. Downward kinds and the table are dropped: a reader of 8.2 needs neither.
"""

from __future__ import annotations

from graphwire.evolve.step import Step
from graphwire.evolve.steps.schema_7_3 import floats_from_text, floats_to_text
from graphwire.evolve.trees import Edits, Record, Refuse, Where, rewrite, variant_of, with_module, without
from graphwire.schema import ArgumentKind, Version

HIGHER_ORDER = "torch.ops.higher_order."


def up(tree: Record) -> Record:
    """Convert 8.2 to 8.7."""
    return with_module(floats_to_text(rewrite(tree, Edits(node=_node_up))), treespec_namedtuple_fields={})


def _node_up(node: Record, where: Where) -> Record | None:
    if not node["target"].startswith(HIGHER_ORDER):
        return None
    inputs = [
        {**named, "kind": int(ArgumentKind.KEYWORD if named["name"] else ArgumentKind.POSITIONAL)}
        for named in node["inputs"]
    ]
    outputs, bare = node["outputs"], False
    if len(outputs) == 1 and variant_of(outputs[0]) == "as_tensors":
        outputs = [{"as_tensor": tensor} for tensor in outputs[0]["as_tensors"]]
    elif len(outputs) == 1:
        bare = True
    return {**node, "inputs": inputs, "outputs": outputs, "is_hop_single_tensor_return": bare}


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert 8.7 to 8.2."""
    tree = floats_from_text(rewrite(tree, Edits(node=_node_down)))
    return {**tree, "graph_module": without(tree["graph_module"], "treespec_namedtuple_fields")}


def _node_down(node: Record, where: Where) -> Record:
    outputs = node["outputs"]
    if node.get("is_hop_single_tensor_return") is False and len(outputs) == 1:
        tensor = outputs[0].get("as_tensor")
        if tensor is not None:
            outputs = [{"as_tensors": [tensor]}]
    inputs = [{"name": named["name"], "arg": named["arg"]} for named in node["inputs"]]
    return {**without(node, "is_hop_single_tensor_return"), "inputs": inputs, "outputs": outputs}


STEP = Step(
    Version(8, 2),
    Version(8, 7),
    up,
    down,
    derived=(
        "how arguments of higher-order operators are passed, from their names",
        "whether higher-order operators return a bare value, from their results",
    ),
    absent=("the fields of namedtuples",),
)
