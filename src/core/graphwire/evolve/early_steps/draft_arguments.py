"""Converts arguments, results and tensor metas between the first design (draft-2022) and schema 1."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from graphwire.evolve.documents import Record, Report, Where, arm_of

_FIRST = "1"

_SAME = {
    "as_bool": "as_bool",
    "as_bools": "as_bools",
    "as_int": "as_int",
    "as_ints": "as_ints",
    "as_float": "as_float",
    "as_floats": "as_floats",
    "as_str": "as_string",
    "as_scalar_type": "as_scalar_type",
    "as_memory_format": "as_memory_format",
}
"""The arms of the draft with the same content as an arm of schema 1. Element types and memory formats have the same numbers."""
_SAME_DOWN = {new: old for old, new in _SAME.items()}

_LAYOUTS = {1: 7, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6}
"""Layout numbers: the draft's to schema 1's."""
_LAYOUTS_DOWN = {new: old for old, new in _LAYOUTS.items()}

NO_INDEX = -1
"""The draft's device index for the current device; the draft's field is not optional."""

Names: TypeAlias = dict[str, str]


def value_name(qualified: str) -> str:
    """Return a valid value name for a weight of the draft, whose value has the weight's qualified name."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", qualified)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def argument_up(
    argument: Record, names: Names, literals: dict[str, int], module: Callable[[Record], Record]
) -> Record:
    """Convert an argument of the draft to schema 1.

    Args:
        names: value names by qualified name, for weights.
        literals: the integers that are values of the graph only to be in a list.
        module: converts a graph module.
    """
    arm = arm_of(argument)
    value = argument[arm]
    if arm in _SAME:
        return {_SAME[arm]: value}
    match arm:
        case "as_none":
            return {"as_none": []}
        case "as_tensor":
            return {"as_tensor": _renamed(value, names)}
        case "as_tensors":
            return {"as_tensors": [_renamed(each, names) for each in value]}
        case "as_symint":
            return {"as_sym_int": _integer_up(value, literals)}
        case "as_symints":
            return {"as_sym_ints": [_integer_up(each, literals) for each in value]}
        case "as_gm":
            return {"as_graph": module(value)}
        case "as_layout":
            return {"as_layout": _LAYOUTS[value]}
        case _:
            return {"as_device": _device_up(value)}


def argument_down(
    argument: Record,
    names: Names,
    literals: dict[int, str],
    where: Where,
    report: Report,
    module: Callable[[Record, Where], Record],
) -> Record:
    """Convert an argument of schema 1 to the draft.

    Args:
        names: qualified names of weights by value name.
        literals: the names of integers that are values of the graph to be in a list.
    """
    arm = arm_of(argument)
    value: Any = argument.get(arm)
    if arm in _SAME_DOWN:
        return {_SAME_DOWN[arm]: value}
    match arm:
        case "as_none":
            return {"as_none": True}
        case "as_tensor":
            return {"as_tensor": _renamed(value, names)}
        case "as_tensors":
            return {"as_tensors": [_renamed(each, names) for each in value]}
        case "as_sym_int":
            return {"as_symint": _integer_down(value, literals)}
        case "as_sym_ints":
            return {"as_symints": [_integer_down(each, literals) for each in value]}
        case "as_graph":
            return {"as_gm": module(value, where.at(".as_graph"))}
        case "as_layout":
            return {"as_layout": _LAYOUTS_DOWN[value]}
        case "as_device":
            return {"as_device": _device_down(value)}
    report(where.obstacle(f"an argument of the kind {arm}", _FIRST))
    return argument


def result_up(result: Record) -> Record:
    """Convert a result of a node of the draft to schema 1."""
    arm = arm_of(result)
    return (
        {"as_tensor": result[arm]} if arm == "as_tensor" else {"as_sym_int": {"as_name": result[arm]["name"]}}
    )


def result_down(result: Record, where: Where, report: Report) -> Record:
    """Convert a result of a node of schema 1 to the draft."""
    arm = arm_of(result)
    if arm == "as_tensor":
        return {"as_tensor": result[arm]}
    if arm == "as_sym_int" and result[arm].get("as_name") is not None:
        return {"as_symint": {"name": result[arm]["as_name"]}}
    report(where.obstacle(f"a result of the kind {arm}", _FIRST))
    return result


def literal_integers(graph: Record) -> dict[int, str]:
    """Return names for the integers in lists or in the place of symbolic ones, each number once."""
    taken, names = set(graph["sym_int_values"]) | set(graph["tensor_values"]), {}
    for node in graph["nodes"]:
        for named in node["inputs"]:
            single, several = named["arg"].get("as_sym_int"), named["arg"].get("as_sym_ints")
            for value in [*([single] if single else []), *(several or [])]:
                number = value.get("as_int")
                if number is not None and number not in names:
                    name = f"int_{number}".replace("-", "minus_")
                    while name in taken:
                        name += "_"
                    names[number] = name
    return names


def _renamed(value: Record, names: Names) -> Record:
    return {"name": names.get(value["name"], value["name"])}


def _integer_up(value: Record, literals: dict[str, int]) -> Record:
    name = value["name"]
    return {"as_int": literals[name]} if name in literals else {"as_name": name}


def _integer_down(value: Record, literals: dict[int, str]) -> Record:
    number = value.get("as_int")
    return {"name": value["as_name"] if number is None else literals[number]}


def _device_up(device: Record) -> Record:
    index = device.get("index")
    return {"type": device["type"], "index": None if index == NO_INDEX else index}


def _device_down(device: Record) -> Record:
    index = device.get("index")
    return {"type": device["type"], "index": NO_INDEX if index is None else index}


def meta_up(meta: Record) -> Record:
    """Convert a tensor's meta of the draft to schema 1."""
    return {
        **meta,
        "sizes": [size_up(size) for size in meta["sizes"]],
        "strides": [size_up(stride) for stride in meta["strides"]],
        "device": _device_up(meta["device"]),
        "storage_offset": meta["storage_offset"].get("as_int", 0),
        "layout": _LAYOUTS[meta["layout"]],
    }


def meta_down(meta: Record) -> Record:
    """Convert a tensor's meta of schema 1 to the draft."""
    return {
        **meta,
        "sizes": [size_down(size) for size in meta["sizes"]],
        "strides": [size_down(stride) for stride in meta["strides"]],
        "device": _device_down(meta["device"]),
        "storage_offset": {"as_int": meta["storage_offset"]},
        "layout": _LAYOUTS_DOWN.get(meta["layout"], 0),
    }


def size_up(size: Record) -> Record:
    """Convert a size or symbolic integer of the draft to schema 1."""
    text = size.get("as_sym")
    return {"as_int": size["as_int"]} if text is None else {"as_expr": {"expr_str": text, "hint": None}}


def size_down(size: Record) -> Record:
    """Convert a size or symbolic integer of schema 1 to the draft."""
    expression = size.get("as_expr")
    return {"as_int": size["as_int"]} if expression is None else {"as_sym": expression["expr_str"]}
