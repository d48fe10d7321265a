"""Converts graph signatures between the name maps of schema 1 and the specs of schema 2."""

from __future__ import annotations

from typing import Any

from graphwire import schema
from graphwire.evolve.documents import ROOT, Record, Refuse, arm_of, name_of
from graphwire.schema import Argument, InputSpec, OutputSpec, TensorArgument, value_name
from graphwire.schema.trees import to_tree

_PLACE = ROOT.at(".graph_module.signature")


def signature_up(signature: Record, graph: Record) -> Record:
    """Convert name maps to specs, in the order of the graph's inputs and outputs."""
    inputs, outputs = ([_bare(each) for each in graph[side]] for side in ("inputs", "outputs"))
    backward: Any = signature.get("backward_signature") or {}
    maps = schema.NameMaps(
        signature["inputs_to_parameters"],
        signature["inputs_to_buffers"],
        [name for each in inputs if (name := value_name(each)) is not None],  # those in no other map
        [name for each in outputs if (name := value_name(each)) is not None],
        signature["buffers_to_mutate"],
        schema.BackwardSignature(
            backward.get("loss_output"),
            backward.get("gradients_to_parameters", {}),
            backward.get("gradients_to_user_inputs", {}),
        ),
    )
    made = schema.signature_from_maps(maps, inputs, outputs)
    return {
        "input_specs": list(map(_spec_up, made.input_specs, graph["inputs"])),
        "output_specs": list(map(_spec_up, made.output_specs, graph["outputs"])),
    }


def _bare(argument: Record) -> Argument:
    """Return an argument of the current schema that refers to the same value; None for a literal."""
    name = name_of(argument)
    return Argument(as_none=True) if name is None else Argument(as_tensor=TensorArgument(name))


def _spec_up(spec: InputSpec | OutputSpec, argument: Record) -> Record:
    """Convert a spec to schema 2: user inputs and outputs keep their argument, and buffers lack `persistent`."""
    tree: Record = to_tree(spec)
    if "user_output" in tree:
        return {"user_output": {"arg": argument}}
    if "user_input" in tree or "constant_input" in tree:
        return {"user_input": {"arg": argument}}
    tree.get("buffer", {}).pop("persistent", None)
    return tree


_MAPS = {
    "parameter": ("inputs_to_parameters", "parameter_name"),
    "buffer": ("inputs_to_buffers", "buffer_name"),
    "tensor_constant": ("inputs_to_buffers", "tensor_constant_name"),
    "buffer_mutation": ("buffers_to_mutate", "buffer_name"),
    "gradient_to_parameter": ("gradients_to_parameters", "parameter_name"),
    "gradient_to_user_input": ("gradients_to_user_inputs", "user_input_name"),
}
"""The map that holds a kind of specs, and the field of the spec with the target of its value."""


def signature_down(signature: Record, refuse: Refuse) -> Record:
    """Convert specs to name maps."""
    maps: dict[str, Any] = {
        "inputs_to_parameters": {},
        "inputs_to_buffers": {},
        "user_inputs": [],
        "user_outputs": [],
        "buffers_to_mutate": {},
        "backward_signature": None,
    }
    backward: dict[str, Any] = {
        "gradients_to_parameters": {},
        "gradients_to_user_inputs": {},
        "loss_output": "",
    }
    tables, changes_late = maps | backward, False
    for side in ("input", "output"):
        users = maps[f"user_{side}s"]
        for index, spec in enumerate(signature[f"{side}_specs"]):
            where = _PLACE.at(f".{side}_specs[{index}]")
            arm = arm_of(spec)
            argument: Any = spec[arm].get("arg") if arm else None
            if arm == "buffer_mutation":
                changes_late = changes_late or bool(users)
                if "." in spec[arm]["buffer_name"]:
                    refuse(where, "a changed buffer of a submodule, which 2.1 loses")
                if argument["name"] in maps["buffers_to_mutate"]:
                    refuse(where, "one value as the new content of two buffers")
            if arm in _MAPS:
                table, target = _MAPS[arm]
                tables[table][argument["name"]] = spec[arm][target]
            elif arm == f"user_{side}":
                name = name_of(argument)
                if name is None:
                    refuse(where, f"an {side} that is a literal")
                users.append(name or "")
            elif arm == "loss_output":
                backward["loss_output"] = argument["name"]
                users.append(argument["name"])
            else:
                refuse(where, f"an {side} of the kind {arm}")
    if any(backward.values()):
        maps["backward_signature"] = backward
        refuse(_PLACE, "gradients as outputs, which 2.1 writes but cannot read")
    if changes_late:
        refuse(_PLACE, "a changed buffer after the program's own outputs")
    return maps
