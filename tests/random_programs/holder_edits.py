"""Edits of what programs, graphs and nodes have beside what they compute."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.export import graph_signature
from torch.fx.graph import CodeGen
from torch.fx.passes.shape_prop import ShapeProp

from random_programs.editing import Editing

__all__ = ["EDITS"]


class _Code(CodeGen):
    """A generator of code of one's own."""


_TEXTS = ("x", "", "a.b", "other_7", "output", "class")


def edit_arguments(editing: Editing) -> str | None:
    """Give a node that takes no arguments some, by position or by keyword."""
    node = editing.pick(lambda each: each.op != "call_function")
    if node is None:
        return None
    if editing.chance.random() < 0.5 and node.op != "output":
        node.args = (editing.chance.choice([None, 1, "x"]),)
    else:
        node.kwargs = {"nobodys": editing.chance.choice([None, 1, "x"])}
    return f"{node} takes {node.args} and {node.kwargs}"


def edit_target(editing: Editing) -> str | None:
    """Give an input or the output another target, that the code can have."""
    node = editing.pick(lambda each: each.op in ("placeholder", "output"))
    target = editing.chance.choice(["output", "other_7", "mul", "P"])
    if node is None or any(each.target == target for each in editing.nodes):
        return None
    node.target = target
    return f"{node} has the target {node.target!r}"


def rename_output(editing: Editing) -> str:
    """Give the output another name."""
    node = editing.nodes[-1]
    node._rename(editing.chance.choice(_TEXTS) or "x")
    return f"the output is {node}"


def set_type(editing: Editing) -> str | None:
    """Note the type of a node."""
    node = editing.pick(lambda _: True)
    if node is None:
        return None
    node.type = editing.chance.choice([None, torch.Tensor, int, "Tensor", tuple[int, int]])
    return f"{node} has the type {node.type}"


def note_on_a_module(editing: Editing) -> str:
    """Note something of a graph's module."""
    key = editing.chance.choice(["custom", "val", "own", "stack_trace", "nn_module_stack"])
    editing.module.meta[key] = {"note": [1, "two"]}
    return f"{key} is noted of a {'' if editing.top else 'sub'}graph's module"


def edit_spec(editing: Editing) -> str | None:
    """Change a field of a spec in the signature."""
    signature: Any = editing.program.graph_signature
    spec = editing.chance.choice([*signature.input_specs, *signature.output_specs])
    kind = editing.chance.randrange(5)
    if kind == 0:
        spec.target = editing.chance.choice([None, *_TEXTS, *editing.program.state_dict])
    elif kind == 1 and hasattr(spec, "persistent"):
        spec.persistent = editing.chance.choice([None, True, False])
    elif kind == 2:
        spec.arg = dataclasses.replace(spec.arg, name=editing.chance.choice([spec.arg.name, *_TEXTS]))
    elif kind == 3:
        made = editing.chance.choice(
            ["TensorArgument", "SymIntArgument", "SymFloatArgument", "SymBoolArgument", "TokenArgument"]
        )
        spec.arg = getattr(graph_signature, made)(spec.arg.name)
    elif kind == 4:
        spec.arg = graph_signature.ConstantArgument(
            spec.arg.name, editing.chance.choice([None, 1, True, 0.5, "x", float("nan")])
        )
    return f"a spec is {spec}"


def edit_call(editing: Editing) -> str | None:
    """Change what the call of the whole program says of its arguments."""
    entry: Any = editing.program.module_call_graph[0].signature
    kind = editing.chance.randrange(3)
    if kind == 0:
        entry.forward_arg_names = editing.chance.choice([None, [], ["x"], ["a", "b"]])
    elif kind == 1 and entry.outputs:
        entry.outputs = entry.outputs[::-1]
    elif kind == 2 and entry.inputs:
        entry.inputs = entry.inputs[::-1]
    return f"the call is {kind} of {entry}"[:200]


def edit_examples(editing: Editing) -> str:
    """Let the program have other example inputs."""
    given = editing.chance.choice([None, ((), {}), ((torch.ones(2),), {}), ((torch.ones(3, 4),), {"y": 1})])
    editing.program._example_inputs = given
    return f"the example inputs are {given}"


def propagate_shapes(editing: Editing) -> str | None:
    """Note the shapes of values, as torch's pass does."""
    given = [node.meta.get("val") for node in editing.nodes if node.op == "placeholder"]
    mode = next((value.fake_mode for value in given if hasattr(value, "fake_mode")), None)
    if mode is None:
        return None
    try:
        ShapeProp(editing.module, mode).propagate(*given)
    except Exception as error:  # an earlier edit left what no operator takes
        return f"shapes are propagated up to a {type(error).__name__}"
    return "shapes are propagated"


def tag(editing: Editing) -> str:
    """Give nodes a mark of one's own, as those who split graphs do."""
    for node in editing.nodes[::2]:
        node.tag = "a"
    return "nodes have tags"


def generate_other_code(editing: Editing) -> str:
    """Let the code of a graph be made otherwise."""
    if editing.chance.random() < 0.5:
        editing.graph.set_codegen(_Code())
    else:
        editing.graph.on_generate_code(lambda _: lambda lines: ["# somebody's own\n", *lines])
    return "the code is generated otherwise"


EDITS = (
    tag,
    generate_other_code,
    edit_arguments,
    edit_target,
    rename_output,
    set_type,
    note_on_a_module,
    edit_spec,
    edit_call,
    edit_examples,
    propagate_shapes,
)
