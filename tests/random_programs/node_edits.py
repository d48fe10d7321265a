"""Edits of nodes: copied, moved, inserted, erased, retargeted, renamed."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule, Node

from random_programs.editing import Editing, is_float, is_pure, is_reader, is_tensor

__all__ = ["EDITS"]

aten = torch.ops.aten

_UNARY = (aten.neg.default, aten.sin.default, aten.relu.default, aten.clone.default, aten.abs.default)
_RETARGETED: Mapping[Any, Any] = MappingProxyType(
    {
        aten.add.Tensor: aten.sub.Tensor,
        aten.sub.Tensor: aten.add.Tensor,
        aten.mul.Tensor: aten.add.Tensor,
        aten.sin.default: aten.cos.default,
        aten.cos.default: aten.sin.default,
        aten.relu.default: aten.sigmoid.default,
        aten.add_.Tensor: aten.add.Tensor,
        aten.unsqueeze.default: aten.unsqueeze_copy.default,
        aten.view.default: aten.reshape.default,
        operator.add: operator.mul,
        operator.mul: operator.add,
    }
)
_NAMES = (
    *(
        "x",
        "getitem",
        "p_weight",
        "s0",
        "s77",
        "u0",
        "output",
        "class",
        "lambda",
        "print",
        "len",
        "range",
        "torch",
    ),
    *(
        "true_graph_0",
        "a_1",
        "a_1_1",
        "_",
        "x_0",
        "inf",
        "nan",
        "topk_unused_0",
        "results",
        "operator",
        "device",
    ),
)


def duplicate(editing: Editing, accepts: Callable[[Node], bool] = is_pure) -> str | None:
    """Copy a node to any place where the copy may stand, and let some users use it."""
    node = editing.pick(lambda each: accepts(each) and each.users)
    if node is None:
        return None
    last = max(editing.places[user] for user in node.users)
    first = editing.earliest(node)
    place = editing.chance.randint(first, max(first, last))
    with editing.graph.inserting_before(editing.nodes[place]):
        other = editing.graph.node_copy(node)
    other.meta = copy.copy(node.meta)
    users = editing.rewire(node, other, place)
    if not users:
        editing.graph.erase_node(other)
        return None
    return f"{node} is copied to {other} for {users}"


def duplicate_reader(editing: Editing) -> str | None:
    """Copy a node that reads an element or an attribute."""
    return duplicate(editing, is_reader)


def use_early(editing: Editing) -> str | None:
    """Let a new node use a reader directly behind it, in front of other users."""
    node = editing.pick(lambda each: is_reader(each) and is_float(each))
    if node is None:
        return None
    with editing.graph.inserting_after(node):
        other = editing.graph.call_function(aten.mul.Tensor, (node, 1.0))
    other.meta = copy.copy(node.meta)
    return f"{other} uses {node} for {editing.rewire(node, other)}"


def move(editing: Editing, accepts: Callable[[Node], bool] = is_pure) -> str | None:
    """Move a node to any place where it may stand."""
    node = editing.pick(accepts)
    if node is None:
        return None
    last = min((editing.places[user] for user in node.users), default=len(editing.nodes) - 1)
    target = editing.nodes[editing.chance.randint(editing.earliest(node), last)]
    if target is node:
        return None
    target.prepend(node)
    return f"{node} is moved in front of {target}"


def move_reader(editing: Editing) -> str | None:
    """Move a node that reads an element or an attribute."""
    return move(editing, is_reader)


def insert(editing: Editing) -> str | None:
    """Insert a call of an operator with one tensor."""
    node = editing.pick(is_float)
    if node is None:
        return None
    place = editing.places[node] + 1
    while editing.nodes[place].op == "placeholder":
        place += 1
    with editing.graph.inserting_before(editing.nodes[place]):
        other = editing.graph.call_function(editing.chance.choice(_UNARY), (node,))
    other.meta = copy.copy(node.meta)
    return f"{other} is put behind {node} for {editing.rewire(node, other, place)}"


def insert_reader(editing: Editing) -> str | None:
    """Insert another reader of an element, used or not."""
    node = editing.pick(lambda each: isinstance(each.meta.get("val"), (list, tuple)) and each.meta["val"])
    if node is None or node.op == "output":
        return None
    index = editing.chance.randrange(len(node.meta["val"]))
    place = editing.earliest(node) + editing.places[node] * 0
    with editing.before(max(place, editing.places[node] + 1), len(editing.nodes) - 1):
        other = editing.graph.call_function(operator.getitem, (node, index))
    other.meta = {**node.meta, "val": node.meta["val"][index]}
    return f"{other} reads element {index} of {node}"


def insert_constant(editing: Editing) -> str | None:
    """Replace a value for some users by a constant tensor that the graph reads of its module."""
    node = editing.pick(
        lambda each: is_float(each) and each.users and all(type(s) is int for s in each.meta["val"].shape)
    )
    if node is None:
        return None
    kind = editing.chance.randrange(3)
    name = editing.chance.choice(["_folded", "_folded_constant", "kept.inner", "kept.deep.er", "x_value"])
    owner: Any = editing.module
    *path, last = name.split(".")
    for part in path:
        if not hasattr(owner, part):
            owner.add_module(part, torch.nn.Module())
        owner = getattr(owner, part)
    if not hasattr(owner, last):
        value = node.meta["val"]
        tensor = torch.arange(value.numel(), dtype=value.dtype).reshape(value.shape)
        if kind == 0:
            owner.register_buffer(last, tensor)
        elif kind == 1:
            owner.register_parameter(last, torch.nn.Parameter(tensor))
        else:
            setattr(owner, last, tensor)
    held = getattr(owner, last)
    if held.shape != node.meta["val"].shape:
        return None
    place = editing.earliest(node)
    with editing.graph.inserting_before(editing.nodes[place]):
        other = editing.graph.create_node(
            "get_attr", name, name=editing.chance.choice([None, "folded", "constant"])
        )
    other.meta = {"val": node.meta["val"]} if editing.chance.random() < 0.7 else {}
    return f"{other} reads the new {name} in place of {node} for {editing.rewire(node, other, place)}"


def insert_arithmetic(editing: Editing) -> str | None:
    """Insert arithmetic of Python on a symbolic number."""
    node = editing.pick(lambda each: each.op != "output" and isinstance(each.meta.get("val"), torch.SymInt))
    if node is None:
        return None
    place = editing.earliest(node) if node.op == "placeholder" else editing.places[node] + 1
    with editing.graph.inserting_before(editing.nodes[place]):
        other = editing.graph.call_function(operator.add, (node, 0))
    other.meta = {**node.meta, "val": node.meta["val"] + 0}
    return f"{other} adds nothing to {node} for {editing.rewire(node, other, place)}"


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are surely of one shape and type; of a size that only a run knows nothing is asked."""
    return one.dtype == other.dtype and list(map(str, one.shape)) == list(map(str, other.shape))


def erase(editing: Editing) -> str | None:
    """Let an input of a node stand in its place, where both are alike, and remove it."""

    def stand_in(node: Node) -> Node | None:
        if not (is_pure(node) and is_tensor(node)):
            return None
        value = node.meta["val"]
        alike = [
            each for each in node.all_input_nodes if is_tensor(each) and _are_alike(each.meta["val"], value)
        ]
        return alike[0] if alike else None

    node = editing.pick(lambda each: stand_in(each) is not None)
    if node is None:
        return None
    other = stand_in(node)
    assert other is not None
    for user in list(node.users):
        if user.op == "output" and editing.top:
            editing.replace_output(user, node, other)
        else:
            user.replace_input_with(node, other)
    editing.graph.erase_node(node)
    return f"{other} stands in the place of {node}"


def retarget(editing: Editing) -> str | None:
    """Let a node call another operator with the same arguments."""
    node = editing.pick(lambda each: each.op == "call_function" and each.target in _RETARGETED)
    if node is None:
        return None
    node.target = _RETARGETED[node.target]
    return f"{node} calls {node.target}"


def call_by_keywords(editing: Editing) -> str | None:
    """Let a node pass all arguments by keyword, in any order."""
    node = editing.pick(lambda each: isinstance(each.target, torch._ops.OpOverload))
    if node is None:
        return None
    names = [each.name for each in node.target._schema.arguments]
    arguments = [*dict(zip(names, node.args, strict=False)).items(), *node.kwargs.items()]
    editing.chance.shuffle(arguments)
    node.args, node.kwargs = (), dict(arguments)
    return f"{node} takes {node.kwargs}"


def rename(editing: Editing) -> str | None:
    """Give a node another name."""
    node = editing.pick(lambda each: each.op != "output")
    if node is None:
        return None
    others = [each.name for each in editing.nodes]
    name = editing.chance.choice(
        [*_NAMES, editing.chance.choice(others), f"{editing.chance.choice(others)}_1"]
    )
    old = node.name
    editing.rename(node, name)
    return f"{old} is renamed to {node}"


def replace_subgraph(editing: Editing) -> str | None:
    """Put another graph, or the same once more under another name, where a subgraph is."""
    node = editing.pick(
        lambda e: e.op == "get_attr" and isinstance(getattr(editing.module, str(e.target), None), GraphModule)
    )
    if node is None:
        return None
    subgraph = getattr(editing.module, str(node.target))
    if editing.chance.random() < 0.5:
        setattr(editing.module, str(node.target), copy.deepcopy(subgraph))
        return f"{node.target} is copied"
    name = editing.chance.choice(["again", "true_graph_9", "sub_graph"])
    if hasattr(editing.module, name):
        return None
    setattr(editing.module, name, subgraph)
    node.target = name
    return f"{node} reads {name}"


EDITS = (
    duplicate,
    duplicate_reader,
    use_early,
    move,
    move_reader,
    insert,
    insert_reader,
    insert_constant,
    insert_arithmetic,
    erase,
    retarget,
    call_by_keywords,
    rename,
    replace_subgraph,
)
