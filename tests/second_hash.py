"""A second implementation of the content hash, from docs/spec alone: plain JSON in, nothing of graphwire.

It reads documents of the current schema whose keys and variants are those of the specification. Comments name the rules.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from second_expressions import Constructor, Infix, Tree, content, digest, packed, real, symbol_names
from specification import rules, words

# ------------------------------------------------------------------------------------------ structures (CAN-33)


def structure(text: str) -> Tree:
    def container(node: Any) -> Tree:
        if node["type"] is None:
            return None
        name, at, version = node["type"].rpartition("@")
        if not (at and re.fullmatch("[0-9]{1,9}", version)):
            name, version = node["type"], "1"
        return [name, context(name, int(version), node["context"]), *map(container, node["children_spec"])]

    return container(json.loads(text)[1])


def context(name: str, version: int, held: Any) -> Tree:
    if isinstance(held, str):
        try:
            held = json.loads(held)
        except ValueError:
            return ["text", held]
    elif isinstance(held, list) and len(held) == 3 and isinstance(held[0], str):
        held = held[1:]
    if name == "collections.defaultdict" and version == 2:
        module, _, factory = (held["factory"] or "").rpartition(".")
        held = {
            "default_factory_module": module,
            "default_factory_name": factory,
            "dict_context": untagged(held["keys"]),
        }
    return plain(untagged(held) if version > 1 else held)


def untagged(tree: Any) -> Any:  # CAN-38
    if isinstance(tree, list):
        return [untagged(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    keys = set(tree)
    if keys == {"tuple"}:
        return untagged(tree["tuple"])
    if keys == {"dict"}:
        return {
            key if isinstance(key, str) else json.dumps(untagged(key), default=repr): untagged(value)
            for key, value in tree["dict"]
        }
    if keys == {"float"}:
        return float(tree["float"])
    if keys == {"bytes"}:
        return base64.b64decode(tree["bytes"])
    if keys == {"enum", "name"}:
        return {"__enum__": True, "fqn": tree["enum"], "name": tree["name"]}
    return {key: untagged(value) for key, value in tree.items()}


def plain(tree: Any) -> Tree:
    if isinstance(tree, list):
        return ["list", *map(plain, tree)]
    return ["mapping", *([key, plain(tree[key])] for key in sorted(tree))] if isinstance(tree, dict) else tree


# ------------------------------------------------------------------------------------------ arguments (CAN-34)

DTYPES = dict(
    enumerate(
        "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16".split(),
        1,
    )
) | {28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz"}
DTYPES |= {33: "float8_e8m0fnu", 34: "uint32", 35: "uint64"}
LAYOUTS = dict(enumerate("sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn strided".split(), 1))
FORMATS = dict(enumerate("contiguous_format channels_last channels_last_3d preserve_format".split(), 1))
ALONE = {
    "tensors": "tensor",
    "ints": "int",
    "floats": "float",
    "strings": "string",
    "bools": "bool",
    "sym_ints": "sym_int",
} | {
    "sym_floats": "sym_float",
    "sym_bools": "sym_bool",
    "optional_tensors": "optional_tensor",
    "nested_tensors": "tensors",
    "int_lists": "ints",
    "float_lists": "floats",
}


class Found:
    """The references and subgraphs of arguments, in order. The last item of each place is to be filled in."""

    def __init__(self) -> None:
        self.values: list[tuple[list[Tree], str]] = []
        self.graphs: list[tuple[list[Tree], Any]] = []

    def value(self, place: list[Tree], name: str) -> list[Tree]:
        self.values.append((place, name))
        return place

    def argument(self, argument: dict[str, Any]) -> Tree:
        ((variant, held),) = argument.items()
        return self.of(variant.removeprefix("as_"), held)

    def of(self, variant: str, held: Any) -> Tree:
        if variant in ALONE:
            return ["list", *(self.of(ALONE[variant], item) for item in held)]
        if variant in ("int", "bool", "string"):
            return held
        if variant == "none":
            return None
        if variant == "float":
            return real(held)
        if variant == "tensor":
            return self.value(["value", None], held["name"])
        if variant in ("sym_int", "sym_float", "sym_bool"):
            if held.get("as_name") is not None:
                return self.value(["value", None], held["as_name"])
            return self.argument(held)
        if variant == "optional_tensor":
            return self.argument(held)
        if variant == "results":
            return self.value(["results", None], f"results {held}")
        if variant == "custom_obj":
            return self.value(["object", held["class_fqn"], None], held["name"])
        if variant == "graph":
            place: list[Tree] = ["graph", None]
            self.graphs.append((place, held["graph"]))
            return place
        if variant == "sequence":
            return ["list", *map(self.argument, held["items"])]
        if variant == "string_to_argument":
            return ["mapping", *([key, self.argument(each)] for key, each in held.items())]
        if variant == "mapping":
            return ["mapping", *([self.argument(each["key"]), self.argument(each["value"])] for each in held)]
        if variant == "slice":
            return ["slice", *(self.argument(held[part]) for part in ("start", "stop", "step"))]
        if variant == "treespec":
            return ["treespec", structure(held if isinstance(held, str) else held["spec"])]
        return literal(variant, held)


def literal(variant: str, held: Any) -> Tree:
    found: dict[str, Any] = {
        "range": lambda: [held["start"], held["stop"], held["step"]],
        "complex": lambda: [real(held["real"]), real(held["imag"])],
        "device": lambda: [held["type"], held.get("index")],
        "scalar_type": lambda: [DTYPES.get(held, "unknown")],
        "layout": lambda: [LAYOUTS.get(held, "unknown")],
        "memory_format": lambda: [FORMATS.get(held, "unknown")],
        "constant": lambda: [held if isinstance(held, str) else held["name"]],
    }
    kinds = {
        "scalar_type": "dtype",
        "dtype_name": "dtype",
        "layout_name": "layout",
        "memory_format": "memory format",
    }
    return [kinds.get(variant, variant), *(found[variant]() if variant in found else [held])]


# ------------------------------------------------------------------------------------------ effects (CAN-27)

PURE, ORDERED, FIXED = range(3)
_RULES = rules("canonical.md")
ASSERTIONS, MUTATING, OVERLOADS, RANDOM = (set(words(_RULES[f"CAN-{number}"])) for number in (28, 29, 30, 31))
_CONTAINERS, _, _OTHERS = _RULES["CAN-32"].partition("Those with another effect")
FUNCTIONS = ("_operator.", "math.", "builtins.", "torch.sym_", "torch._sym_")


def effect_of(target: str, returns: bool) -> int:
    found = re.fullmatch(r"torch\.ops\.(aten|prims)\.(\w+)\.(\w+)", target, re.ASCII)
    if found:
        namespace, name, overload = found.groups()
        if name in ASSERTIONS:
            return ORDERED
        in_place = name.startswith("__i") if name.endswith("__") else name.endswith("_")
        if name in MUTATING or in_place or "out" in overload or overload in OVERLOADS:
            return FIXED
        if namespace == "prims" and (name == "as_strided" or name.startswith("inductor_")):
            return FIXED
        if not returns:
            return FIXED
        return ORDERED if name in RANDOM else PURE
    if target.startswith("torch.ops.higher_order."):
        name = target.removeprefix("torch.ops.higher_order.")
        if name in words(_CONTAINERS):
            return PURE
        return ORDERED if name in words(_OTHERS) else FIXED
    guardless = "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless"
    return PURE if target.startswith(FUNCTIONS) or target == guardless else FIXED


# ------------------------------------------------------------------------------------------ graphs (CAN-15 to CAN-26)


class Step:
    """A node: its content, and what decides its place."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node, self.found = node, Found()
        inputs = node["inputs"]
        if inputs and inputs[-1]["name"]:
            inputs = sorted(inputs, key=lambda each: each["name"])
        self.inputs = [[each["name"], self.found.argument(each["arg"])] for each in inputs]
        self.uses = [name for _, name in self.found.values]
        self.outputs = [self.found.argument(each) for each in node["outputs"]]
        self.makes = [name for _, name in self.found.values[len(self.uses) :]]
        self.is_tuple = (
            node.get("is_hop_single_tensor_return") is False and len(self.outputs) == 1 and bool(self.makes)
        )
        self.inner = []
        for place, graph in self.found.graphs:
            form = Form(graph)
            place[-1] = digest(packed(form.content))
            self.inner.append((place, form))
        self.effect = max(
            [effect_of(node["target"], bool(self.outputs)), *(form.effect for _, form in self.inner)]
        )
        self.shape = b""


class Form:
    """A graph in canonical order, with new names."""

    def __init__(self, graph: dict[str, Any], literals: list[str | None] | None = None) -> None:
        self.graph, self.steps = graph, [Step(node) for node in graph["nodes"]]
        outside = Found()
        inputs = [outside.argument(each) for each in graph["inputs"]]
        given = [name for _, name in outside.values]
        outputs = [outside.argument(each) for each in graph["outputs"]]
        taken = [name for _, name in outside.values[len(given) :]]
        whole = {name for step in self.steps for place, name in step.found.values if place[0] == "results"}
        whole |= {name for place, name in outside.values if place[0] == "results"}
        for step in self.steps:
            name = f"results {step.node.get('name')}"
            if step.node.get("name") is not None and name in whole:
                step.makes.append(name)
            step.shape = packed([step.inputs, step.is_tuple, len(step.makes)])
        self.effect = max((step.effect for step in self.steps), default=PURE)
        self.order = self.ordered(given, taken)
        self.names = self.named(literals)
        self.objects: list[tuple[list[Tree], str]] = []
        for found in [*(self.steps[index].found for index in self.order), outside]:
            for place, name in found.values:
                place[-1] = self.names.get(name, name)
                if name not in self.names and place[0] == "object":
                    self.objects.append((place, name))
        nodes = []
        for index in self.order:
            step = self.steps[index]
            node = {"inputs": step.inputs, "operator": step.node["target"], "outputs": step.outputs}
            if (results := self.names.get(f"results {step.node.get('name')}")) is not None:
                node["results"] = results
            nodes.append({**node, "tuple": True} if step.is_tuple else node)
        self.content: dict[str, Tree] = {"inputs": inputs, "nodes": nodes, "outputs": outputs}
        if graph.get("is_single_tensor_return"):
            self.content["single"] = True

    def named(self, literals: list[str | None] | None) -> dict[str, str]:  # CAN-17
        given = self.graph.get("input_names") or literals or []
        names: dict[str, str] = {}
        for index, argument in enumerate(self.graph["inputs"]):
            found = Found()
            found.argument(argument)
            names |= {name: f"in_{index}" for _, name in found.values}
            if index < len(given) and given[index] is not None:
                names.setdefault(str(given[index]), f"in_{index}")
        made = [name for index in self.order for name in self.steps[index].makes]
        for number, name in enumerate(made):
            names.setdefault(name, f"v_{number}")
        return names

    def ordered(self, given: list[str], taken: list[str]) -> list[int]:  # CAN-21, CAN-22
        uses = self.use_digests(given, taken)
        ranks = {name: rank for rank, name in enumerate(given)}
        order: list[int] = []
        segments: list[list[int]] = [[]]
        for index, step in enumerate(self.steps):
            if step.effect == FIXED:
                segments += [[index], []]
            else:
                segments[-1].append(index)
        for segment in segments:
            makers = {name: index for index in segment for name in self.steps[index].makes}
            before = dict.fromkeys(segment, -1)
            ordered = [index for index in segment if self.steps[index].effect == ORDERED]
            before.update(zip(ordered[1:], ordered, strict=False))
            waiting = {
                index: {
                    makers[name] for name in self.steps[index].uses if name in makers and name not in ranks
                }
                | {before[index]} - {-1}
                for index in segment
            }
            while waiting:
                ready = [index for index, awaited in waiting.items() if not awaited & waiting.keys()]
                key = min(
                    (
                        self.steps[index].node["target"],
                        [ranks.get(name, -1) for name in self.steps[index].uses],
                        self.steps[index].shape,
                        uses[index],
                        index,
                    )
                    for index in ready
                )
                del waiting[key[-1]]
                order.append(key[-1])
                for name in self.steps[key[-1]].makes:
                    ranks.setdefault(name, len(ranks))
        return order

    def use_digests(self, given: list[str], taken: list[str]) -> list[bytes]:  # CAN-25, CAN-26
        values = {name: digest("input", rank) for rank, name in enumerate(given)}
        own, turns = [], 0
        for step in self.steps:
            turns += step.effect != PURE
            read = [values.get(name, b"constant") for name in step.uses]
            own.append(digest(step.node["target"], step.shape, turns if step.effect != PURE else "", *read))
            for position, name in enumerate(step.makes):
                values.setdefault(name, digest(own[-1], position))
        self.node_digests = own
        uses: dict[str, list[bytes]] = {}
        for position, name in enumerate(taken):
            uses.setdefault(name, []).append(digest("output", position))
        found = [b""] * len(self.steps)
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if any(name in uses for name in step.makes):
                found[index] = digest(*(digest(*sorted(uses.get(name, []))) for name in step.makes))
            reader = digest(own[index], found[index])
            for position, name in enumerate(step.uses):
                uses.setdefault(name, []).append(digest(reader, position))
        self.uses = found
        return found

    def walk(self) -> Iterator[Form]:
        yield self
        for index in self.order:
            for _, inner in self.steps[index].inner:
                yield from inner.walk()

    def texts(self) -> Iterator[str]:
        for name in self.names:
            meta = self.graph["tensor_values"].get(name)
            tables = (self.graph.get(f"sym_{kind}_values", {}) for kind in ("int", "float", "bool"))
            numbers = (
                [*meta["sizes"], *meta["strides"], meta["storage_offset"]]
                if meta
                else [table.get(name) for table in tables]
            )
            yield from (each["as_expr"]["expr_str"] for each in numbers if each and "as_expr" in each)

    def add_values(self, names: dict[str, str]) -> None:  # CAN-18
        def number(value: dict[str, Any]) -> Tree:
            if "as_expr" in value:
                return content(Constructor(value["as_expr"]["expr_str"]).read(), names)
            return next(iter(value.values()))

        values: list[Tree] = []
        for name, new in self.names.items():
            if (meta := self.graph["tensor_values"].get(name)) is not None:
                tensor = {
                    "device": [meta["device"]["type"], meta["device"].get("index")],
                    "dtype": meta.get("dtype_name") or DTYPES.get(meta["dtype"], "unknown"),
                    "layout": meta.get("layout_name") or LAYOUTS.get(meta["layout"], "unknown"),
                    "offset": number(meta["storage_offset"]),
                    "requires_grad": meta["requires_grad"],
                    "sizes": [number(size) for size in meta["sizes"]],
                    "strides": [number(stride) for stride in meta["strides"]],
                }
                values.append([new, "tensor", tensor])
            for kind in ("int", "float", "bool"):
                if (value := self.graph.get(f"sym_{kind}_values", {}).get(name)) is not None:
                    found = number(value)
                    if kind == "float" and (
                        isinstance(found, str) or (type(found) is int and abs(found) < 1 << 53)
                    ):
                        found = real(found)
                    values.append([new, kind, found])
            if (held := self.graph.get("custom_obj_values", {}).get(name)) is not None:
                values.append([new, "object", held["class_fqn"]])
        self.content["values"] = values
        for step in self.steps:
            for place, inner in step.inner:
                inner.add_values(names)
                place[-1] = inner.content


# ------------------------------------------------------------------------------------------ programs (CAN-7 to CAN-14)

ORDER = {
    "token": 0,
    "parameter": 1,
    "buffer": 2,
    "tensor_constant": 3,
    "custom_obj": 4,
    "user_input": 5,
    "constant_input": 5,
} | {
    "buffer_mutation": 1,
    "parameter_mutation": 2,
    "user_input_mutation": 3,
    "user_output": 4,
    "loss_output": 4,
    "gradient_to_parameter": 5,
    "gradient_to_user_input": 6,
}
KINDS = {
    "tensor_constant": "constant",
    "custom_obj": "object",
    "user_input": "argument",
    "constant_input": "literal",
} | {
    "buffer_mutation": "new buffer",
    "parameter_mutation": "new parameter",
    "user_input_mutation": "new argument",
    "user_output": "result",
    "loss_output": "loss",
    "gradient_to_parameter": "gradient of parameter",
    "gradient_to_user_input": "gradient of argument",
}
TARGETS = ("parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name")


def of_value(argument: dict[str, Any]) -> str | None:
    ((_, held),) = argument.items()
    return (held.get("as_name") or held.get("name")) if isinstance(held, dict) else None


def program_tree(program: dict[str, Any]) -> tuple[Tree, Form]:
    module = program["graph_module"]
    graph, signature, ranges = module["graph"], module["signature"], program["range_constraints"]
    places = {
        of_value(argument): place
        for place, (spec, argument) in enumerate(zip(signature["input_specs"], graph["inputs"], strict=True))
        if "user_input" in spec
    }

    def rank(pair: tuple[dict[str, Any], Any]) -> tuple[int, str, int]:
        ((variant, held),) = pair[0].items()
        name = next((held[field] for field in TARGETS if field in held), "")
        return ORDER[variant], name, places.get(held.get("user_input_name"), 0)

    inputs = sorted(zip(signature["input_specs"], graph["inputs"], strict=True), key=rank)
    outputs = sorted(zip(signature["output_specs"], graph["outputs"], strict=True), key=rank)
    literals = [
        (spec.get("constant_input") or spec.get("user_input") or {}).get("name") for spec, _ in inputs
    ]
    sides = {"inputs": [argument for _, argument in inputs], "outputs": [argument for _, argument in outputs]}
    form = Form({**graph, **sides}, literals)
    names = symbol_names([text for each in form.walk() for text in each.texts()], ranges)
    form.add_values(names)
    objects: dict[str, str] = {}
    for each in form.walk():
        for place, name in each.objects:
            place[-1] = objects.setdefault(name, f"object_{len(objects)}")

    def spec_tree(spec: dict[str, Any]) -> Tree:
        ((variant, held),) = spec.items()
        tree = [KINDS.get(variant, variant), *(held[field] for field in TARGETS if field in held)]
        if "user_input_name" in held:
            tree.append(form.names.get(held["user_input_name"], held["user_input_name"]))
        if variant == "buffer":
            tree.append(held["persistent"])
        if variant == "constant_input":
            tree.append(Found().argument(held["value"]) if held["value"] else None)
        return tree

    limits = [
        [content(Infix(text).relation(), names), ends["min_val"], ends["max_val"]]
        for text, ends in ranges.items()
    ]
    tuples = module.get("treespec_namedtuple_fields", {})
    tree = {
        "calls": calls(module["module_call_graph"], form.names),
        "dialects": sorted(set(program.get("verifiers", []))),
        "graph": form.content,
        "guards": sorted(set(program.get("guards_code", []))),
        "inputs": [spec_tree(spec) for spec, _ in inputs],
        "namedtuples": [[name, tuples[name]["field_names"]] for name in sorted(tuples)],
        "opsets": [
            [name, version] for name, version in sorted(program["opset_version"].items()) if version != 1
        ],
        "outputs": [spec_tree(spec) for spec, _ in outputs],
        "ranges": sorted(limits, key=packed),
    }
    return tree, form


def calls(entries: list[dict[str, Any]], names: dict[str, str]) -> list[Tree]:
    stale: dict[str, str] = {}

    def listed(arguments: list[dict[str, Any]]) -> list[Tree]:
        found = Found()
        trees = [found.argument(argument) for argument in arguments]
        for place, name in found.values:
            place[-1] = names[name] if name in names else stale.setdefault(name, f"absent_{len(stale)}")
        return trees

    trees: list[Tree] = []
    for entry in sorted(entries, key=lambda entry: str(entry["fqn"])):
        call = entry.get("signature")
        if call is None:
            trees.append([entry["fqn"]])
            continue
        sides = [listed(call["inputs"]), listed(call["outputs"])]
        specs = [structure(call["in_spec"]), structure(call["out_spec"])]
        trees.append([entry["fqn"], *sides, *specs, call.get("forward_arg_names") or []])
    return trees


def content_hash(program: dict[str, Any]) -> str:
    tree, _ = program_tree(program)
    return "gw1:" + hashlib.sha256(b"graphwire content gw1\0" + packed(tree)).hexdigest()


# ------------------------------------------------------------------------------------------ weights (CAN-44 to CAN-46)

WIDTHS = {
    name: 1
    for name in "uint8 int8 bool float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()
}
WIDTHS |= dict.fromkeys("int16 uint16 float16 bfloat16".split(), 2) | dict.fromkeys(
    "int32 uint32 float32 complex32".split(), 4
)
WIDTHS |= dict.fromkeys("int64 uint64 float64 complex64".split(), 8) | {"complex128": 16}
FOLDERS = {"constant": "data/constants/", "weight": "data/weights/"}


def weights_tree(
    program: dict[str, Any], configs: dict[str, dict[str, Any]], read: Callable[[str], bytes]
) -> Tree:
    """Return the tree of the weights.

    Args:
        program: the document.
        configs: the payloads by name, under `weight` and `constant`.
        read: returns the bytes of a record.
    """
    payloads = [(kind, name, held) for kind, config in configs.items() for name, held in config.items()]
    storages = {
        (kind, name): held.get("shared") or FOLDERS[kind] + held["path_name"] for kind, name, held in payloads
    }
    filled = {storages[kind, name] for kind, name, held in payloads if not is_empty(held)}
    digests = []
    for kind, name, held in payloads:
        own, placement = storages[kind, name], held.get("placement")
        sharing = sorted(other for (_, other), storage in storages.items() if storage == own)
        tree: dict[str, Any] = {"conjugated": held.get("conj"), "negated": held.get("neg")}
        tree |= {"parameter": held["is_param"], "pickled": held["use_pickle"]}
        tree = {key: True for key, value in tree.items() if value} | (
            {"placement": placement} if placement else {}
        )
        if placement is None and own in filled and len(sharing) > 1:
            tree["shared"] = sharing
        tree |= tensor_facts(held["tensor_meta"])
        elements = b"" if placement else elements_of(held, FOLDERS[kind], read)
        digests.append([kind, name, hashlib.sha256(packed(tree) + elements).hexdigest()])
    encoded = program.get("encoded_values", {})
    coded = [
        [name, encoded[name]["codec"], plain(encoded[name]["tree"]), encoded[name]["tensors"]]
        for name in sorted(encoded)
    ]
    return [sorted(digests), coded]


def extents(meta: dict[str, Any], field: str) -> list[int]:
    return [each["as_int"] for each in meta[field]]


def is_empty(held: dict[str, Any]) -> bool:
    return held["tensor_meta"] is not None and 0 in extents(held["tensor_meta"], "sizes")


def dtype_of(meta: dict[str, Any]) -> str:
    return str(meta.get("dtype_name") or DTYPES.get(meta["dtype"], "unknown"))


def dimensions(meta: dict[str, Any]) -> list[tuple[int, int]]:
    pairs = zip(extents(meta, "sizes"), extents(meta, "strides"), strict=True)
    return [(size, stride) for size, stride in pairs if size != 1]


def tensor_facts(meta: dict[str, Any] | None) -> dict[str, Any]:
    if meta is None:
        return {}
    facts = {
        "dtype": dtype_of(meta),
        "layout": meta.get("layout_name") or LAYOUTS.get(meta["layout"], "unknown"),
    }
    facts |= {"requires_grad": meta["requires_grad"], "sizes": extents(meta, "sizes")}
    found = dimensions(meta)
    order = sorted(range(len(found)), key=lambda index: -found[index][1])
    if order != sorted(order):
        facts["order"] = order
    if any(stride == 0 for _, stride in found):
        facts["expanded"] = extents(meta, "strides")
    return facts


def elements_of(held: dict[str, Any], folder: str, read: Callable[[str], bytes]) -> bytes:
    meta = held["tensor_meta"]
    if is_empty(held):
        return b""
    width = 0 if meta is None or held["use_pickle"] else WIDTHS.get(dtype_of(meta), 0)
    if not width:
        return read(folder + held["path_name"])
    offsets = [meta["storage_offset"]["as_int"]]
    placed = [(stride, index, size) for index, (size, stride) in enumerate(dimensions(meta)) if stride > 0]
    for stride, _, size in sorted(placed, reverse=True):
        offsets = [offset + step * stride for offset in offsets for step in range(size)]
    data = read(folder + held["path_name"])
    return b"".join(data[offset * width : (offset + 1) * width] for offset in offsets)


def content_hash_with_weights(
    program: dict[str, Any], configs: dict[str, dict[str, Any]], read: Callable[[str], bytes]
) -> str:
    tree, _ = program_tree(program)
    whole = b"graphwire content gw1w\0" + packed(tree) + packed(weights_tree(program, configs, read))
    return "gw1w:" + hashlib.sha256(whole).hexdigest()
