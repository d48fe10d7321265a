"""Documents of the draft of 2022 as documents of schema 1, from docs/spec/history.md alone, for `second_upgrade`."""

from __future__ import annotations

import json
import re
from typing import Any

Record = dict[str, Any]
LEAF = {"type": None, "context": None, "children_spec": []}
LAYOUTS = {1: 7, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6}


def from_draft(tree: Record) -> Record:  # HIS-32, HIS-33
    kept = json.loads(tree["metadata"].get("graphwire.schema_1", "{}"))
    paths = [*tree["parameters"], *tree["buffers"]]
    names = {path: re.sub(r"^(?=[0-9])", "_", re.sub(r"[^A-Za-z0-9_]", "_", path)) for path in paths}
    names |= {path: name for path, name in kept.get("names", {}).items() if path in names}
    graph = draft_graph(tree["graph"], names)
    given = [[each["name"] for each in tree["graph"][side]] for side in ("inputs", "outputs")]
    graph["inputs"] = [{"as_tensor": {"name": name}} for name in names.values()] + graph["inputs"]
    specs = [
        {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF] * len(side)} for side in given
    ]
    specs[1] = LEAF if len(given[1]) == 1 else specs[1]
    call = kept.get("call_spec") or {
        "in_spec": json.dumps([1, specs[0]]),
        "out_spec": json.dumps([1, specs[1]]),
    }
    signature = {
        "inputs_to_parameters": {names[path]: path for path in tree["parameters"]},
        "inputs_to_buffers": {names[path]: path for path in tree["buffers"]},
        "user_inputs": given[0],
        "user_outputs": given[1],
        "buffers_to_mutate": {},
    }
    entries = kept.get("module_call_graph", [])
    return {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "call_spec": call,
            "module_call_graph": entries,
        },
        "opset_version": kept.get("opset_version", {"aten": 10}),
        "range_constraints": kept.get("range_constraints", {}),
    }


def draft_graph(graph: Record, names: dict[str, str]) -> Record:  # HIS-34, HIS-35
    made = [
        each["as_symint"]["name"]
        for node in graph["nodes"]
        for each in node["outputs"]
        if "as_symint" in each
    ]
    literals = {
        each["name"]: each["value"]["as_int"]
        for each in graph["symint_values"]
        if "as_int" in each["value"] and each["name"] not in made
    }

    def renamed(each: Record) -> Record:
        return {"name": names.get(each["name"], each["name"])}

    def integer(each: Record) -> Record:
        name = each["name"]
        return {"as_int": literals[name]} if name in literals else {"as_name": name}

    def argument(each: Record) -> Record:  # HIS-36
        ((variant, held),) = ((variant, held) for variant, held in each.items() if held is not None)
        return {
            "as_none": lambda: {"as_none": []},
            "as_tensor": lambda: {variant: renamed(held)},
            "as_tensors": lambda: {variant: list(map(renamed, held))},
            "as_str": lambda: {"as_string": held},
            "as_symint": lambda: {"as_sym_int": integer(held)},
            "as_symints": lambda: {"as_sym_ints": list(map(integer, held))},
            "as_layout": lambda: {variant: LAYOUTS[held]},
            "as_device": lambda: {variant: draft_device(held)},
            "as_gm": lambda: {"as_graph": draft_module(held)},
        }.get(variant, lambda: {variant: held})()

    def node_of(node: Record) -> Record:
        target, metadata = node["target"], dict(node["metadata"])
        is_function = target.startswith(("_operator.", "math.", "builtins.", "torch."))
        results = [
            each if "as_tensor" in each else {"as_sym_int": {"as_name": each["as_symint"]["name"]}}
            for each in node["outputs"]
        ]
        texts = {key: text for key, text in metadata.items() if key != "extra" and text} | metadata.get(
            "extra", {}
        )
        inputs = [("", each) for each in node["args"]] + list(node["kwargs"].items())
        return {
            "target": target if is_function else f"torch.ops.{target}",
            "inputs": [{"name": name, "arg": argument(each)} for name, each in inputs],
            "outputs": results,
            "metadata": texts,
        }

    return {
        "inputs": [{"as_tensor": renamed(each)} for each in graph["inputs"]],
        "outputs": [{"as_tensor": renamed(each)} for each in graph["outputs"]],
        "nodes": list(map(node_of, graph["nodes"])),
        "tensor_values": {
            renamed(each)["name"]: {"meta": draft_meta(each["meta"])} for each in graph["tensor_values"]
        },
        "sym_int_values": {
            each["name"]: draft_size(each["value"])
            for each in graph["symint_values"]
            if each["name"] not in literals
        },
        "sym_bool_values": {},
    }


def draft_size(size: Record) -> Record:
    return (
        {"as_expr": {"expr_str": size["as_sym"]}}
        if size.get("as_sym") is not None
        else {"as_int": size["as_int"]}
    )


def draft_device(device: Record) -> Record:
    return {"type": device["type"], **({} if device["index"] == -1 else {"index": device["index"]})}


def draft_meta(meta: Record) -> Record:
    sizes = {field: list(map(draft_size, meta[field])) for field in ("sizes", "strides")}
    offset = meta["storage_offset"].get("as_int", 0)
    return {
        **meta,
        **sizes,
        "device": draft_device(meta["device"]),
        "storage_offset": offset,
        "layout": LAYOUTS[meta["layout"]],
    }


def draft_module(module: Record) -> Record:
    bare = module["metadata"].get("graphwire.is_single_tensor_return") == "true"
    return {
        "name": module["name"],
        "graph": {**draft_graph(module["graph"], {}), "is_single_tensor_return": bare},
    }
