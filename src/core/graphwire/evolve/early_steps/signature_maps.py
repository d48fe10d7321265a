"""Converts graph signatures between the name maps of schema 1 and the specs of schema 2."""

from __future__ import annotations

from typing import Any

from graphwire.evolve.documents import ROOT, Record, Report, Where, arm_of, name_of
from graphwire.schema import (
    Argument,
    BackwardSignature,
    InputSpec,
    NameMaps,
    OutputSpec,
    TensorArgument,
    signature_from_maps,
    value_name,
)
from graphwire.schema.trees import to_tree

_FIRST = "torch-2.2"
_PLACE = ROOT.at(".graph_module.signature")


def signature_up(signature: Record, graph: Record) -> Record:
    """Convert name maps to specs, in the order of the graph's inputs and outputs."""
    inputs, outputs = ([_bare(each) for each in graph[side]] for side in ("inputs", "outputs"))
    backward: Record = signature.get("backward_signature") or {}
    loss: Any = backward.get("loss_output")
    maps = NameMaps(
        signature["inputs_to_parameters"],
        signature["inputs_to_buffers"],
        [name for each in inputs if (name := value_name(each)) is not None],  # those in no other map
        [name for each in outputs if (name := value_name(each)) is not None],
        signature["buffers_to_mutate"],
        BackwardSignature(
            loss,
            backward.get("gradients_to_parameters", {}),
            backward.get("gradients_to_user_inputs", {}),
        ),
    )
    made = signature_from_maps(maps, inputs, outputs)
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


def signature_down(signature: Record, report: Report) -> Record:
    """Convert specs to name maps."""
    maps: dict[str, Any] = {
        "inputs_to_parameters": {},
        "inputs_to_buffers": {},
        "user_inputs": [],
        "user_outputs": [],
        "buffers_to_mutate": {},
        "backward_signature": None,
    }
    for index, spec in enumerate(signature["input_specs"]):
        _input_down(spec, maps, _PLACE.at(f".input_specs[{index}]"), report)
    backward: dict[str, Any] = {
        "gradients_to_parameters": {},
        "gradients_to_user_inputs": {},
        "loss_output": "",
    }
    mutates_late = False
    for index, spec in enumerate(signature["output_specs"]):
        where = _PLACE.at(f".output_specs[{index}]")
        arm = arm_of(spec)
        content = spec[arm] if arm else {}
        match arm:
            case "buffer_mutation":
                mutates_late = mutates_late or bool(maps["user_outputs"])
                if "." in content["buffer_name"]:
                    report(where.obstacle("a changed buffer of a submodule, which 2.1 loses", _FIRST))
                _add(maps["buffers_to_mutate"], content["arg"]["name"], content["buffer_name"], where, report)
            case "user_output":
                maps["user_outputs"].append(_user_name(content["arg"], where, report, "output"))
            case "loss_output":
                backward["loss_output"] = content["arg"]["name"]
                maps["user_outputs"].append(content["arg"]["name"])
            case "gradient_to_parameter":
                backward["gradients_to_parameters"][content["arg"]["name"]] = content["parameter_name"]
            case "gradient_to_user_input":
                backward["gradients_to_user_inputs"][content["arg"]["name"]] = content["user_input_name"]
            case _:
                report(where.obstacle(f"an output of the kind {arm}", _FIRST))
    if any(backward.values()):
        maps["backward_signature"] = backward
        report(_PLACE.obstacle("gradients as outputs, which 2.1 writes but cannot read", _FIRST))
    if mutates_late:
        report(_PLACE.obstacle("a changed buffer after the program's own outputs", _FIRST))
    return maps


def _input_down(spec: Record, maps: dict[str, Any], where: Where, report: Report) -> None:
    arm = arm_of(spec)
    match arm:
        case "parameter" | "buffer" | "tensor_constant":
            content = spec[arm]
            table = "inputs_to_parameters" if arm == "parameter" else "inputs_to_buffers"
            maps[table][content["arg"]["name"]] = content[f"{arm}_name"]
        case "user_input":
            maps["user_inputs"].append(_user_name(spec[arm]["arg"], where, report, "input"))
        case _:
            report(where.obstacle(f"an input of the kind {arm}", _FIRST))


def _add(table: dict[str, str], name: str, target: str, where: Where, report: Report) -> None:
    if name in table:
        report(where.obstacle("one value as the new content of two buffers", _FIRST))
    table[name] = target


def _user_name(argument: Record, where: Where, report: Report, side: str) -> str:
    name = name_of(argument)
    if name is None:
        report(where.obstacle(f"an {side} that is a literal", _FIRST))
    return name or ""
