"""Names that older releases give a value themselves: FX renames a value called like a builtin (`input` → `input_1`).

From 2.4 on the readers put the name back afterwards. Up to 2.3 they do not, and then miss the name that the signature says.
"""

from __future__ import annotations

import builtins
import itertools
from keyword import iskeyword
from typing import Any

from graphwire.evolve.trees import Record

__all__ = ["without_builtin_names"]

_FX_NAMES = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_TABLES = ("tensor_values", "sym_int_values", "sym_bool_values", "custom_obj_values")


def without_builtin_names(tree: Record) -> Record:
    """A program whose top-level values have no builtin's name."""
    module = tree["graph_module"]
    graph = module["graph"]
    taken = {name for table in _TABLES for name in graph.get(table) or ()}
    names: dict[str, str] = {}
    for name in sorted(taken):
        if hasattr(builtins, name) or iskeyword(name) or name in _FX_NAMES:
            free = (f"{name}_{index}" for index in itertools.count(1))
            names[name] = next(each for each in free if each not in taken)
            taken.add(names[name])
    if not names:
        return tree
    graph = {
        **graph,
        **{
            table: {names.get(k, k): v for k, v in graph[table].items()}
            for table in _TABLES
            if table in graph
        },
        **{side: [_renamed(argument, names) for argument in graph[side]] for side in ("inputs", "outputs")},
        "nodes": [
            {
                **node,
                "inputs": [{**named, "arg": _renamed(named["arg"], names)} for named in node["inputs"]],
                "outputs": [_renamed(output, names) for output in node["outputs"]],
            }
            for node in graph["nodes"]
        ],
    }
    signature = {
        side: [_renamed_spec(spec, names) for spec in specs] for side, specs in module["signature"].items()
    }
    return {**tree, "graph_module": {**module, "graph": graph, "signature": signature}}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """An argument with other names; a graph inside has names of its own."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, dict) or "as_graph" in value:
        return value
    return {
        key: names.get(item, item) if key in ("name", "as_name") else _renamed_arm(key, item, names)
        for key, item in value.items()
    }


def _renamed_arm(arm: str, value: Any, names: dict[str, str]) -> Any:
    if arm == "as_tensor" and isinstance(value, str):  # in an optional tensor, up to 5.1
        return names.get(value, value)
    return _renamed(value, names)


def _renamed_spec(spec: Record, names: dict[str, str]) -> Record:
    return {
        kind: {
            field: names.get(value, value)
            if field == "user_input_name"
            else _renamed(value, names)
            if field == "arg"
            else value
            for field, value in content.items()
        }
        for kind, content in spec.items()
    }
