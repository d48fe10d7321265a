"""Converts flash attention on a CPU: `_scaled_dot_product_flash_attention` up to torch 2.2, a separate operator since 2.3.

The newer operator has two of the older one's nine results (an older file omits the two that are integers). A program that
uses another result keeps its form.

The result of `scaled_dot_product_attention` has other strides since 2.5. A `view` that a newer torch found possible fails on
the older strides. Downward it becomes a `reshape`, which is equivalent where a view is possible, in a graph that changes
nothing in place (as all graphs up to 2.4).
"""

from __future__ import annotations

from graphwire.evolve.documents import Edits, Record, Where, arm_of, name_of, rewrite
from graphwire.evolve.operators.form_editor import FormEditor
from graphwire.schema import Layout, ScalarType

FLASH = "torch.ops.aten._scaled_dot_product_flash_attention.default"
FLASH_FOR_CPU = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"

_SHARED = frozenset({"query", "key", "value", "dropout_p", "is_causal", "scale"})
_STEM = "_scaled_dot_product_flash_attention_unused"
_OTHERS = ((2, ScalarType.INT), (3, ScalarType.INT), (6, ScalarType.LONG), (7, ScalarType.LONG), (8, None))
"""The results that only the older operator has, by position: tensors without dimensions, of the given element type or, for None,
of the query's."""


def attention_up(edit: FormEditor) -> None:
    """2.2 → 2.3: call the operator for CPUs, where no result that it lacks is used."""
    outputs = edit.node["outputs"]
    names = [output["as_tensor"]["name"] for output in outputs if arm_of(output) == "as_tensor"]
    query = edit.arguments[0]["as_tensor"]["name"]
    if edit.values.meta(query)["device"]["type"] != "cpu" or len(names) != len(outputs):
        return
    if any(edit.values.uses(name) for name in names[2:]):
        return
    for name in names[2:]:
        edit.values.drop_tensor(name)
    _retarget(edit, FLASH_FOR_CPU, outputs[:2])


def attention_down(edit: FormEditor) -> None:
    """2.3 → 2.2: call the older operator, with the results that only it has."""
    inputs, outputs = edit.node["inputs"], edit.node["outputs"]
    plain = all(each["name"] in _SHARED or arm_of(each["arg"]) == "as_none" for each in inputs)
    if not plain or len(outputs) != 2 or edit.values.uses(outputs[1]["as_tensor"]["name"]):
        edit.refuse(f"the operator {FLASH_FOR_CPU}")
    like = edit.values.meta(outputs[0]["as_tensor"]["name"])
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
        others.append({"as_tensor": {"name": edit.values.make_tensor(f"{_STEM}_{index}", meta)}})
    _retarget(edit, FLASH, [*outputs, *others])


def _retarget(edit: FormEditor, target: str, outputs: list[Record]) -> None:
    edit.retarget(target)
    edit.node["inputs"] = [each for each in edit.node["inputs"] if each["name"] in _SHARED]
    edit.node["outputs"] = outputs


_ATTENTION = "torch.ops.aten.scaled_dot_product_attention.default"
_MOVES = frozenset({"torch.ops.aten.permute.default", "torch.ops.aten.transpose.int"})
_VIEW, _RESHAPE = "torch.ops.aten.view.default", "torch.ops.aten.reshape.default"


def reshape_attention(tree: Record) -> Record:
    """Replace views of the results of attention, with or without moved dimensions, by reshapes."""
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
