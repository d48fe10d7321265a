"""Flash attention on a CPU: `_scaled_dot_product_flash_attention` up to torch 2.2, an operator of its own from 2.3 on.

The newer operator has two results of the older one's nine (an older file leaves out the two that are integers). A program
that uses another one keeps its form.

The result of `scaled_dot_product_attention` has other strides from 2.5 on. A `view` that a newer torch found possible fails on
the older strides; downward it becomes a `reshape`, which is the same where a view is possible, in a graph that changes nothing
in place (as all graphs up to 2.4).
"""

from __future__ import annotations

from graphwire.evolve.new_values import NewValues
from graphwire.evolve.trees import Edits, Node, Record, Report, Where, arm_of, name_of, rewrite
from graphwire.evolve.versions import Version, first_release
from graphwire.schema.scalars import Layout, ScalarType

__all__ = ["FLASH", "FLASH_FOR_CPU", "attention_down", "attention_up", "reshape_attention"]

FLASH = "torch.ops.aten._scaled_dot_product_flash_attention.default"
FLASH_FOR_CPU = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"

_SHARED = frozenset({"query", "key", "value", "dropout_p", "is_causal", "scale"})
_STEM = "_scaled_dot_product_flash_attention_unused"
_OTHERS = ((2, ScalarType.INT), (3, ScalarType.INT), (6, ScalarType.LONG), (7, ScalarType.LONG), (8, None))
"""The results of the older operator that the newer one does not have, by position: tensors without dimensions of an
element type, or of the query's."""


def attention_up(values: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.2 → 2.3."""
    inputs, outputs = node["inputs"], node["outputs"]
    names = [output["as_tensor"]["name"] for output in outputs if arm_of(output) == "as_tensor"]
    query = inputs[0]["arg"]["as_tensor"]["name"]
    if values.meta(query)["device"]["type"] != "cpu" or len(names) != len(outputs):
        return [node]
    if any(values.uses(name) for name in names[2:]):
        return [node]
    for name in names[2:]:
        values.drop_tensor(name)
    kept = [each for each in inputs if each["name"] in _SHARED]
    return [{**node, "target": FLASH_FOR_CPU, "inputs": kept, "outputs": outputs[:2]}]


def attention_down(values: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.3 → 2.2."""
    inputs, outputs = node["inputs"], node["outputs"]
    plain = all(each["name"] in _SHARED or arm_of(each["arg"]) == "as_none" for each in inputs)
    if not plain or len(outputs) != 2 or values.uses(outputs[1]["as_tensor"]["name"]):
        report(where.obstacle(f"the operator {FLASH_FOR_CPU}", first_release(Version(5, 1))))
        return [node]
    like = values.meta(outputs[0]["as_tensor"]["name"])
    others = []
    for index, kind in _OTHERS:
        meta: Record = {
            **like,
            "dtype": like["dtype"] if kind is None else int(kind),
            "sizes": [],
            "strides": [],
            "requires_grad": False,
            "storage_offset": {"as_int": 0},
            "layout": int(Layout.Strided),
        }
        others.append({"as_tensor": {"name": values.make_tensor(f"{_STEM}_{index}", meta)}})
    kept = [each for each in inputs if each["name"] in _SHARED]
    return [{**node, "target": FLASH, "inputs": kept, "outputs": [*outputs, *others]}]


_ATTENTION = "torch.ops.aten.scaled_dot_product_attention.default"
_MOVES = frozenset({"torch.ops.aten.permute.default", "torch.ops.aten.transpose.int"})
_VIEW, _RESHAPE = "torch.ops.aten.view.default", "torch.ops.aten.reshape.default"


def reshape_attention(tree: Record) -> Record:
    """A program whose views of the results of attention, dimensions moved or not, are reshapes."""
    return rewrite(tree, Edits(graph=_reshaped))


def _reshaped(graph: Record, where: Where) -> Record:
    attended: set[str | None] = set()
    nodes = []
    for node in graph["nodes"]:
        source = name_of(node["inputs"][0]["arg"]) if node["inputs"] else None
        if node["target"] == _ATTENTION or (node["target"] in _MOVES and source in attended):
            attended.add(name_of(node["outputs"][0]))
        if node["target"] == _VIEW and source in attended:
            size = [{**each, "name": "shape"} if each["name"] == "size" else each for each in node["inputs"]]
            nodes.append({**node, "target": _RESHAPE, "inputs": size})
        else:
            nodes.append(node)
    return {**graph, "nodes": nodes} if attended else graph
