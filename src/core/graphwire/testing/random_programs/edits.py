"""Random edits of exported programs: what people do to a graph with FX passes, one small step each.

    done = edit(program, random.Random(7), count=4)

Each step keeps the rules of FX (`graph.lint` passes) and those of `ExportedProgram` that its own verifier checks; a step may
leave values that the graph states wrongly, as passes do. What was done is told as text.
"""

from __future__ import annotations

import copy
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

__all__ = ["EDITS", "Editing", "edit"]

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


class Editing:
    """A program that is being edited, one of its graphs, and the source of chance."""

    def __init__(self, program: ExportedProgram, chance: random.Random) -> None:
        self.program, self.chance = program, chance
        owners = [owner for owner in program.graph_module.modules() if isinstance(owner, GraphModule)]
        self.module = program.graph_module if chance.random() < 0.6 else chance.choice(owners)
        self.graph = self.module.graph
        self.nodes = list(self.graph.nodes)
        self.places = {node: index for index, node in enumerate(self.nodes)}

    @property
    def top(self) -> bool:
        """Whether the graph is the program's own, whose inputs and outputs have a signature."""
        return self.module is self.program.graph_module

    def pick(self, accepts: Callable[[Node], Any]) -> Node | None:
        """A random node of those that `accepts` accepts; None where there is none."""
        found = [node for node in self.nodes if accepts(node)]
        return self.chance.choice(found) if found else None

    def earliest(self, node: Node) -> int:
        """The first place where a node may stand: behind the placeholders and what it reads."""
        inputs = [self.places[each] for each in node.all_input_nodes]
        return max([*inputs, *(i for i, n in enumerate(self.nodes) if n.op == "placeholder")], default=-1) + 1

    def before(self, first: int, last: int) -> Any:
        """A place between two, as what `graph.inserting_before` gives."""
        return self.graph.inserting_before(self.nodes[self.chance.randint(first, max(first, last))])

    def rewire(self, node: Node, other: Node, least: int = 0) -> list[Node]:
        """Let some users of `node` use `other`, which stands in the place `least` of the nodes."""
        users = [user for user in node.users if user is not other and self.places.get(user, -1) >= least]
        chosen = [user for user in users if self.chance.random() < 0.6] or users[:1]
        for user in chosen:
            if user.op != "output" or not self.top or user is not self.nodes[-1]:
                user.replace_input_with(node, other)
            else:
                self._replace_output(user, node, other)
        return chosen

    def _replace_output(self, output: Node, node: Node, other: Node) -> None:
        specs = self.program.graph_signature.output_specs
        for position, value in enumerate(output.args[0]):
            if value is node and hasattr(specs[position].arg, "name"):
                specs[position].arg.name = other.name
        output.replace_input_with(node, other)

    def rename(self, node: Node, name: str) -> None:
        """Give a node a name that FX makes of `name`, in the signature too."""
        old = node.name
        node._rename(name)
        if not self.top:
            return
        if node.op == "placeholder":
            node.target = node.name
        signature = self.program.graph_signature
        for spec in (*signature.input_specs, *signature.output_specs):
            if getattr(spec.arg, "name", None) == old:
                spec.arg.name = node.name
            if (
                isinstance(spec, OutputSpec)
                and spec.kind is OutputKind.USER_INPUT_MUTATION
                and spec.target == old
            ):
                spec.target = node.name


def _is_tensor(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op != "output" and isinstance(value, torch.Tensor) and value.layout is torch.strided


def _is_float(node: Node) -> bool:
    return _is_tensor(node) and node.meta["val"].dtype is torch.float32


def _is_reader(node: Node) -> bool:
    return node.op == "get_attr" or node.target is operator.getitem


def _is_pure(node: Node) -> bool:
    return node.op in ("call_function", "get_attr") and not node.is_impure()


def duplicate(editing: Editing, accepts: Callable[[Node], bool] = _is_pure) -> str | None:
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
    return duplicate(editing, _is_reader)


def use_early(editing: Editing) -> str | None:
    """Let a new node use a reader directly behind it, in front of other users."""
    node = editing.pick(lambda each: _is_reader(each) and _is_float(each))
    if node is None:
        return None
    with editing.graph.inserting_after(node):
        other = editing.graph.call_function(aten.mul.Tensor, (node, 1.0))
    other.meta = copy.copy(node.meta)
    return f"{other} uses {node} for {editing.rewire(node, other)}"


def move(editing: Editing, accepts: Callable[[Node], bool] = _is_pure) -> str | None:
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
    return move(editing, _is_reader)


def insert(editing: Editing) -> str | None:
    """Insert a call of an operator with one tensor."""
    node = editing.pick(_is_float)
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
        lambda each: _is_float(each) and each.users and all(type(s) is int for s in each.meta["val"].shape)
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


def erase(editing: Editing) -> str | None:
    """Let an input of a node stand in its place, where both are alike, and remove it."""

    def stand_in(node: Node) -> Node | None:
        if not (_is_pure(node) and _is_tensor(node)):
            return None
        value = node.meta["val"]
        alike = [
            each
            for each in node.all_input_nodes
            if _is_tensor(each)
            and each.meta["val"].shape == value.shape
            and each.meta["val"].dtype == value.dtype
        ]
        return alike[0] if alike else None

    node = editing.pick(lambda each: stand_in(each) is not None)
    if node is None:
        return None
    other = stand_in(node)
    assert other is not None
    for user in list(node.users):
        if user.op == "output" and editing.top:
            editing._replace_output(user, node, other)
        else:
            user.replace_input_with(node, other)
    editing.graph.erase_node(node)
    return f"{other} stands in the place of {node}"


def eliminate_dead_code(editing: Editing) -> str:
    """Remove what nothing uses."""
    return f"dead code is removed: {editing.graph.eliminate_dead_code()}"


def eliminate_common_subexpressions(editing: Editing) -> str | None:
    """Let equal calls be one, as torch's pass does."""
    from torch.fx.passes.dialect.common.cse_pass import CSEPass

    if editing.top or any(node.op == "get_attr" for node in editing.nodes):
        seen: dict[Any, Node] = {}
        for node in editing.nodes:
            if not _is_pure(node) or node.op != "call_function":
                continue
            key = repr((node.target, node.args, node.kwargs))
            if (known := seen.setdefault(key, node)) is not node:
                for user in list(node.users):
                    if user.op == "output" and editing.top:
                        editing._replace_output(user, node, known)
                    else:
                        user.replace_input_with(node, known)
                editing.graph.erase_node(node)
        return "equal calls are one"
    changed = CSEPass()(editing.module)
    if changed is not None and changed.modified:
        editing.module.graph = changed.graph_module.graph
    return "equal calls are one, by torch's pass"


def retarget(editing: Editing) -> str | None:
    """Let a node call another operator with the same arguments."""
    node = editing.pick(lambda each: each.op == "call_function" and each.target in _RETARGETED)
    if node is None:
        return None
    node.target = _RETARGETED[node.target]
    return f"{node} calls {node.target}"


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


def edit_metadata(editing: Editing) -> str | None:
    """Change, remove or share what is noted of a node."""
    node = editing.pick(lambda _: True)
    if node is None:
        return None
    other = editing.pick(lambda each: each.op == node.op) or node
    value = node.meta.get("val")
    kind = editing.chance.randrange(9)
    if kind == 0 and node.op not in ("placeholder", "output"):
        node.meta.pop("val", None)
    elif (
        kind == 1
        and node.op != "output"
        and isinstance(value, torch.Tensor)
        and value.layout is torch.strided
    ):
        with value.fake_mode if hasattr(value, "fake_mode") else torch.device("meta"):
            node.meta["val"] = torch.empty([3, *value.shape], dtype=torch.float64)
    elif kind == 2:
        node.meta.pop("stack_trace", None)
    elif kind == 3:
        node.meta["odd"] = object()
        node.meta["tensor_meta"] = {1: 2}
    elif kind == 4:
        node.meta["custom"] = {"note": [1, "two", None, {"three": 3.5}]}
    elif kind == 5:
        shared = {key: held for key, held in other.meta.items() if key != "val"} | {"val": value}
        node.meta = other.meta = shared if other is node else node.meta
    elif kind == 6:
        node.meta["stack_trace"] = editing.chance.choice(
            ["", "no trace", '  File "a, b", line 3, in f\n    x = 1\n']
        )
    elif kind == 7:
        node.meta = {"val": value} if value is not None else {}
    elif kind == 8:
        node.meta["nn_module_stack"] = {"a": ("L['self'].a,b", torch.nn.Linear), "b;c": ("", "x.Y")}
    return f"what is noted of {node} is edited ({kind})"


def add_output(editing: Editing) -> str | None:
    """Return one more value, anywhere among the others, as a flat tuple."""
    program = editing.program
    entry = program.module_call_graph[0].signature
    node = editing.pick(_is_tensor) if editing.top and entry is not None else None
    output = editing.nodes[-1]
    if node is None or node.op == "placeholder" or entry is None:
        return None
    specs = program.graph_signature.output_specs
    users = [index for index, spec in enumerate(specs) if spec.kind is OutputKind.USER_OUTPUT]
    at = editing.chance.choice([*users, len(specs)])
    values = list(output.args[0])
    values.insert(at, node)
    output.args = (tuple(values),)
    specs.insert(at, OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None))
    entry.out_spec = pytree.tree_flatten(tuple(range(len(users) + 1)))[1]
    entry.outputs = [spec.arg for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    output.meta.pop("val", None)
    return f"{node} is returned as {at}"


def remove_unused_state(editing: Editing) -> str | None:
    """Remove a parameter or buffer that nothing uses, with its input."""
    program = editing.program
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    node = editing.pick(lambda each: editing.top and each.name in held and not each.users)
    if node is None:
        return None
    signature.input_specs[:] = [s for s in signature.input_specs if getattr(s.arg, "name", None) != node.name]
    program.state_dict.pop(held[node.name], None)
    program.constants.pop(held[node.name], None)
    editing.graph.erase_node(node)
    return f"{held[node.name]} is removed"


def replace_state(editing: Editing) -> str | None:
    """Put another tensor into the state dict."""
    state = editing.program.state_dict
    names = sorted(state)
    if not names:
        return None
    name, other = editing.chance.choice(names), editing.chance.choice(names)
    value, kind = state[name].detach(), editing.chance.randrange(4)
    changed = (
        value * 2,
        value.to(torch.float64),
        value.clone().t() if value.dim() == 2 else value.clone(),
        None,
    )[kind]
    if changed is None:
        state[name] = state[other] if state[other].shape == value.shape else state[name]
    elif isinstance(state[name], torch.nn.Parameter):
        state[name] = torch.nn.Parameter(changed, requires_grad=state[name].requires_grad)
    else:
        state[name] = changed
    return f"{name} is replaced ({kind})"


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


EDITS: Mapping[str, Callable[[Editing], str | None]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            *(
                duplicate,
                duplicate_reader,
                use_early,
                move,
                move_reader,
                insert,
                insert_reader,
                insert_constant,
            ),
            *(
                insert_arithmetic,
                erase,
                eliminate_dead_code,
                eliminate_common_subexpressions,
                retarget,
                rename,
            ),
            *(edit_metadata, add_output, remove_unused_state, replace_state, replace_subgraph),
        )
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
        editing.graph.lint()
    for owner in program.graph_module.modules():
        if isinstance(owner, GraphModule):
            owner.recompile()
    return done
