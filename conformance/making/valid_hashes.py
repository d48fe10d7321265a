"""Valid files for content hashes: spellings of one program, whose hash is the same, and programs that differ in one fact."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from making.documents import Tree, graph, meta, named, node, program, symbolic, tensor
from making.files import Archive, Case, edited

S0, S1 = "Symbol('s0', positive=True, integer=True)", "Symbol('s1', positive=True, integer=True)"


def base(x: str = "x", n: str = "n", s0: str = S0, s1: str = S1) -> Tree:
    """A program with symbols, two independent calls, and a sum of their results."""
    value = meta(7, (1, 3)) | {
        "sizes": [symbolic(f"Add(Mul(Integer(2), {s0}), {s1})", as_int=9), {"as_int": 3}]
    }
    value["strides"] = [{"as_int": 3}, {"as_int": 1}]
    nodes = [
        node("torch.ops.aten.relu.default", [("self", tensor(x))], [tensor("a")], "a"),
        node("torch.ops.aten.sin.default", [("self", tensor(x))], [tensor("b")], "b"),
        node(
            "torch.ops.aten.add.Tensor",
            [("self", tensor("a")), ("other", tensor("b")), ("alpha", {"as_int": 2})],
            [tensor("c")],
            "c",
        ),
    ]
    nodes[2]["inputs"][2]["kind"] = 2
    contents = graph(
        [tensor(x), named("as_sym_int", n)],
        [tensor("c")],
        nodes,
        {name: value for name in (x, "a", "b", "c")},
        sym_int_values={n: symbolic(s0, as_int=4)},
    )
    name_0, name_1 = s0.split("'")[1], s1.split("'")[1]
    ranges = {name_0: {"min_val": 2, "max_val": 64}, name_1: {"min_val": 1, "max_val": None}}
    return program(contents, range_constraints=ranges)


NODES = "graph_module.graph.nodes"


def _swapped(tree: Tree) -> Tree:
    made = copy.deepcopy(tree)
    nodes = made["graph_module"]["graph"]["nodes"]
    nodes[0], nodes[1] = nodes[1], nodes[0]
    return made


def _respelled(tree: Tree) -> Tree:
    made = copy.deepcopy(tree)
    for value in made["graph_module"]["graph"]["tensor_values"].values():
        value["sizes"][0] = symbolic(f"Add( {S1}, Mul({S0}, Integer(2)) )")
    return made


def _renamed_values(tree: Tree) -> Tree:
    return base(x="input_1", n="size")


SAME: dict[str, tuple[str, Callable[[Tree], Tree]]] = {
    "names_of_values": ("values have other names", _renamed_values),
    "names_of_nodes": ("nodes have other names", lambda tree: edited(tree, f"{NODES}.0.name", "relu_7")),
    "names_of_symbols": (
        "symbols have other names",
        lambda _: base(s0=S0.replace("s0", "s77"), s1=S1.replace("s1", "s26")),
    ),
    "order_of_nodes": ("two independent calls are in another order", _swapped),
    "spelling_of_expressions": ("sums and products are in another order", _respelled),
    "metadata": (
        "a call has metadata",
        lambda tree: edited(tree, f"{NODES}.0.metadata", {"torch_fn": "a;b"}),
    ),
    "producer": (
        "the document names its writer",
        lambda tree: tree | {"producer": "somebody", "torch_version": "2.9.0"},
    ),
    "kind": (
        "the inputs do not state how they are passed",
        lambda tree: edited(tree, f"{NODES}.1.inputs.0.kind", 0),
    ),
    "defaults": (
        "fields have their default values",
        lambda tree: tree | {"requires": [], "encoded_values": {}},
    ),
}
OTHER: dict[str, tuple[str, Callable[[Tree], Tree]]] = {
    "operator": (
        "another operator",
        lambda tree: edited(tree, f"{NODES}.1.target", "torch.ops.aten.cos.default"),
    ),
    "literal": ("another number", lambda tree: edited(tree, f"{NODES}.2.inputs.2.arg", {"as_int": 3})),
    "literal_kind": (
        "the number as a float",
        lambda tree: edited(tree, f"{NODES}.2.inputs.2.arg", {"as_float": 2.0}),
    ),
    "operands": (
        "the operands of the sum are exchanged",
        lambda tree: edited(
            edited(tree, f"{NODES}.2.inputs.0.arg", tensor("b")), f"{NODES}.2.inputs.1.arg", tensor("a")
        ),
    ),
    "range": ("another range", lambda tree: edited(tree, "range_constraints.s0.max_val", 63)),
    "opset": ("another version of the operators", lambda tree: tree | {"opset_version": {"aten": 9}}),
    "guard": ("a guard", lambda tree: tree | {"guards_code": ["L['x'].size()[0] > 2"]}),
}


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    tree = base()
    rows = {"base": ("a program", tree)}
    rows |= {
        f"same_{name}": (f"the same program: {about}", change(tree)) for name, (about, change) in SAME.items()
    }
    rows |= {
        f"other_{name}": (f"another program: {about}", change(tree))
        for name, (about, change) in OTHER.items()
    }
    for name, (about, made) in rows.items():
        yield Case(f"hashes/{name}", about, Archive({"model": made}).small().build())
