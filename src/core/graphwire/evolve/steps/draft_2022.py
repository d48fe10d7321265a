"""The first published design (2022). A document is a graph module that contains its weights; no file of a release uses it.

It has tensors and integers as values described once per graph, positional arguments and keyword arguments, and no signature:
a weight is the tensor value of its own name, and the graph's inputs are the caller's.

The step to schema 1 added the signature, named arguments, conditions, call specs, ranges and operator versions. The draft
stores what it has no field for in its `metadata` under `graphwire.schema_1` (JSON), where the step up finds it again. Without
that entry, upward: the inputs and outputs are tuples of tensors (one output: the tensor alone), there are no ranges, and ATen
has version 10. Positional arguments then have no names in schema 1: they are passed by position.

Weights: `evolve.steps.embedded` extracts them from a draft, and inserts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from graphwire.errors import SchemaError
from graphwire.evolve.step import Step
from graphwire.evolve.steps.schema_1 import tuple_of
from graphwire.evolve.trees import ROOT, Record, Refuse, Where, name_of, variant_of
from graphwire.schema import DRAFT, Version
from graphwire.schema.texts.treespec import LEAF, format_treespec

# ---------------------- converts arguments, results and tensor metas between the first design (draft-2022) and schema 1


_SAME = "as_bool as_bools as_int as_ints as_float as_floats as_scalar_type as_memory_format".split()
"""The variants with the same name and content. Element types and memory formats have the same numbers."""

_NEWER = {
    **{
        variant: variant
        for variant in (*_SAME, "as_none", "as_tensor", "as_tensors", "as_layout", "as_device")
    },
    "as_str": "as_string",
    "as_symint": "as_sym_int",
    "as_symints": "as_sym_ints",
    "as_gm": "as_graph",
}
"""The variants of the draft, and those of schema 1 with the same meaning."""
_OLDER = {new: old for old, new in _NEWER.items()}

_LAYOUTS = {1: 7, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6}
"""Layout numbers: the draft's to schema 1's."""
_LAYOUTS_DOWN = {new: old for old, new in _LAYOUTS.items()}

NO_INDEX = -1
"""The draft's device index for the current device; the draft's field is not optional."""

Names: TypeAlias = dict[str, str]
Convert: TypeAlias = Callable[[Any], Any]
Conversions: TypeAlias = dict[str, Convert]
"""The conversion of the content of each of the draft's variants; variants that are not listed keep it."""


def value_name(qualified: str) -> str:
    """Return a valid value name for a weight of the draft, whose value has the weight's qualified name."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", qualified)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def argument_up(argument: Record, conversions: Conversions) -> Record:
    """Convert an argument of the draft to schema 1."""
    variant = variant_of(argument)
    return {_NEWER[variant]: conversions.get(variant, _same)(argument[variant])}


def argument_down(argument: Record, conversions: Conversions, where: Where, refuse: Refuse) -> Record:
    """Convert an argument of schema 1 to the draft."""
    variant = variant_of(argument)
    if variant not in _OLDER:
        refuse(where, f"an argument of the kind {variant}")
        return argument
    if variant == "as_layout" and argument[variant] not in _LAYOUTS_DOWN:
        refuse(where, f"the tensor layout with the number {argument[variant]}")
        return argument
    older = _OLDER[variant]
    return {older: conversions.get(older, _same)(argument[variant])}


def _same(content: Any) -> Any:
    return content


def _conversions(
    names: Names, integer: Convert, none: Convert, layouts: dict[int, int], device: Convert
) -> Conversions:
    """Return the conversions of arguments in one direction, except for the one of graphs.

    Args:
        names: the new names of weights, by their names.
        integer: converts a symbolic integer, or an integer that is a value of the graph to be in a list.
    """
    tensor = partial(renamed, names)
    return {
        "as_none": none,
        "as_tensor": tensor,
        "as_tensors": lambda items: list(map(tensor, items)),
        "as_symint": integer,
        "as_symints": lambda items: list(map(integer, items)),
        "as_layout": layouts.__getitem__,
        "as_device": device,
    }


def result_up(result: Record) -> Record:
    """Convert a result of a node of the draft to schema 1."""
    variant = variant_of(result)
    return (
        {"as_tensor": result[variant]}
        if variant == "as_tensor"
        else {"as_sym_int": {"as_name": result[variant]["name"]}}
    )


def result_down(result: Record, where: Where, refuse: Refuse) -> Record:
    """Convert a result of a node of schema 1 to the draft."""
    variant = variant_of(result)
    if variant == "as_tensor":
        return {"as_tensor": result[variant]}
    if variant == "as_sym_int" and result[variant].get("as_name") is not None:
        return {"as_symint": {"name": result[variant]["as_name"]}}
    refuse(where, f"a result of the kind {variant}")
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


KEPT = "graphwire.schema_1"
"""The key of `metadata` with the parts of a schema 1 document for which the draft has no field."""

_MODULES = ("_operator.", "math.", "builtins.", "torch.")
_OPS = "torch.ops."


# ------------------------------------------------------------------------------------------------------------- up


def up(tree: Record) -> Record:
    """Convert the draft to schema 1.

    Raises:
        SchemaError: the entry that holds the parts of schema 1 is damaged.
    """
    kept = _kept(tree.get("metadata") or {})
    names = {
        name: kept["names"].get(name) or value_name(name) for name in (*tree["parameters"], *tree["buffers"])
    }
    graph = _graph_up(tree["graph"], names)
    user_inputs, user_outputs = (
        [argument["name"] for argument in tree["graph"][side]] for side in ("inputs", "outputs")
    )
    graph["inputs"] = [{"as_tensor": {"name": name}} for name in names.values()] + graph["inputs"]
    signature = {
        "inputs_to_parameters": {names[name]: name for name in tree["parameters"]},
        "inputs_to_buffers": {names[name]: name for name in tree["buffers"]},
        "user_inputs": user_inputs,
        "user_outputs": user_outputs,
        "buffers_to_mutate": {},
        "backward_signature": None,
    }
    call_spec = kept["call_spec"] or {
        "in_spec": format_treespec(tuple_of(len(user_inputs))),
        "out_spec": format_treespec(LEAF if len(user_outputs) == 1 else tuple_of(len(user_outputs))),
    }
    module = {
        "graph": graph,
        "signature": signature,
        "call_spec": call_spec,
        "module_call_graph": kept["module_call_graph"],
    }
    return {
        "graph_module": module,
        "opset_version": kept["opset_version"],
        "range_constraints": kept["range_constraints"],
        "equality_constraints": [],
        "schema_version": 1,
        "example_inputs": None,
    }


_WITHOUT_NOTE: Record = {
    "names": {},
    "call_spec": None,
    "module_call_graph": [],
    "opset_version": {"aten": 10},
    "range_constraints": {},
}


def _kept(metadata: dict[str, str]) -> Record:
    text = metadata.get(KEPT)
    if text is None:
        return _WITHOUT_NOTE
    try:
        kept = json.loads(text)
        return {
            key: type(default)(kept[key]) if default else kept[key] for key, default in _WITHOUT_NOTE.items()
        }
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SchemaError(
            "the parts of schema 1 that the draft stores are damaged", place=f"metadata[{KEPT!r}]"
        ) from error


def _graph_up(graph: Record, names: dict[str, str]) -> Record:
    made = {
        content.get("as_symint", {}).get("name") for node in graph["nodes"] for content in node["outputs"]
    }
    literals = {
        value["name"]: value["value"]["as_int"]
        for value in graph["symint_values"]
        if value["name"] not in made and value["value"].get("as_int") is not None
    }
    conversions = _conversions(names, partial(_integer_up, literals), lambda _: [], _LAYOUTS, _device_up)
    conversions["as_gm"] = _module_up
    nodes = []
    for node in graph["nodes"]:
        target = node["target"]
        inputs = [("", argument) for argument in node["args"]] + list(node["kwargs"].items())
        nodes.append(
            {
                "target": target if target.startswith(_MODULES) else _OPS + target,
                "inputs": [{"name": name, "arg": argument_up(arg, conversions)} for name, arg in inputs],
                "outputs": [result_up(result) for result in node["outputs"]],
                "metadata": _metadata_up(node["metadata"]),
            }
        )
    numbers = {
        value["name"]: size_up(value["value"])
        for value in graph["symint_values"]
        if value["name"] not in literals
    }
    return {
        "inputs": [{"as_tensor": renamed(names, each)} for each in graph["inputs"]],
        "outputs": [{"as_tensor": renamed(names, each)} for each in graph["outputs"]],
        "nodes": nodes,
        "tensor_values": {
            renamed(names, value)["name"]: {"meta": meta_up(value["meta"])}
            for value in graph["tensor_values"]
        },
        "sym_int_values": numbers,
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "constants": {},
    }


def _module_up(module: Record) -> Record:
    graph = _graph_up(module["graph"], {})
    bare = module["metadata"].get("graphwire.is_single_tensor_return") == "true"
    return {"name": module["name"], "graph": {**graph, "is_single_tensor_return": bare}}


def _metadata_up(metadata: Record) -> dict[str, str]:
    own = {key: metadata[key] for key in ("stack_trace", "nn_module_stack") if metadata.get(key)}
    return {**own, **(metadata.get("extra") or {})}


# ----------------------------------------------------------------------------------------------------------- down


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert schema 1 to the draft; weights record their location and hold no bytes yet."""
    module, place = tree["graph_module"], ROOT.at(".graph_module")
    signature = module["signature"]
    parameters, buffers = signature["inputs_to_parameters"], signature["inputs_to_buffers"]
    names = {**parameters, **buffers}
    for name in signature["buffers_to_mutate"].values():
        refuse(place.at(".signature.buffers_to_mutate"), f"the buffer {name!r} that changes")
    if signature.get("backward_signature") is not None:
        refuse(place.at(".signature.backward_signature"), "gradients as outputs")
    graph = _graph_down(module["graph"], names, place.at(".graph"), refuse)
    weights = set(names.values())
    graph["inputs"] = [argument for argument in graph["inputs"] if argument["name"] not in weights]
    stored = {key: {**tree, **module}[key] for key in _WITHOUT_NOTE if key != "names"}
    kept = {"names": {qualified: value for value, qualified in names.items()}, **stored}
    metas = {value["name"]: value["meta"] for value in graph["tensor_values"]}
    return {
        "name": "",
        "graph": graph,
        "metadata": {KEPT: json.dumps(kept)},
        "parameters": {name: _unread(name, metas) for name in parameters.values()},
        "buffers": {name: _unread(name, metas) for name in buffers.values()},
    }


def _unread(name: str, metas: dict[str, Record]) -> Record:
    """Return a weight without bytes; a writer adds the bytes or their location later (`evolve.steps.embedded`)."""
    location = {"location": name, "offset": "0", "length": "0", "checksum": ""}
    return {"storage": {"data_location": "External", "data": location}, "meta": metas.get(name)}


def _graph_down(graph: Record, names: dict[str, str], where: Where, refuse: Refuse) -> Record:
    literals = literal_integers(graph)
    conversions = _conversions(
        names, partial(_integer_down, literals), lambda _: True, _LAYOUTS_DOWN, _device_down
    )

    def of_argument(argument: Record, where: Where) -> Record:
        if (held := argument.get("as_graph")) is not None:
            return {"as_gm": _module_down(held, where.at(".as_graph"), refuse)}
        return argument_down(argument, conversions, where, refuse)

    nodes = []
    for index, node in enumerate(graph["nodes"]):
        here = Where(where, ".nodes", index, node)
        arguments = [
            (each["name"], of_argument(each["arg"], here.at(f".inputs[{i}].arg")))
            for i, each in enumerate(node["inputs"])
        ]
        outputs = [
            result_down(output, here.at(f".outputs[{i}]"), refuse) for i, output in enumerate(node["outputs"])
        ]
        nodes.append(
            {
                "target": node["target"].removeprefix(_OPS),
                "args": [argument for name, argument in arguments if not name],
                "kwargs": {name: argument for name, argument in arguments if name},
                "outputs": outputs,
                "metadata": _metadata_down(node["metadata"]),
            }
        )
    values = [{"name": name, "value": size_down(value)} for name, value in graph["sym_int_values"].items()]
    values += [{"name": name, "value": {"as_int": number}} for number, name in literals.items()]
    return {
        "inputs": _references(graph["inputs"], names, where.at(".inputs"), refuse),
        "outputs": _references(graph["outputs"], names, where.at(".outputs"), refuse),
        "nodes": nodes,
        "tensor_values": [
            {"name": names.get(name, name), "meta": meta_down(value["meta"])}
            for name, value in graph["tensor_values"].items()
        ],
        "symint_values": values,
    }


def _references(arguments: list[Record], names: dict[str, str], where: Where, refuse: Refuse) -> list[Record]:
    for index, argument in enumerate(arguments):
        if argument.get("as_tensor") is None:
            refuse(where.at(f"[{index}]"), "an input or output that is not a tensor")
    given = [name_of(argument) or "" for argument in arguments]
    return [{"name": names.get(name, name)} for name in given]


def _module_down(value: Record, where: Where, refuse: Refuse) -> Record:
    bare = "true" if value["graph"].get("is_single_tensor_return") else "false"
    return {
        "name": value["name"],
        "graph": _graph_down(value["graph"], {}, where.at(".graph"), refuse),
        "metadata": {"graphwire.is_single_tensor_return": bare},
        "parameters": {},
        "buffers": {},
    }


def _metadata_down(metadata: dict[str, str]) -> Record:
    own = ("stack_trace", "nn_module_stack")
    extra = {key: text for key, text in metadata.items() if key not in own}
    return {**{key: metadata.get(key, "") for key in own}, "extra": extra}


STEP = Step(
    DRAFT,
    Version(1),
    up,
    down,
    derived=(
        "the signature, from the names of the weights",
        "the structure of inputs and outputs, where the document records none",
    ),
    absent=("ranges of symbols and operator versions, where the document records none",),
)
