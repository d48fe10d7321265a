"""Short spellings for documents, as plain trees in the shape of the schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

Tree = Any

LEAF = {"type": None, "context": None, "children_spec": []}
VERSION = {"major": 8, "minor": 20}


def tensor(name: str) -> Tree:
    """An argument: a tensor by name."""
    return {"as_tensor": {"name": name}}


def named(variant: str, name: str) -> Tree:
    """An argument: a symbolic number by name."""
    return {variant: {"as_name": name}}


def whole(*numbers: int) -> list[Tree]:
    """Sizes or strides that are known."""
    return [{"as_int": number} for number in numbers]


def symbolic(text: str, **hint: Any) -> Tree:
    """A size or value that is an expression."""
    return {"as_expr": {"expr_str": text, "hint": hint or None}}


def row_major(sizes: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    return [math.prod(max(size, 1) for size in sizes[index + 1 :]) for index in range(len(sizes))]


def meta(
    dtype: int = 7, sizes: Sequence[int] = (2, 3), strides: Sequence[int] | None = None, **fields: Any
) -> Tree:
    """The metadata of a strided tensor."""
    return {
        "dtype": dtype,
        "sizes": whole(*sizes),
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": whole(*(row_major(sizes) if strides is None else strides)),
        "storage_offset": {"as_int": 0},
        "layout": 7,
        **fields,
    }


def node(
    target: str, inputs: Sequence[tuple[str, Tree]], outputs: Sequence[Tree], name: str, **fields: Any
) -> Tree:
    """A call; inputs are positional."""
    return {
        "target": target,
        "inputs": [{"name": parameter, "arg": arg, "kind": 1} for parameter, arg in inputs],
        "outputs": list(outputs),
        "metadata": {},
        "is_hop_single_tensor_return": None,
        "name": name,
        **fields,
    }


def relu(source: str = "x", result: str = "relu") -> Tree:
    """A call of relu."""
    return node("torch.ops.aten.relu.default", [("self", tensor(source))], [tensor(result)], result)


def graph(
    inputs: Sequence[Tree] = (),
    outputs: Sequence[Tree] = (),
    nodes: Sequence[Tree] = (),
    tensors: dict[str, Tree] | None = None,
    **fields: Any,
) -> Tree:
    """A graph."""
    return {
        "inputs": list(inputs),
        "outputs": list(outputs),
        "nodes": list(nodes),
        "tensor_values": tensors or {},
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
        "sym_float_values": {},
        **fields,
    }


def treespec(tree: Tree) -> str:
    """The text of a treespec."""
    return json.dumps([1, tree])


def container(kind: str, context: Any, *children: Tree) -> Tree:
    """A node of a treespec, with a context that is JSON text."""
    return {"type": kind, "context": json.dumps(context), "children_spec": list(children)}


def calls(inputs: Sequence[Tree], outputs: Sequence[Tree], **fields: Any) -> list[Tree]:
    """The module call graph of a program whose module takes and returns flat tuples."""
    arguments = container("builtins.tuple", None, *[LEAF] * len(inputs))
    keywords = container("builtins.dict", [])
    return [
        {
            "fqn": "",
            "signature": {
                "inputs": [],
                "outputs": [],
                "in_spec": treespec(container("builtins.tuple", None, arguments, keywords)),
                "out_spec": treespec(container("builtins.tuple", None, *[LEAF] * len(outputs))),
                "forward_arg_names": None,
                **fields,
            },
        }
    ]


def program(
    contents: Tree,
    input_specs: Sequence[Tree] | None = None,
    output_specs: Sequence[Tree] | None = None,
    **fields: Any,
) -> Tree:
    """A program. By default the caller passes every input and receives every output."""
    inputs = (
        [{"user_input": {"arg": each}} for each in contents["inputs"]]
        if input_specs is None
        else list(input_specs)
    )
    outputs = (
        [{"user_output": {"arg": each}} for each in contents["outputs"]]
        if output_specs is None
        else list(output_specs)
    )
    passed = [spec["user_input"]["arg"] for spec in inputs if "user_input" in spec]
    returned = [spec["user_output"]["arg"] for spec in outputs if "user_output" in spec]
    module = {
        "graph": contents,
        "signature": {"input_specs": inputs, "output_specs": outputs},
        "module_call_graph": calls(passed, returned),
        "metadata": {},
        "treespec_namedtuple_fields": {},
    }
    module |= {key: fields.pop(key) for key in list(fields) if key in MODULE_FIELDS}
    return {
        "graph_module": module,
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": VERSION,
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        "guards_code": [],
        **fields,
    }


MODULE_FIELDS = (
    "signature module_call_graph metadata treespec_namedtuple_fields stack_frames node_sources inline_constraints replacements"
).split()


def simple(**fields: Any) -> Tree:
    """A program that returns the relu of its input `x`."""
    contents = graph([tensor("x")], [tensor("relu")], [relu()], {"x": meta(), "relu": meta()})
    return program(contents, **fields)


def taking(
    *arguments: Tree, requires: str = "", extra_nodes: Sequence[Tree] = (), whole: bool = True, **fields: Any
) -> Tree:
    """A program whose only call takes arguments of any kind. `x`, `y`, and the symbols `n`, `f`, `b` are values.

    Args:
        whole: whether it has `f` and `b` although no argument is one.
    """
    take = node(
        "torch.ops.conformance.take.default",
        [(f"a{index}", each) for index, each in enumerate(arguments)],
        [tensor("z")],
        "take",
    )
    size = "Symbol('s0', positive=True, integer=True)"
    contents = graph(
        [tensor("x"), tensor("y"), named("as_sym_int", "n")],
        [tensor("z")],
        [*extra_nodes, take],
        {"x": meta(), "y": meta(), "z": meta()},
        sym_int_values={"n": symbolic(size, as_int=4)},
        sym_float_values={"f": symbolic("Symbol('zuf0', real=True)", as_float=0.5)},
        sym_bool_values={"b": symbolic(f"GreaterThan({size}, Integer(3))", as_bool=True)},
    )
    contents["nodes"][:0] = [
        node("torch.ops.conformance.number.default", [], [named("as_sym_float", "f")], "f"),
        node("torch.ops.conformance.truth.default", [], [named("as_sym_bool", "b")], "b"),
    ]
    if not whole and not re.search('"[fb]"', json.dumps(arguments)):
        contents |= {"nodes": [*extra_nodes, take], "sym_float_values": {}, "sym_bool_values": {}}
    contents |= {key: fields.pop(key) for key in list(fields) if key in contents}
    made = program(contents, range_constraints={"s0": {"min_val": 2, "max_val": 64}}, **fields)
    return made | ({"requires": requires.split()} if requires else {})
