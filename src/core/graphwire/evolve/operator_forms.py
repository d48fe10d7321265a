"""The rewrites of `evolve.operators`: each takes one node and gives the nodes that stand for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphwire.evolve.new_values import NewValues
from graphwire.evolve.trees import Node, Record, Report, Where, arm_of, call_of
from graphwire.evolve.versions import Version, first_release

__all__ = [
    "cond_results_down",
    "cond_results_up",
    "cond_tuple_down",
    "cond_tuple_up",
    "functionalized_down",
    "invoke_down",
    "invoke_up",
    "map_down",
    "map_up",
    "renamed_input",
    "scan_down",
    "scan_up",
    "unchanged",
    "while_loop_down",
    "while_loop_up",
]


def unchanged(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """The node itself: an operator that only has another name."""
    return [node]


def renamed_input(old: str, new: str) -> Callable[[NewValues, Node, Where, Report], list[Node]]:
    """A rewrite that passes the argument `old` as `new`."""

    def rename(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
        inputs = [{**each, "name": new} if each["name"] == old else each for each in node["inputs"]]
        return [{**node, "inputs": inputs}]

    return rename


def _with_arguments(node: Node, arguments: list[Record]) -> Node:
    """The node with other positional arguments, passed as the ones that it has are."""
    kind = {key: value for key, value in node["inputs"][0].items() if key == "kind"}
    return {**node, "inputs": [{"name": "", "arg": argument, **kind} for argument in arguments]}


# ----------------------------------------------------------------------------------------------------------- cond


def cond_tuple_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.1 → 2.2: what a branch returns bare is a tuple of it."""
    tensors = [output["as_tensor"] for output in node["outputs"] if output.get("as_tensor") is not None]
    if len(tensors) == len(node["outputs"]):
        node = {**node, "outputs": [{"as_tensors": tensors}]}
    return [_with_branches(node, bare=False)]


def cond_tuple_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.2 → 2.1."""
    listed = node["outputs"][0].get("as_tensors") if len(node["outputs"]) == 1 else None
    if listed is None or len(listed) != 1:
        return [node]
    return [_with_branches({**node, "outputs": [{"as_tensor": listed[0]}]}, bare=True)]


def _with_branches(node: Node, *, bare: bool) -> Node:
    inputs = []
    for named in node["inputs"]:
        inner = named["arg"].get("as_graph")
        if inner is not None and len(inner["graph"]["outputs"]) == 1:
            graph = {**inner["graph"], "is_single_tensor_return": bare}
            inputs.append({**named, "arg": {"as_graph": {**inner, "graph": graph}}})
        else:
            inputs.append(named)
    return {**node, "inputs": inputs}


def cond_results_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.2 → 2.3: several results stand side by side; one stays a list of one."""
    listed = node["outputs"][0].get("as_tensors") if len(node["outputs"]) == 1 else None
    if listed is None or len(listed) < 2:
        return [node]
    return [{**node, "outputs": [{"as_tensor": tensor} for tensor in listed]}]


def cond_results_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.3 → 2.2."""
    tensors = [output["as_tensor"] for output in node["outputs"] if output.get("as_tensor") is not None]
    if len(tensors) < 2 or len(tensors) != len(node["outputs"]):
        return [node]
    return [{**node, "outputs": [{"as_tensors": tensors}]}]


# ------------------------------------------------------------------------------------------ map, while_loop, subgraph


def map_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.2 → 2.3: the mapped tensors and the others are two lists."""
    body, *rest = call_of(node)
    if not rest or rest[0].get("as_int") is None:
        return [node]
    count, tensors = rest[0]["as_int"], [argument["as_tensor"] for argument in rest[1:]]
    return [_with_arguments(node, [body, {"as_tensors": tensors[:count]}, {"as_tensors": tensors[count:]}])]


def map_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.3 → 2.2."""
    body, *rest = call_of(node)
    lists = [argument.get("as_tensors") for argument in rest]
    if len(lists) != 2 or lists[0] is None or lists[1] is None:
        return _not_that_form(node, where, report, Version(5, 1))
    tensors = [{"as_tensor": tensor} for tensor in (*lists[0], *lists[1])]
    return [_with_arguments(node, [body, {"as_int": len(lists[0])}, *tensors])]


def while_loop_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.3 → 2.4: the additional inputs, of which there were none."""
    arguments = call_of(node)
    return [_with_arguments(node, [*arguments, {"as_tensors": []}])] if len(arguments) == 3 else [node]


def while_loop_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.4 → 2.3."""
    arguments = call_of(node)
    if len(arguments) != 4 or arguments[3].get("as_tensors") != []:
        return _not_that_form(node, where, report, Version(5, 3))
    return [_with_arguments(node, arguments[:3])]


def invoke_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.7 → 2.8: operands side by side."""
    body, name, *operands = call_of(node)
    if len(operands) != 1 or operands[0].get("as_tensors") is None:
        return [node]
    return [_with_arguments(node, [body, name, *({"as_tensor": t} for t in operands[0]["as_tensors"])])]


def invoke_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.8 → 2.7."""
    body, name, *operands = call_of(node)
    if not all(arm_of(operand) == "as_tensor" for operand in operands):
        return _not_that_form(node, where, report, Version(8, 8))
    tensors = [operand["as_tensor"] for operand in operands]
    return [_with_arguments(node, [body, name, {"as_tensors": tensors}])]


def _not_that_form(node: Node, where: Where, report: Report, newer: Version) -> list[Node]:
    operator = node["target"].rpartition(".")[2]
    report(where.obstacle(f"{operator} with these arguments", first_release(newer)))
    return [node]


# ----------------------------------------------------------------------------------------------------------- scan


def scan_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.6 → 2.7: always along dimension 0, forward. Another dimension is moved to the front before; for the other
    direction the mapped tensors are flipped before, and the results of the steps after."""
    arguments = call_of(node)
    if len(arguments) != 6:
        return [node]
    body, init, xs, dim, reverse, additional = arguments
    before: list[Node] = []
    after: list[Node] = []
    tensors, outputs = xs["as_tensors"], node["outputs"]
    if dim["as_int"] != 0:
        tensors = [_moved(graph, node, tensor, dim["as_int"], before) for tensor in tensors]
    if reverse["as_bool"]:
        tensors = [_flipped(graph, node, tensor, before) for tensor in tensors]
        carried = len(init["as_tensors"])
        results = [_unflipped(graph, node, output, after) for output in outputs[carried:]]
        outputs = [*outputs[:carried], *results]
    node = _with_arguments(node, [body, init, {"as_tensors": tensors}, additional])
    return [*before, {**node, "outputs": outputs}, *after]


def scan_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.7 → 2.6."""
    arguments = call_of(node)
    if len(arguments) != 4:
        return _not_that_form(node, where, report, Version(8, 7))
    body, init, xs, additional = arguments
    return [_with_arguments(node, [body, init, xs, {"as_int": 0}, {"as_bool": False}, additional])]


def _moved(graph: NewValues, node: Node, tensor: Record, dim: int, before: list[Node]) -> Record:
    meta = graph.meta(tensor["name"])
    order = [
        dim % len(meta["sizes"]),
        *(i for i in range(len(meta["sizes"])) if i != dim % len(meta["sizes"])),
    ]
    permuted = {
        **meta,
        "sizes": [meta["sizes"][i] for i in order],
        "strides": [meta["strides"][i] for i in order],
    }
    name = graph.make_tensor(f"{tensor['name']}_moved", permuted)
    arguments = [("self", {"as_tensor": tensor}), ("source", {"as_int": dim}), ("destination", {"as_int": 0})]
    before.append(_call("torch.ops.aten.movedim.int", arguments, name, node))
    return {"name": name}


def _flipped(graph: NewValues, node: Node, tensor: Record, before: list[Node]) -> Record:
    name = graph.make_tensor(f"{tensor['name']}_flipped", graph.meta(tensor["name"]))
    before.append(_flip(tensor["name"], name, node))
    return {"name": name}


def _unflipped(graph: NewValues, node: Node, output: Record, after: list[Node]) -> Record:
    name = output["as_tensor"]["name"]
    if "_unused_" in name and not graph.uses(name):
        return output
    backward = graph.make_tensor(f"{name}_flipped", graph.meta(name))
    after.append(_flip(backward, name, node))
    return {"as_tensor": {"name": backward}}


def _flip(source: str, name: str, node: Node) -> Node:
    arguments = [("self", {"as_tensor": {"name": source}}), ("dims", {"as_ints": [0]})]
    return _call("torch.ops.aten.flip.default", arguments, name, node)


def _call(target: str, arguments: list[tuple[str, Any]], name: str, origin: Node) -> Node:
    """A node for one result, with the metadata of the node that it was made for."""
    return {
        "target": target,
        "inputs": [{"name": parameter, "arg": argument, "kind": 1} for parameter, argument in arguments],
        "outputs": [{"as_tensor": {"name": name}}],
        "metadata": dict(origin["metadata"]),
    }


# -------------------------------------------------------------------------------------------------- functionalization


def functionalized_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.10 → 2.9: auto_functionalized_v2 names each changed tensor by its place among `_all_bases`; auto_functionalized
    passes it under its own name. A changed tensor that is a view of its base has no older form."""
    named = {each["name"]: each["arg"] for each in node["inputs"]}
    bases = (named.get("_all_bases") or {}).get("as_tensors")
    inputs, used = [], []
    for each in node["inputs"]:
        name = each["name"]
        if not name.startswith("_"):
            inputs.append(each)
        elif name.endswith("_base_index") and bases is not None and each["arg"].get("as_int") is not None:
            used.append(each["arg"]["as_int"])
            arg = {"as_tensor": bases[each["arg"]["as_int"]]}
            inputs.append({"name": name[1 : -len("_base_index")], "arg": arg, "kind": each.get("kind", 2)})
        elif name != "_all_bases":
            return _not_that_form(node, where, report, Version(8, 15))
    if bases is None or used != list(range(len(bases))):
        return _not_that_form(node, where, report, Version(8, 15))
    return [{**node, "target": "torch.ops.higher_order.auto_functionalized", "inputs": inputs}]
