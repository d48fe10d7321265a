"""Converts arguments, results and tensor metas between the first design (draft-2022) and schema 1."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from graphwire.evolve.documents import Record, Refuse, Where, arm_of

_SAME = "as_bool as_bools as_int as_ints as_float as_floats as_scalar_type as_memory_format".split()
"""The arms with the same name and content. Element types and memory formats have the same numbers."""

_NEWER = {
    **{arm: arm for arm in (*_SAME, "as_none", "as_tensor", "as_tensors", "as_layout", "as_device")},
    "as_str": "as_string",
    "as_symint": "as_sym_int",
    "as_symints": "as_sym_ints",
    "as_gm": "as_graph",
}
"""The arms of the draft, and those of schema 1 with the same meaning."""
_OLDER = {new: old for old, new in _NEWER.items()}

_LAYOUTS = {1: 7, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6}
"""Layout numbers: the draft's to schema 1's."""
_LAYOUTS_DOWN = {new: old for old, new in _LAYOUTS.items()}

NO_INDEX = -1
"""The draft's device index for the current device; the draft's field is not optional."""

Names: TypeAlias = dict[str, str]
Conversions: TypeAlias = dict[str, Callable[[Any], Any]]
"""The conversion of each arm's content; arms that are not listed keep it."""


def value_name(qualified: str) -> str:
    """Return a valid value name for a weight of the draft, whose value has the weight's qualified name."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", qualified)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def argument_up(argument: Record, conversions: Conversions) -> Record:
    """Convert an argument of the draft to schema 1."""
    return _converted(argument, _NEWER, conversions)


def argument_down(argument: Record, conversions: Conversions, where: Where, refuse: Refuse) -> Record:
    """Convert an argument of schema 1 to the draft."""
    arm = arm_of(argument)
    if arm not in _OLDER:
        refuse(where, f"an argument of the kind {arm}")
        return argument
    if arm == "as_layout" and argument[arm] not in _LAYOUTS_DOWN:
        refuse(where, f"the tensor layout with the number {argument[arm]}")
        return argument
    return _converted(argument, _OLDER, conversions)


def _converted(argument: Record, arms: dict[str, str], conversions: Conversions) -> Record:
    arm = arm_of(argument)
    value = argument[arm]
    return {arms[arm]: conversions[arm](value) if arm in conversions else value}


def conversions_up(names: Names, literals: dict[str, int], module: Callable[[Record], Record]) -> Conversions:
    """Return the conversions of arguments from the draft to schema 1.

    Args:
        names: value names by qualified name, for weights.
        literals: the integers that are values of the graph only to be in a list.
        module: converts a graph module.
    """
    tensor, integer = partial(renamed, names), partial(_integer_up, literals)
    return {
        "as_none": lambda _: [],
        "as_tensor": tensor,
        "as_tensors": lambda items: [tensor(item) for item in items],
        "as_symint": integer,
        "as_symints": lambda items: [integer(item) for item in items],
        "as_gm": module,
        "as_layout": _LAYOUTS.__getitem__,
        "as_device": _device_up,
    }


def conversions_down(names: Names, literals: dict[int, str]) -> Conversions:
    """Return the conversions of arguments from schema 1 to the draft, except for the one of graphs.

    Args:
        names: qualified names of weights by value name.
        literals: the names of integers that are values of the graph to be in a list.
    """
    tensor, integer = partial(renamed, names), partial(_integer_down, literals)
    return {
        "as_none": lambda _: True,
        "as_tensor": tensor,
        "as_tensors": lambda items: [tensor(item) for item in items],
        "as_sym_int": integer,
        "as_sym_ints": lambda items: [integer(item) for item in items],
        "as_layout": _LAYOUTS_DOWN.__getitem__,
        "as_device": _device_down,
    }


def result_up(result: Record) -> Record:
    """Convert a result of a node of the draft to schema 1."""
    arm = arm_of(result)
    return (
        {"as_tensor": result[arm]} if arm == "as_tensor" else {"as_sym_int": {"as_name": result[arm]["name"]}}
    )


def result_down(result: Record, where: Where, refuse: Refuse) -> Record:
    """Convert a result of a node of schema 1 to the draft."""
    arm = arm_of(result)
    if arm == "as_tensor":
        return {"as_tensor": result[arm]}
    if arm == "as_sym_int" and result[arm].get("as_name") is not None:
        return {"as_symint": {"name": result[arm]["as_name"]}}
    refuse(where, f"a result of the kind {arm}")
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


def renamed(names: Names, value: Record) -> Record:
    """Return a reference to a value by its new name."""
    return {"name": names.get(value["name"], value["name"])}


def _integer_up(literals: dict[str, int], value: Record) -> Record:
    name = value["name"]
    return {"as_int": literals[name]} if name in literals else {"as_name": name}


def _integer_down(literals: dict[int, str], value: Record) -> Record:
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
        **_with_extents(meta, size_up),
        "device": _device_up(meta["device"]),
        "storage_offset": meta["storage_offset"].get("as_int", 0),
        "layout": _LAYOUTS[meta["layout"]],
    }


def meta_down(meta: Record) -> Record:
    """Convert a tensor's meta of schema 1 to the draft."""
    return {
        **_with_extents(meta, size_down),
        "device": _device_down(meta["device"]),
        "storage_offset": {"as_int": meta["storage_offset"]},
        "layout": _LAYOUTS_DOWN.get(meta["layout"], 0),
    }


def _with_extents(meta: Record, size: Callable[[Record], Record]) -> Record:
    return {**meta, **{field: [size(each) for each in meta[field]] for field in ("sizes", "strides")}}


def size_up(size: Record) -> Record:
    """Convert a size or symbolic integer of the draft to schema 1."""
    text = size.get("as_sym")
    return {"as_int": size["as_int"]} if text is None else {"as_expr": {"expr_str": text, "hint": None}}


def size_down(size: Record) -> Record:
    """Convert a size or symbolic integer of schema 1 to the draft."""
    expression = size.get("as_expr")
    return {"as_int": size["as_int"]} if expression is None else {"as_sym": expression["expr_str"]}
