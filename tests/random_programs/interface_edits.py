"""Edits of what a program takes, holds and returns, with its signature."""

from __future__ import annotations

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.utils import _pytree as pytree

from random_programs.editing import Editing, is_float, is_tensor

__all__ = ["EDITS"]


def add_output(editing: Editing) -> str | None:
    """Return one more value, anywhere among the others, as a flat tuple."""
    program = editing.program
    entry = program.module_call_graph[0].signature
    node = editing.pick(is_tensor) if editing.top and entry is not None else None
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
        value.to(torch.complex128 if value.is_complex() else torch.float64).mul(2).to(value.dtype),
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


def reorder_outputs(editing: Editing) -> str | None:
    """Exchange two of the values that a program returns."""
    specs = editing.program.graph_signature.output_specs
    users = [index for index, spec in enumerate(specs) if spec.kind is OutputKind.USER_OUTPUT]
    if not editing.top or len(users) < 2:
        return None
    one, other = editing.chance.sample(users, 2)
    output = editing.nodes[-1]
    values = list(output.args[0])
    values[one], values[other] = values[other], values[one]
    specs[one], specs[other] = specs[other], specs[one]
    output.args = (tuple(values),)
    output.meta.pop("val", None)
    _follow(editing)
    return f"outputs {one} and {other} are exchanged"


def remove_output(editing: Editing) -> str | None:
    """Return one value less, as a flat tuple."""
    program = editing.program
    specs, entry = program.graph_signature.output_specs, program.module_call_graph[0].signature
    users = [index for index, spec in enumerate(specs) if spec.kind is OutputKind.USER_OUTPUT]
    if not editing.top or entry is None or len(users) < 2:
        return None
    at = editing.chance.choice(users)
    output = editing.nodes[-1]
    output.args = (tuple(value for index, value in enumerate(output.args[0]) if index != at),)
    output.meta.pop("val", None)
    del specs[at]
    entry.out_spec = pytree.tree_flatten(tuple(range(len(users) - 1)))[1]
    _follow(editing)
    return f"output {at} is returned no more"


def _follow(editing: Editing) -> None:
    """Let the call of the whole program take and return what the signature says."""
    program = editing.program
    entry = program.module_call_graph[0].signature
    if entry is not None:
        signature = program.graph_signature
        entry.outputs = [spec.arg for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
        entry.inputs = [spec.arg for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]


def _set_arguments(editing: Editing, count: int) -> None:
    """Let the program take so many positional arguments."""
    program = editing.program
    entry = program.module_call_graph[0].signature
    assert entry is not None
    entry.in_spec = pytree.tree_flatten((tuple(range(count)), {}))[1]
    entry.forward_arg_names = None
    program._example_inputs = None
    program._guards_code = []
    _follow(editing)


def _arguments(editing: Editing) -> list[int] | None:
    """Where the program's arguments are among its inputs, where it takes nothing but tensors by position."""
    program = editing.program
    entry = program.module_call_graph[0].signature
    specs = program.graph_signature.input_specs
    found = [index for index, spec in enumerate(specs) if spec.kind is InputKind.USER_INPUT]
    flat = pytree.tree_flatten((tuple(found), {}))[1]
    return found if editing.top and entry is not None and entry.in_spec == flat else None


def remove_input(editing: Editing) -> str | None:
    """Take one argument less, of those that nothing uses."""
    found = _arguments(editing)
    specs = editing.program.graph_signature.input_specs
    places = [at for at in found or () if not editing.nodes[at].users]
    if found is None or not places:
        return None
    at = editing.chance.choice(places)
    del specs[at]
    editing.graph.erase_node(editing.nodes[at])
    _set_arguments(editing, len(found) - 1)
    return f"input {at} is taken no more"


def insert_input(editing: Editing) -> str | None:
    """Take one argument more, like another one, and add it to a value or not."""
    found = _arguments(editing)
    node = editing.pick(lambda each: is_float(each) and each.op == "call_function" and each.users)
    if found is None or node is None or not found:
        return None
    with editing.graph.inserting_before(editing.nodes[len(editing.program.graph_signature.input_specs)]):
        made = editing.graph.placeholder(editing.chance.choice(["more", "x_1", "args", "arg0_1"]))
    made.target = made.name
    made.meta = {"val": node.meta["val"]}
    editing.program.graph_signature.input_specs.append(
        InputSpec(InputKind.USER_INPUT, TensorArgument(made.name), None)
    )
    _set_arguments(editing, len(found) + 1)
    if editing.chance.random() < 0.7:
        with editing.graph.inserting_after(node):
            used = editing.graph.call_function(torch.ops.aten.add.Tensor, (node, made))
        used.meta = dict(node.meta)
        editing.rewire(node, used)
    return f"the argument {made} is taken"


def add_state(editing: Editing) -> str | None:
    """Hold one parameter or buffer more, which a value is multiplied with."""
    node = editing.pick(lambda each: is_float(each) and each.op == "call_function" and each.users)
    if node is None or not editing.top:
        return None
    program, path = editing.program, editing.chance.choice(["gain", "deep.gain", "linear.gain", "w"])
    is_buffer = editing.chance.random() < 0.5
    if path in program.state_dict or path in program.constants:
        return None
    value = torch.full((), 2.0)
    with editing.graph.inserting_before(editing.nodes[0]):
        made = editing.graph.placeholder(f"{'b' if is_buffer else 'p'}_{path.replace('.', '_')}")
    made.target = made.name
    made.meta = {"val": node.meta["val"].fake_mode.from_tensor(value, static_shapes=True)}
    is_kept = editing.chance.random() < 0.6
    program.graph_signature.input_specs.insert(
        0,
        InputSpec(
            InputKind.BUFFER if is_buffer else InputKind.PARAMETER,
            TensorArgument(made.name),
            path,
            is_kept if is_buffer else None,
        ),
    )
    held = program.constants if is_buffer and not is_kept else program.state_dict
    held[path] = value if is_buffer else torch.nn.Parameter(value)
    with editing.graph.inserting_after(node):
        used = editing.graph.call_function(torch.ops.aten.mul.Tensor, (node, made))
    used.meta = dict(node.meta)
    editing.rewire(node, used)
    return f"{path} is held, and {node} is multiplied with it"


def forget_state(editing: Editing) -> str | None:
    """Drop an entry of the state dict, whether something uses it or not."""
    state = editing.program.state_dict
    if not state:
        return None
    name = editing.chance.choice(sorted(state))
    del state[name]
    return f"{name} is dropped"


def tie_state(editing: Editing) -> str | None:
    """Let two entries of the state dict be one, or views of one."""
    state = editing.program.state_dict
    pairs = [
        (a, b) for a in sorted(state) for b in sorted(state) if a < b and state[a].shape == state[b].shape
    ]
    if not pairs:
        return None
    one, other = editing.chance.choice(pairs)
    state[other] = state[one] if editing.chance.random() < 0.5 else state[one].detach().view_as(state[one])
    return f"{other} is {one}"


EDITS = (
    add_output,
    remove_unused_state,
    replace_state,
    reorder_outputs,
    remove_output,
    remove_input,
    insert_input,
    add_state,
    forget_state,
    tie_state,
)
