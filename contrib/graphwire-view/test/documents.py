"""Builds documents of programs directly, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Tree = dict[str, Any]


def tensor(name: str) -> Tree:
    """Return an argument that refers to a tensor."""
    return {"as_tensor": {"name": name}}


def node(
    name: str,
    target: str,
    inputs: Mapping[str, Tree],
    modules: Sequence[tuple[str, str]],
    metadata: Mapping[str, str],
) -> Tree:
    """Return a node with one result, which has the node's name.

    Args:
        modules: the path and class of each module around it.
    """
    stack = json.dumps([[path, path, kind] for path, kind in modules])
    return {
        "target": target,
        "inputs": [{"name": each, "arg": argument, "kind": 1} for each, argument in inputs.items()],
        "outputs": [tensor(name)],
        "metadata": {"graphwire.nn_module_stack": stack, **metadata},
        "name": name,
    }


def document(
    nodes: Sequence[Tree],
    inputs: Sequence[str],
    weights: Mapping[str, str],
    results: Mapping[str, str],
    **fields: Any,
) -> bytes:
    """Return a program's document as JSON.

    Args:
        weights: the qualified name of each parameter, by its value.
        results: the value under each key of the dict that the program returns.
    """
    values = [*weights, *inputs, *(node["name"] for node in nodes)]
    parameters = [
        {"parameter": {"arg": {"name": value}, "parameter_name": name}} for value, name in weights.items()
    ]
    graph = {
        "inputs": [tensor(name) for name in (*weights, *inputs)],
        "outputs": [tensor(value) for value in results.values()],
        "nodes": list(nodes),
        "tensor_values": {value: _FLOATS for value in values},
        "sym_int_values": {},
        "sym_bool_values": {},
    }
    signature = {
        "input_specs": [*parameters, *({"user_input": {"arg": tensor(name)}} for name in inputs)],
        "output_specs": [{"user_output": {"arg": tensor(value)}} for value in results.values()],
    }
    positional = _container("builtins.tuple", "null", len(inputs))
    whole = {
        "type": "builtins.tuple",
        "context": "null",
        "children_spec": [positional, _container("builtins.dict", "[]", 0)],
    }
    called = {
        "inputs": [],
        "outputs": [],
        "in_spec": json.dumps([1, whole]),
        "out_spec": json.dumps([1, _container("builtins.dict", json.dumps(list(results)), len(results))]),
        "forward_arg_names": list(inputs),
    }
    program = {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "module_call_graph": [{"fqn": "", "signature": called}],
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        **fields,
    }
    return json.dumps(program).encode()


_LEAF = {"type": None, "context": None, "children_spec": []}

_FLOATS = {
    "dtype": 7,
    "sizes": [{"as_int": 2}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
    "strides": [{"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 7,
}


def _container(kind: str, context: str, children: int) -> Tree:
    return {"type": kind, "context": context, "children_spec": [_LEAF] * children}
