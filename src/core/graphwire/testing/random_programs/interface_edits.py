"""Edits of what a program takes, holds and returns, with its signature."""

from __future__ import annotations

import torch
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.utils import _pytree as pytree

from graphwire.testing.random_programs.editing import Editing, is_tensor

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


EDITS = (
    add_output,
    remove_unused_state,
    replace_state,
)
