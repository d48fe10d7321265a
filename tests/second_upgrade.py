"""A second reader of older documents, from docs/spec/history.md alone: plain JSON of the draft to schema 8.17 in, of 8.20 out.

Comments name the rules. Everything is changed in place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from second_draft import from_draft
from second_expressions import Infix, Tree

Record = dict[str, Any]
HIGHER_ORDER = "torch.ops.higher_order."


def without_nulls(value: Any) -> Any:  # HIS-9
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return list(map(without_nulls, value)) if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------ where things are (HIS-7)


def inside(argument: Record) -> Iterator[Record]:
    """Yield an argument and the arguments inside it, but not those of subgraphs."""
    yield argument
    for each in (argument.get("as_string_to_argument") or {}).values():
        yield from inside(each)


def graphs(graph: Record) -> Iterator[Record]:
    yield graph
    for node in graph["nodes"]:
        for named in node["inputs"]:
            for each in inside(named["arg"]):
                if each.get("as_graph"):
                    yield from graphs(each["as_graph"]["graph"])


def top(tree: Record) -> Record:
    return tree["graph_module"]["graph"]  # type: ignore[no-any-return]


def arguments(tree: Record) -> Iterator[Record]:
    for graph in graphs(top(tree)):
        yield from (*graph["inputs"], *graph["outputs"])
        for node in graph["nodes"]:
            yield from node["outputs"]
            for named in node["inputs"]:
                yield from inside(named["arg"])
    signature = tree["graph_module"]["signature"]
    for spec in (*signature.get("input_specs", ()), *signature.get("output_specs", ())):
        yield from (
            [spec[variant]["arg"]] if (variant := next(iter(spec))) in ("user_input", "user_output") else []
        )
    for entry in tree["graph_module"]["module_call_graph"]:
        if entry.get("signature"):
            yield from (*entry["signature"]["inputs"], *entry["signature"]["outputs"])


def numbers(tree: Record) -> Iterator[Record]:
    """Yield every symbolic number that a graph describes."""
    for graph in graphs(top(tree)):
        for table in ("sym_int_values", "sym_bool_values", "sym_float_values"):
            yield from graph.get(table, {}).values()
        for meta in graph["tensor_values"].values():
            offset = meta["storage_offset"]
            yield from (*meta["sizes"], *meta["strides"], *([offset] if isinstance(offset, dict) else []))


def nodes(tree: Record) -> Iterator[Record]:
    for graph in graphs(top(tree)):
        yield from graph["nodes"]


# ------------------------------------------------------------------------------------------ compact 5.3


def from_compact(tree: Record) -> None:  # HIS-21
    top(tree).pop("co_fileinfo_ordered_list", None)
    for node in nodes(tree):
        node["metadata"].pop("stack_trace", None)  # no hash counts it


# ------------------------------------------------------------------------------------------ 1 to 2


def from_1(tree: Record) -> None:
    module, graph = tree["graph_module"], top(tree)
    for each in graphs(graph):
        each["tensor_values"] = {name: value["meta"] for name, value in each["tensor_values"].items()}
        if each is not graph:
            each.pop("constants", None)
        for value in each["sym_bool_values"].values():
            if "as_expr" in value:  # HIS-12
                value["as_expr"] = {"expr_str": value["as_expr"]}
    for value in numbers(tree):
        if isinstance((value.get("as_expr") or {}).get("hint"), int):
            value["as_expr"]["hint"] = {"as_int": value["as_expr"]["hint"]}
    module["signature"] = specs_of(module["signature"], graph)
    lift_constants(graph, module["signature"])
    call = module.pop("call_spec")  # HIS-16
    spec = json.loads(call["in_spec"])[1]
    if not is_call(spec):
        nothing = {"type": "builtins.dict", "context": "[]", "children_spec": []}
        spec = {"type": "builtins.tuple", "context": "null", "children_spec": [spec, nothing]}
    signature = {"inputs": [], "outputs": [], "in_spec": json.dumps([1, spec]), "out_spec": call["out_spec"]}
    entries = [entry for entry in module["module_call_graph"] if entry["fqn"]]
    module["module_call_graph"] = [{"fqn": "", "signature": signature}, *entries]
    for key in ("equality_constraints", "example_inputs"):
        tree.pop(key, None)
    tree["dialect"] = "ATEN"
    for each in graphs(graph):
        relax(each)


def is_call(spec: Record) -> bool:
    if spec["type"] != "builtins.tuple" or [child["type"] for child in spec["children_spec"]] != [
        "builtins.tuple",
        "builtins.dict",
    ]:
        return False
    keys = json.loads(spec["children_spec"][1]["context"])
    return bool(keys) and all(isinstance(key, str) and key.isidentifier() for key in keys)


def specs_of(maps: Record, graph: Record) -> Record:  # HIS-14
    backward = maps.get("backward_signature") or {}

    def of_input(argument: Record) -> Record:
        tensor = argument.get("as_tensor")
        for field, variant in (("inputs_to_parameters", "parameter"), ("inputs_to_buffers", "buffer")):
            if tensor and tensor["name"] in maps[field]:
                return {variant: {"arg": tensor, f"{variant}_name": maps[field][tensor["name"]]}}
        return {"user_input": {"arg": argument}}

    to_parameters = dict(backward.get("gradients_to_parameters", {}))
    to_inputs, mutated = dict(backward.get("gradients_to_user_inputs", {})), dict(maps["buffers_to_mutate"])

    def of_output(argument: Record) -> Record:
        tensor = argument.get("as_tensor")
        if tensor is None:
            return {"user_output": {"arg": argument}}
        if tensor["name"] in mutated:
            return {"buffer_mutation": {"arg": tensor, "buffer_name": mutated.pop(tensor["name"])}}
        if tensor["name"] == backward.get("loss_output"):
            return {"loss_output": {"arg": tensor}}
        if tensor["name"] in to_parameters:
            return {
                "gradient_to_parameter": {"arg": tensor, "parameter_name": to_parameters.pop(tensor["name"])}
            }
        if tensor["name"] in to_inputs:
            return {
                "gradient_to_user_input": {"arg": tensor, "user_input_name": to_inputs.pop(tensor["name"])}
            }
        return {"user_output": {"arg": argument}}

    return {
        "input_specs": list(map(of_input, graph["inputs"])),
        "output_specs": list(map(of_output, graph["outputs"])),
    }


def lift_constants(graph: Record, signature: Record) -> None:  # HIS-15
    copies = {
        node["inputs"][0]["arg"]["as_tensor"]["name"]: graph["tensor_values"][
            node["outputs"][0]["as_tensor"]["name"]
        ]
        for node in graph["nodes"]
        if node["target"] == "torch.ops.aten.lift_fresh_copy.default"
    }
    specs = signature["input_specs"]
    start = next((index for index, spec in enumerate(specs) if "user_input" in spec), len(specs))
    for index, name in enumerate(graph.pop("constants", None) or {}):
        specs.insert(
            start + index, {"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}}
        )
        graph["inputs"].insert(start + index, {"as_tensor": {"name": name}})
        graph["tensor_values"][name] = dict(copies[name])


def relax(graph: Record) -> None:  # HIS-29
    def given(node: Record, name: str) -> Record:
        return next((each["arg"] for each in node["inputs"] if each["name"] == name), {})

    message = re.compile(r"\S+\.shape\[\d+\] is outside of inline constraint \[2, [^\]]*\]\.")
    asserted = [
        given(node, "self")["as_tensor"]["name"]
        for node in graph["nodes"]
        if node["target"] == "torch.ops.aten._assert_async.msg"
        and message.fullmatch(given(node, "assert_msg").get("as_string", ""))
    ]
    conditions = [
        given(node, "s")["as_sym_bool"]["as_name"]
        for node in graph["nodes"]
        if node["target"] == "torch.ops.aten.scalar_tensor.default"
        and node["outputs"][0]["as_tensor"]["name"] in asserted
    ]
    for node in graph["nodes"]:
        made = node["outputs"][0].get("as_sym_bool", {}).get("as_name") if node["outputs"] else None
        if node["target"] == "_operator.ge" and made in conditions and given(node, "b") == {"as_int": 2}:
            given(node, "b")["as_int"] = 0
            expression = graph["sym_bool_values"][made]["as_expr"]
            expression["expr_str"] = re.sub(">= 2$", ">= 0", expression["expr_str"])


# ------------------------------------------------------------------------------------------ 2 to 8.20


def from_2(tree: Record) -> None:  # HIS-18, HIS-19
    for graph in graphs(top(tree)):
        for meta in graph["tensor_values"].values():
            meta["storage_offset"] = {"as_int": meta["storage_offset"]}
        objects = [each["as_custom_obj"] for each in graph["inputs"] if "as_custom_obj" in each]
        graph["custom_obj_values"] = {each["name"]: {**each, "class_fqn": "unknown"} for each in objects}
    for argument in arguments(tree):
        if "as_custom_obj" in argument:
            argument["as_custom_obj"]["class_fqn"] = "unknown"
    for spec in tree["graph_module"]["signature"]["input_specs"]:
        if "buffer" in spec:
            spec["buffer"]["persistent"] = True

    def renamed(text: str) -> str:
        return re.sub(r"\bi(\d+)\b", r"u\1", text)

    for value in numbers(tree):
        if value.get("as_expr"):
            value["as_expr"]["expr_str"] = renamed(value["as_expr"]["expr_str"])
    tree["range_constraints"] = {renamed(key): ends for key, ends in tree["range_constraints"].items()}


LITERALS = ("as_none", "as_int", "as_float", "as_string", "as_bool")


def from_5_1(tree: Record) -> None:  # HIS-20
    for argument in arguments(tree):
        for item in argument.get("as_optional_tensors", ()):
            if isinstance(item.get("as_tensor"), str):
                item["as_tensor"] = {"name": item["as_tensor"]}
    names = {str(next(iter(each.values()))) for each in top(tree)["inputs"]} | set(top(tree)["tensor_values"])
    names |= {each["as_tensor"]["name"] for each in top(tree)["inputs"] if "as_tensor" in each}
    for index, spec in enumerate(tree["graph_module"]["signature"]["input_specs"]):
        if "user_input" in spec and next(iter(spec["user_input"]["arg"])) in LITERALS:
            number = index
            while f"arg{number}" in names:
                number += 1
            names.add(f"arg{number}")
            spec["constant_input"] = {"name": f"arg{number}", "value": spec.pop("user_input")["arg"]}


def from_5_3(tree: Record) -> None:  # HIS-22
    tree["verifiers"] = [tree.pop("dialect", "ATEN")]
    tree["torch_version"] = "<=2.4"
    tree["graph_module"]["metadata"] = {}


def from_7_3(tree: Record) -> None:  # HIS-23, HIS-24
    for argument in arguments(tree):
        for each in (argument, *argument.get("as_optional_tensors", ())):
            if "as_none" in each:
                each["as_none"] = True
    for spec in tree["graph_module"]["signature"]["input_specs"]:
        value = spec.get("constant_input", {}).get("value", {})
        if "as_none" in value:
            value["as_none"] = True
        if isinstance(value.get("as_int"), bool):
            value["as_bool"] = value.pop("as_int")
    for value in numbers(tree):
        if value.get("as_expr"):
            value["as_expr"]["expr_str"] = constructor(
                Infix(with_newer_names(value["as_expr"]["expr_str"])).relation()
            )
    for graph in graphs(top(tree)):
        graph["sym_float_values"] = {}


def with_newer_names(text: str) -> str:
    newer = {"TrueDiv": "IntTrueDiv", "Round": "RoundToInt", "Trunc": "TruncToInt"}
    return re.sub(r"\b(TrueDiv|Round|Trunc)\(", lambda found: f"{newer[found[1]]}(", text)


def constructor(tree: Tree) -> str:
    name, *parts = tree
    if name == "Symbol":
        letters = re.sub(r"\d+$", "", parts[0])
        known = {"s": ", positive=True, integer=True", "zf": "", "zuf": ""}
        return f"Symbol('{parts[0]}'{known.get(letters, ', integer=True') if letters != parts[0] else ', integer=True'})"
    if name == "Float":
        return f"Float('{parts[0]}', precision={parts[1]})"
    if not parts:
        return str(name)
    return (
        f"{name}({', '.join(constructor(part) if isinstance(part, list) else str(part) for part in parts)})"
    )


def from_8_2(tree: Record) -> None:  # HIS-25, HIS-26
    for node in nodes(tree):
        if node["target"].startswith(HIGHER_ORDER):
            for named in node["inputs"]:
                named["kind"] = 2 if named["name"] else 1
            outputs = node["outputs"]
            listed = outputs[0].get("as_tensors") if len(outputs) == 1 else None
            if listed is not None:
                node["outputs"] = [{"as_tensor": tensor} for tensor in listed]
            node["is_hop_single_tensor_return"] = listed is None and len(outputs) == 1

    def text(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value

    literals = [
        spec["constant_input"]["value"]
        for spec in tree["graph_module"]["signature"]["input_specs"]
        if "constant_input" in spec
    ]
    for each in (*arguments(tree), *literals, *numbers(tree)):
        if "as_float" in each:
            each["as_float"] = text(each["as_float"])
        if "as_floats" in each:
            each["as_floats"] = list(map(text, each["as_floats"]))


def from_8_15(tree: Record) -> None:  # HIS-27
    for graph in graphs(top(tree)):
        for number, node in enumerate(graph["nodes"]):
            node["name"] = own_name(node) or f"node_of_history_{number}"


def own_name(node: Record) -> str | None:
    outputs = node["outputs"]
    if len(outputs) == 1 and node.get("is_hop_single_tensor_return") is not False:
        held = next(iter(outputs[0].values()))
        if isinstance(held, dict):
            return held.get("name") or held.get("as_name")
    listed = (
        outputs[0].get("as_tensors", ())
        if len(outputs) == 1
        else [each.get("as_tensor") or {} for each in outputs]
    )
    for index, each in enumerate(listed):
        if each.get("name", "").endswith(f"_unused_{index}"):
            return str(each["name"].removesuffix(f"_unused_{index}"))
    return None


# ------------------------------------------------------------------------------------------ operators (HIS-28)


def operators_of(tree: Record, version: tuple[int, int]) -> None:
    for graph in graphs(top(tree)):
        used = [
            name for node in graph["nodes"] for named in node["inputs"] for name in names_in(named["arg"])
        ]
        used += [name for output in graph["outputs"] for name in names_in(output)]
        found: list[Record] = []
        for node in graph["nodes"]:
            change = CHANGES.get((version, node["target"].removeprefix(HIGHER_ORDER)))
            before, after = (change(node, graph, used) if change else None) or ([], [])
            found += [*before, node, *after]
        graph["nodes"] = found


def names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("name", "as_name") and isinstance(each, str):
                yield each
            elif key != "as_graph":
                yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


def call_with(node: Record, *given: Record) -> None:
    node["inputs"] = [{"name": "", "arg": each} for each in given]


def given_to(node: Record) -> list[Record]:
    return [named["arg"] for named in node["inputs"]]


def cond_2_2(node: Record, *_: Any) -> None:
    if all("as_tensor" in each for each in node["outputs"]):
        node["outputs"] = [{"as_tensors": [each["as_tensor"] for each in node["outputs"]]}]
    for each in given_to(node):
        if "as_graph" in each and len(each["as_graph"]["graph"]["outputs"]) == 1:
            each["as_graph"]["graph"]["is_single_tensor_return"] = False


def cond_2_3(node: Record, *_: Any) -> None:
    listed = node["outputs"][0].get("as_tensors", ())
    if len(node["outputs"]) == 1 and len(listed) > 1:
        node["outputs"] = [{"as_tensor": tensor} for tensor in listed]


def map_2_3(node: Record, *_: Any) -> None:
    body, *rest = given_to(node)
    if "as_int" in rest[0]:
        count, tensors = rest[0]["as_int"], [each["as_tensor"] for each in rest[1:]]
        call_with(node, body, {"as_tensors": tensors[:count]}, {"as_tensors": tensors[count:]})


def flash_2_3(node: Record, graph: Record, used: list[str]) -> None:
    names = [each["as_tensor"]["name"] for each in node["outputs"] if "as_tensor" in each]
    query = graph["tensor_values"][given_to(node)[0]["as_tensor"]["name"]]
    if (
        query["device"]["type"] == "cpu"
        and len(names) == len(node["outputs"])
        and not set(names[2:]) & set(used)
    ):
        for name in names[2:]:
            graph["tensor_values"].pop(name)
        node["target"] = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
        node["outputs"] = node["outputs"][:2]


def while_2_4(node: Record, *_: Any) -> None:
    if len(node["inputs"]) == 3:
        node["inputs"].append({"name": "", "arg": {"as_tensors": []}})


def can_cast_2_4(node: Record, *_: Any) -> None:
    for named in node["inputs"]:
        named["name"] = {"from": "from_"}.get(named["name"], named["name"])


def rrelu_2_6(node: Record, graph: Record, _: Any) -> None:
    node["target"] = "torch.ops.aten.rrelu_with_noise_functional.default"
    noise = next(named["arg"]["as_tensor"]["name"] for named in node["inputs"] if named["name"] == "noise")
    name = f"{node['outputs'][0]['as_tensor']['name']}_noise"
    graph["tensor_values"][name] = graph["tensor_values"][noise]
    node["outputs"].append({"as_tensor": {"name": name}})


def scan_2_7(node: Record, graph: Record, used: list[str]) -> tuple[list[Record], list[Record]] | None:
    if len(node["inputs"]) != 6:
        return None
    body, init, scanned, dimension, reverse, additional = given_to(node)
    before: list[Record] = []
    after: list[Record] = []
    assert dimension["as_int"] == 0, "no file of the corpus scans along another dimension"

    def flipped(source: str, name: str) -> Record:
        graph["tensor_values"].setdefault(name, graph["tensor_values"][source])
        inputs = [
            {"name": "self", "arg": {"as_tensor": {"name": source}}},
            {"name": "dims", "arg": {"as_ints": [0]}},
        ]
        return {
            "target": "torch.ops.aten.flip.default",
            "inputs": inputs,
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": {},
        }

    tensors = scanned["as_tensors"]
    if reverse["as_bool"]:
        before = [flipped(each["name"], f"{each['name']}_flipped") for each in tensors]
        tensors = [{"name": f"{each['name']}_flipped"} for each in tensors]
        for output in node["outputs"][len(init["as_tensors"]) :]:
            name = output["as_tensor"]["name"]
            if name in used:
                graph["tensor_values"][f"{name}_flipped"] = graph["tensor_values"][name]
                output["as_tensor"] = {"name": f"{name}_flipped"}
                after.append(flipped(f"{name}_flipped", name))
    call_with(node, body, init, {"as_tensors": tensors}, additional)
    return before, after


def invoke_2_8(node: Record, *_: Any) -> None:
    body, name, *operands = given_to(node)
    if len(operands) == 1 and "as_tensors" in operands[0]:
        given = [body, name, *({"as_tensor": tensor} for tensor in operands[0]["as_tensors"])]
        node["inputs"] = [{"name": "", "arg": each, "kind": 1} for each in given]


def renamed_to(target: str) -> Callable[..., None]:
    return lambda node, *_: node.update(target=HIGHER_ORDER + target)


CHANGES: dict[tuple[tuple[int, int], str], Callable[..., Any]] = {
    ((2, 0), "cond"): cond_2_2,
    ((2, 0), "torch.ops.map_impl"): renamed_to("map_impl"),
    ((5, 1), "cond"): cond_2_3,
    ((5, 1), "map_impl"): map_2_3,
    ((5, 1), "torch.ops.aten._scaled_dot_product_flash_attention.default"): flash_2_3,
    ((5, 3), "while_loop"): while_2_4,
    ((5, 3), "torch.ops.aten.can_cast.default"): can_cast_2_4,
    ((7, 3), "torch._higher_order_ops.auto_functionalize.auto_functionalized"): renamed_to(
        "auto_functionalized"
    ),
    ((7, 3), "torch._higher_order_ops.wrap.wrap_with_set_grad_enabled"): renamed_to(
        "wrap_with_set_grad_enabled"
    ),
    ((8, 2), "torch.ops.aten.rrelu_with_noise.default"): rrelu_2_6,
    ((8, 7), "scan"): scan_2_7,
    ((8, 8), "invoke_subgraph"): invoke_2_8,
}
STEPS: dict[tuple[int, int], tuple[Callable[[Record], None] | None, tuple[int, int]]] = {
    (1, 0): (from_1, (2, 0)),
    (2, 0): (from_2, (5, 1)),
    (5, 1): (from_5_1, (5, 3)),
    (5, 3): (from_5_3, (7, 3)),
    (7, 3): (from_7_3, (8, 2)),
    (8, 2): (from_8_2, (8, 7)),
    (8, 7): (None, (8, 8)),
    (8, 8): (None, (8, 14)),
    (8, 14): (None, (8, 15)),
    (8, 15): (from_8_15, (8, 17)),
    (8, 17): (None, (8, 20)),
}


def upgraded(text: bytes) -> Record:
    """Return the document of the current schema that the JSON of an older one means."""
    tree = json.loads(text)
    if "schema_version" not in tree:  # HIS-1
        tree = {**from_draft(tree), "schema_version": 1}
    stated = tree["schema_version"]
    version = (stated, 0) if isinstance(stated, int) else (stated["major"], stated["minor"])
    ranges = tree["range_constraints"]
    tree = without_nulls(tree)
    if version < (8, 2):  # HIS-11
        limit = 2**63 - 2 if version <= (5, 3) else math.inf
        bound = {
            end: (lambda value: None if abs(value) >= limit else value) for end in ("min_val", "max_val")
        }
        ranges = {key: {end: bound[end](ends[end]) for end in ends} for key, ends in ranges.items()}
    tree["range_constraints"] = ranges
    if version == (5, 3):
        from_compact(tree)
    while version != (8, 20):
        step, version = STEPS[version]
        if step:
            step(tree)
        operators_of(tree, version)
    tree["schema_version"] = {"major": 8, "minor": 20}
    return tree  # type: ignore[no-any-return]
