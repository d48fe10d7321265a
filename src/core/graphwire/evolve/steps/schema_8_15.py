"""Schema 8.15 (torch 2.10). Nodes have no names: the values that a node makes identify it.

The step to 8.17 (torch 2.11) added `Node.name` and the variant `as_nested_tensors`. Upward a node gets its value's name. A node
with several values gets the name from which its unused values were named (`split_unused_1`), else an unused name derived from
its operator. Downward the names are dropped, and a value is renamed if it has the name that the reader then gives to a node
with several values.
"""

from __future__ import annotations

import re

from graphwire.evolve.reserved_names import free_name, rename_node_name_clashes, value_names
from graphwire.evolve.step import Step
from graphwire.evolve.trees import Edits, Record, Refuse, Where, name_of, rewrite, without
from graphwire.schema import Version

_UNUSED = r"(?a)(?P<node>[A-Za-z_]\w*)_unused_(?P<index>\d+)"


def up(tree: Record) -> Record:
    """Convert 8.15 to 8.17."""
    return rewrite(tree, Edits(graph=_name_nodes))


def _name_nodes(graph: Record, where: Where) -> Record:
    names: set[str | None] = {*value_names(graph)}
    for node in graph["nodes"]:
        if len(node["outputs"]) == 1 and "as_graph" not in node["outputs"][0]:
            names.add(name_of(node["outputs"][0]))
    own = [node.get("name") or _own_name(node) for node in graph["nodes"]]
    taken, given, nodes = {*names, *own}, set[str](), []
    for node, known in zip(graph["nodes"], own, strict=True):
        is_free = known not in given and (known not in names or known in map(name_of, node["outputs"]))
        name = known if known is not None and is_free else _free_name(node["target"], taken)
        taken.add(name)
        given.add(name)
        nodes.append({**node, "name": name})
    return {**graph, "nodes": nodes}


def _own_name(node: Record) -> str | None:
    """Return the name of a node that the names of its values imply; None if they imply none."""
    outputs = node["outputs"]
    if len(outputs) == 1 and node.get("is_hop_single_tensor_return") is not False:
        name = name_of(outputs[0])
        if name is not None:
            return name
    names = [name_of(output) for output in outputs]
    if len(outputs) == 1 and (listed := outputs[0].get("as_tensors")) is not None:
        names = [tensor["name"] for tensor in listed]
    for index, name in enumerate(names):
        found = re.fullmatch(_UNUSED, name or "")
        if found and int(found["index"]) == index:
            return found["node"]
    return None


def _free_name(target: str, taken: set[str | None]) -> str:
    parts = target.split(".")
    stem = parts[-2] if target.startswith("torch.ops.") and len(parts) == 5 else parts[-1]
    if not stem.isidentifier() or stem[:1].isdigit():
        stem = "node"
    return free_name(stem, taken)


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert 8.17 to 8.15."""
    return rename_node_name_clashes(rewrite(tree, Edits(node=lambda node, where: without(node, "name"))))


STEP = Step(
    Version(8, 15), Version(8, 17), up, down, derived=("names of nodes, from the values that they make",)
)
