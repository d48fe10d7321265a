"""Graph signatures: the name maps of schema 1 ⇄ the specs of schema 2."""

from __future__ import annotations

from typing import Any

from graphwire.evolve.trees import ROOT, Record, Report, Where, arm_of, name_of

__all__ = ["signature_down", "signature_up"]

_FIRST = "torch-2.2"
_PLACE = ROOT.at(".graph_module.signature")


def signature_up(signature: Record, graph: Record) -> Record:
    """Specs from name maps, in the order of the graph's inputs and outputs."""
    parameters, buffers = signature["inputs_to_parameters"], signature["inputs_to_buffers"]
    inputs = []
    for argument in graph["inputs"]:
        name = name_of(argument)
        if name in parameters:
            inputs.append({"parameter": {"arg": {"name": name}, "parameter_name": parameters[name]}})
        elif name in buffers:
            inputs.append({"buffer": {"arg": {"name": name}, "buffer_name": buffers[name]}})
        else:
            inputs.append({"user_input": {"arg": argument}})
    # A value can be both the new content of a buffer and an output: the mutations come first, each once.
    mutated = dict(signature["buffers_to_mutate"])
    backward = signature.get("backward_signature") or {}
    to_parameters = dict(backward.get("gradients_to_parameters", {}))
    to_inputs = dict(backward.get("gradients_to_user_inputs", {}))
    outputs = []
    for argument in graph["outputs"]:
        name = name_of(argument)
        if name in mutated:
            outputs.append({"buffer_mutation": {"arg": {"name": name}, "buffer_name": mutated.pop(name)}})
        elif name is not None and name == backward.get("loss_output"):
            outputs.append({"loss_output": {"arg": {"name": name}}})
        elif name in to_parameters:
            arg = {"arg": {"name": name}, "parameter_name": to_parameters.pop(name)}
            outputs.append({"gradient_to_parameter": arg})
        elif name in to_inputs:
            arg = {"arg": {"name": name}, "user_input_name": to_inputs.pop(name)}
            outputs.append({"gradient_to_user_input": arg})
        else:
            outputs.append({"user_output": {"arg": argument}})
    return {"input_specs": inputs, "output_specs": outputs}


def signature_down(signature: Record, report: Report) -> Record:
    """Name maps from specs."""
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
        report(_PLACE.obstacle("gradients as outputs, which 2.1 writes and cannot read", _FIRST))
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
