"""Documents with one construct each, and what torch's own `torch.export.load` makes of them.

A document is written as its target's steps leave it, obstacles or not, so that what is called unreadable is tried as well.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
from inside.evolve import TARGETS, obstacles_to
from inside.schema import to_tree
from inside.wire import Document, save_package, write_plain_json
from torch.export import Dim, ExportedProgram, export

import graphwire
from graphwire import Payloads
from graphwire.errors import Obstacle

Tree = dict[str, Any]

HOP = "torch.ops.higher_order.cond"
LEAF: Tree = {"type": None, "context": None, "children_spec": []}
LITERALS = ("as_none", "as_int", "as_float", "as_string", "as_bool")

_LIBRARY = torch.library.Library("graphwire_probe", "FRAGMENT")
for _schema in (
    "one(Tensor x) -> Tensor",
    "some(Tensor x) -> Tensor[]",
    "number(Tensor x) -> int",
    "two(Tensor x) -> (Tensor, Tensor)",
):
    _LIBRARY.define(_schema)


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, y + 1


@functools.cache
def _exported() -> tuple[Tree, Payloads]:
    program = export(_Model(), (torch.ones(4, 3), torch.ones(3)), dynamic_shapes=({0: Dim("s", min=2)}, None))
    record, payloads = graphwire.to_schema(program)
    tree = to_tree(record)
    return {
        key: value for key, value in tree.items() if key not in ("example_inputs", "guards_code")
    }, payloads


def tensor(name: str) -> Tree:
    """A tensor by its name, as an argument."""
    return {"as_tensor": {"name": name}}


def call(
    target: str, name: str, inputs: list[tuple[str, Tree]], outputs: list[Tree], bare: bool | None = None
) -> Tree:
    """A node."""
    given = [{"name": parameter, "arg": argument, "kind": 1} for parameter, argument in inputs]
    node = {"target": target, "name": name, "inputs": given, "outputs": outputs, "metadata": {}}
    return node if bare is None else {**node, "is_hop_single_tensor_return": bare}


def base() -> Tree:
    """A program with tensors `x` and `y`, and a symbolic integer `n`, float `f` and truth value `b`."""
    tree: Tree = copy.deepcopy(_exported()[0])
    graph = tree["graph_module"]["graph"]
    integer = {"as_sym_int": {"as_name": "n"}}
    graph["nodes"] = [
        call("torch.ops.aten.sym_size.int", "n", [("self", tensor("x")), ("dim", {"as_int": 0})], [integer]),
        call("torch.sym_float", "f", [("a", integer)], [{"as_sym_float": {"as_name": "f"}}]),
        call(
            "_operator.gt", "b", [("a", integer), ("b", {"as_int": 1})], [{"as_sym_bool": {"as_name": "b"}}]
        ),
        *graph["nodes"],
    ]
    graph["sym_int_values"] = {"n": graph["tensor_values"]["x"]["sizes"][0]}
    graph["sym_float_values"] = {"f": {"as_float": 4.0}}
    graph["sym_bool_values"] = {"b": {"as_bool": True}}
    return tree


def with_nodes(tree: Tree, *nodes: Tree) -> Tree:
    """The program with more nodes, whose tensors are as `y`."""
    graph = tree["graph_module"]["graph"]
    graph["nodes"] = [*graph["nodes"], *nodes]
    meta = graph["tensor_values"]["y"]
    made = [
        output["as_tensor"]["name"] for node in nodes for output in node["outputs"] if "as_tensor" in output
    ]
    graph["tensor_values"] = {**graph["tensor_values"], **dict.fromkeys(made, meta)}
    return tree


USED: dict[str, Any] = {
    "as_none": True,
    "as_tensor": {"name": "y"},
    "as_tensors": [{"name": "x"}, {"name": "y"}],
    "as_int": 3,
    "as_ints": [1, 2],
    "as_float": 0.5,
    "as_floats": [0.5, "Infinity"],
    "as_string": "text",
    "as_strings": ["a", "b"],
    "as_sym_int": {"as_name": "n"},
    "as_sym_ints": [{"as_name": "n"}, {"as_int": 2}],
    "as_scalar_type": 7,
    "as_memory_format": 1,
    "as_layout": 7,
    "as_device": {"type": "cpu"},
    "as_bool": True,
    "as_bools": [True, False],
    "as_sym_bool": {"as_name": "b"},
    "as_sym_bools": [{"as_name": "b"}, {"as_bool": True}],
    "as_graph": None,  # made for each
    "as_optional_tensors": [tensor("y"), {"as_none": True}],
    "as_custom_obj": {"name": "queue", "class_fqn": "probe.Queue"},
    "as_operator": "torch.ops.aten.add.Tensor",
    "as_sym_float": {"as_name": "f"},
    "as_sym_floats": [{"as_name": "f"}, {"as_float": 1.5}],
    "as_optional_tensor": tensor("y"),
    "as_complex": {"real": 1.0, "imag": 2.0},
    "as_nested_tensors": [[{"name": "x"}], [{"name": "y"}]],
    "as_int_lists": [[1, 2], [3]],
    "as_string_to_argument": {"k": tensor("y"), "j": {"as_int": 1}},
    "as_float_lists": [[1.0], [2.0]],
    "as_sequence": {"kind": "list", "items": [{"as_int": 1}, {"as_string": "a"}]},
    "as_mapping": [{"key": {"as_int": 1}, "value": tensor("y")}],
    "as_slice": {part: {"as_none": True} for part in ("start", "stop", "step")},
    "as_dtype_name": "float4_e2m1fn_x2",
    "as_layout_name": "jagged",
    "as_constant": "graph::x",
    "as_treespec": json.dumps([1, LEAF]),
    "as_results": "made",
    "as_range": {"start": 0, "stop": 10, "step": 3},
}
"""What each variant holds where values are used."""

_MADE: dict[str, Any] = {
    "as_tensor": {"name": "p"},
    "as_tensors": [{"name": "p"}, {"name": "q"}],
    **{f"as_sym_{kind}": {"as_name": "p"} for kind in ("int", "float", "bool")},
    **{f"as_sym_{kind}s": [{"as_name": "p"}, {"as_name": "q"}] for kind in ("int", "float", "bool")},
    "as_optional_tensors": [tensor("p"), {"as_none": True}],
    "as_optional_tensor": tensor("p"),
    "as_nested_tensors": [[{"name": "p"}], [{"name": "q"}]],
    "as_string_to_argument": {"k": tensor("p")},
    "as_sequence": {"kind": "tuple", "items": [{"as_int": 1}, tensor("p")]},
    "as_custom_obj": {"name": "p", "class_fqn": "probe.Queue"},
    "as_mapping": [{"key": {"as_int": 1}, "value": tensor("p")}],
}
"""What those variants hold where values are made, which refer to some."""


def _made(variant: str) -> Tree:
    return {variant: _MADE.get(variant, USED[variant])}


def _declare(graph: Tree, variant: str, meta: Tree, size: Tree) -> None:
    """State the values that `_made` makes."""
    known = {"int": size, "float": {"as_float": 4.0}, "bool": {"as_bool": True}}
    several = isinstance(_MADE.get(variant), list) and variant not in ("as_optional_tensors", "as_mapping")
    names = ("p", "q") if several else ("p",)
    for kind, value in known.items():
        if variant in (f"as_sym_{kind}", f"as_sym_{kind}s"):
            table = f"sym_{kind}_values"
            graph[table] = {**graph.get(table, {}), **dict.fromkeys(names, value)}
            return
    if variant == "as_custom_obj":
        graph["custom_obj_values"] = {"p": _MADE[variant]}
    elif variant in _MADE:
        graph["tensor_values"] = {**graph["tensor_values"], **dict.fromkeys(names, meta)}


def subgraph(outputs: list[Tree], meta: Tree, *nodes: Tree, inputs: list[Tree] | None = None) -> Tree:
    """A graph that negates its first input `a` as `c`."""
    negated = call("torch.ops.aten.neg.default", "c", [("self", tensor("a"))], [tensor("c")])
    return {
        "inputs": [tensor("a"), *(inputs or [])],
        "outputs": outputs,
        "nodes": [negated, *nodes],
        "tensor_values": {"a": meta, "c": meta},
        "sym_int_values": {},
        "sym_bool_values": {},
    }


def _argument(tree: Tree, variant: str) -> Tree:
    return with_nodes(
        tree, call(HOP, "made", [("", tensor("y")), ("", _used(tree, variant))], [tensor("made")], True)
    )


def _used(tree: Tree, variant: str) -> Tree:
    if variant == "as_graph":
        graph = subgraph([tensor("c")], tree["graph_module"]["graph"]["tensor_values"]["y"])
        return {variant: {"name": "branch", "graph": graph}}
    return {variant: USED[variant]}


def _in_dict(tree: Tree, variant: str) -> Tree:
    inner = {"as_string_to_argument": {"k": _used(tree, variant)}}
    return with_nodes(tree, call(HOP, "made", [("", tensor("y")), ("", inner)], [tensor("made")], True))


def _more_leaves(text: str, side: Callable[[Tree], Tree]) -> str:
    protocol, spec = json.loads(text)
    side(spec)["children_spec"].append(LEAF)
    return json.dumps([protocol, spec])


def _output(tree: Tree, variant: str) -> Tree:
    module, argument = tree["graph_module"], _used(tree, variant)
    module["graph"]["outputs"] = [*module["graph"]["outputs"], argument]
    module["signature"]["output_specs"] = [
        *module["signature"]["output_specs"],
        {"user_output": {"arg": argument}},
    ]
    root = module["module_call_graph"][0]["signature"]
    root["outputs"] = [*root["outputs"], argument]
    root["out_spec"] = _more_leaves(root["out_spec"], lambda spec: spec)
    return tree


def _input(tree: Tree, variant: str) -> Tree:
    module, argument = tree["graph_module"], _made(variant) if variant != "as_graph" else _used(tree, variant)
    graph = module["graph"]
    _declare(graph, variant, graph["tensor_values"]["y"], graph["sym_int_values"]["n"])
    graph["inputs"] = [*graph["inputs"], argument]
    constant = {"constant_input": {"name": "literal", "value": argument}}
    spec = constant if variant in LITERALS else {"user_input": {"arg": argument}}
    module["signature"]["input_specs"] = [*module["signature"]["input_specs"], spec]
    root = module["module_call_graph"][0]["signature"]
    root["inputs"] = [*root["inputs"], argument]
    root["in_spec"] = _more_leaves(root["in_spec"], lambda spec: spec["children_spec"][0])  # type: ignore[no-any-return]
    root["forward_arg_names"] = ["x", "y", "z"]
    return tree


def _call_of_module(tree: Tree, variant: str) -> Tree:
    module = tree["graph_module"]
    inner = copy.deepcopy(module["module_call_graph"][0]["signature"])
    inner["inputs"] = [*inner["inputs"], _used(tree, variant)]
    module["module_call_graph"] = [*module["module_call_graph"], {"fqn": "inner", "signature": inner}]
    return tree


def _inner_input(tree: Tree, variant: str) -> Tree:
    graph = tree["graph_module"]["graph"]
    meta, size = graph["tensor_values"]["y"], graph["sym_int_values"]["n"]
    inner = subgraph(
        [tensor("c")], meta, inputs=[_made(variant) if variant != "as_graph" else _used(tree, variant)]
    )
    _declare(inner, variant, meta, size)
    if variant in LITERALS:
        inner["input_names"] = ["a", "literal"]
    return _with_subgraph(tree, inner)


def _with_subgraph(tree: Tree, inner: Tree) -> Tree:
    held = {"as_graph": {"name": "branch", "graph": inner}}
    return with_nodes(tree, call(HOP, "made", [("", tensor("y")), ("", held)], [tensor("made")], True))


def _inner_output(tree: Tree, variant: str) -> Tree:
    graph = tree["graph_module"]["graph"]
    meta, size = graph["tensor_values"]["y"], graph["sym_int_values"]["n"]
    nodes = []
    if variant in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        kind = variant.removeprefix("as_sym_")
        measured = {"as_sym_int": {"as_name": "m"}}
        target = {"int": "_operator.mul", "float": "torch.sym_float", "bool": "_operator.gt"}[kind]
        given = [("a", measured), ("b", {"as_int": 1})][: 1 if kind == "float" else 2]
        nodes = [
            call(
                "torch.ops.aten.sym_size.int",
                "m",
                [("self", tensor("a")), ("dim", {"as_int": 0})],
                [measured],
            ),
            call(target, "p", given, [_made(variant)]),
        ]
    local = {"as_tensor": {"name": "c"}, "as_tensors": [{"name": "c"}], "as_optional_tensor": tensor("c")}
    returned = (
        {variant: local[variant]}
        if variant in local
        else _made(variant)
        if variant != "as_graph"
        else _used(tree, variant)
    )
    inner = subgraph([tensor("c"), returned], meta, *nodes)
    if nodes:
        inner["sym_int_values"] = {"m": size}
        _declare(inner, variant, meta, size)
    return _with_subgraph(tree, inner)


def _made_by(target: str, *before: Tree, bare: bool | None = None) -> Callable[[Tree, str], Tree]:
    def make(tree: Tree, variant: str) -> Tree:
        graph = tree["graph_module"]["graph"]
        _declare(graph, variant, graph["tensor_values"]["y"], graph["sym_int_values"]["n"])
        results = {"as_tensor": "one", "as_tensors": "some"}
        name = target if target != "number" else results.get(variant, target)
        operator = HOP if name == HOP else f"torch.ops.graphwire_probe.{name}.default"
        outputs = [*before, _made(variant) if variant != "as_graph" else _used(tree, variant)]
        made = call(operator, "made", [("" if name == HOP else "x", tensor("y"))], outputs, bare)
        return with_nodes(tree, made)

    return make


PLACES: dict[str, Callable[[Tree, str], Tree]] = {
    "argument": _argument,
    "in a dict": _in_dict,
    "call of a module": _call_of_module,
    "input": _input,
    "input of a subgraph": _inner_input,
    "output": _output,
    "output of a subgraph": _inner_output,
    "result": _made_by("number"),
    "one of two results": _made_by("two", tensor("first")),
    "result of a higher-order operator": _made_by(HOP, bare=True),
    "result in a tuple": _made_by(HOP, bare=False),
    "one of two results of a higher-order operator": _made_by(HOP, tensor("first"), bare=False),
}
"""What puts a variant into a place of a program."""


def obstacles_and_file(tree: Tree, target: str) -> tuple[list[Obstacle], bytes]:
    """What `supports` says of a document, and a file of it all the same."""
    reader = TARGETS[target]
    plain, obstacles = obstacles_to(tree, reader.version, reader.release)
    document = write_plain_json(plain, bare_tokens=reader.nonfinite == "token")
    return obstacles, in_archive(document, reader.layout or "B2")


def in_archive(document: bytes, layout: str) -> bytes:
    """The archive of one document, in JSON."""
    stream = io.BytesIO()
    save_package(stream, {"model": Document(document, ".json", _exported()[1])}, None, layout=layout)
    return stream.getvalue()


def read_by_torch(data: bytes) -> ExportedProgram | None:
    """What torch's own reader makes of a file; None where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(io.BytesIO(data))
        except Exception:
            return None


def picture(program: ExportedProgram) -> list[str]:
    """The calls of a program, those in its subgraphs too, in words that two readings can be compared by."""
    modules = [each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    return [
        f"{node.op} {node.target} {node.args!r} {dict(node.kwargs)!r}"
        for module in modules
        for node in module.graph.nodes
        if node.op in ("call_function", "output") and not _is_unused_element(node)
    ]


def _is_unused_element(node: torch.fx.Node) -> bool:
    """torch makes a reader of each element, used or not."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem" and not node.users
