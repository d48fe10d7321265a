"""Names that older releases give a value themselves, and then miss where the signature says another.

FX renames a value called like a builtin (`input` → `input_1`); from 2.4 on the readers put the name back afterwards. Up to 2.4
an operator's node that makes a symbol is called by the operator (`sym_size_int`), with the first free number. Up to 2.10
a node that makes several values is called by its operator, too (`cond`), and no value may have that name.
"""

from __future__ import annotations

import builtins
import itertools
import re
from keyword import iskeyword
from typing import Any

from graphwire.evolve.trees import Edits, Record, Where, name_of, rewrite

__all__ = ["with_operators_names", "without_builtin_names", "without_names_of_nodes"]

_FX_NAMES = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_WORD = re.compile(r"\W", re.ASCII)
_TABLES = ("tensor_values", "sym_int_values", "sym_bool_values", "custom_obj_values")


def without_builtin_names(tree: Record) -> Record:
    """A program whose top-level values have no builtin's name."""
    graph = tree["graph_module"]["graph"]
    taken = {name for table in _TABLES for name in graph.get(table) or ()}
    names: dict[str, str] = {}
    for name in sorted(taken):
        if hasattr(builtins, name) or iskeyword(name) or name in _FX_NAMES:
            free = (f"{name}_{index}" for index in itertools.count(1))
            names[name] = next(each for each in free if each not in taken)
            taken.add(names[name])
    return _with_names(tree, names)


def with_operators_names(tree: Record) -> Record:
    """A program whose top-level symbols are called by the operators that make them, if it returns one that is not."""
    graph = tree["graph_module"]["graph"]
    taken = {name for table in _TABLES for name in graph.get(table) or ()}
    names: dict[str, str] = {}
    for node in graph["nodes"]:
        made = node["outputs"][0] if len(node["outputs"]) == 1 else {}
        symbol = made.get("as_sym_int") or made.get("as_sym_bool") or {}
        if "as_name" in symbol and node["target"].startswith("torch.ops."):
            names[symbol["as_name"]] = _WORD.sub("_", "_".join(node["target"].split(".")[-2:]))
    free = taken - names.keys()
    for old, stem in names.items():
        numbered = (f"{stem}_{index}" for index in itertools.count(1))
        names[old] = next(name for name in itertools.chain((stem,), numbered) if name not in free)
        free.add(names[old])
    returned = {name_of(output) for output in graph["outputs"]}
    wrong = {old: new for old, new in names.items() if old != new}
    return _with_names(tree, wrong) if returned & wrong.keys() else tree


def without_names_of_nodes(tree: Record) -> Record:
    """A program of whose values none is called as FX calls a node with several values."""
    found: dict[str, dict[str, str]] = {}

    def of_graph(graph: Record, where: Where) -> Record:
        stems = {_stem(node["target"]) for node in graph["nodes"] if _has_several_values(node)}
        taken = {name for table in _TABLES for name in graph.get(table) or ()}
        names: dict[str, str] = {}
        for name in sorted(taken):
            if name in stems or name.rstrip("0123456789").removesuffix("_") in stems:
                free = (f"{name}_value{index}" for index in itertools.chain(("",), itertools.count(1)))
                names[name] = next(each for each in free if each not in taken)
                taken.add(names[name])
        found[where.path] = names
        return _graph_with_names(graph, names)

    tree = rewrite(tree, Edits(graph=of_graph))
    return _interface_with_names(tree, found["graph_module.graph"])


def _has_several_values(node: Record) -> bool:
    outputs = node["outputs"]
    return (
        len(outputs) != 1 or name_of(outputs[0]) is None or node.get("is_hop_single_tensor_return") is False
    )


def _stem(target: str) -> str:
    """What FX calls the first node of a target."""
    parts = target.split(".")
    return _WORD.sub("_", "_".join(parts[3:] if target.startswith("torch.ops.") else parts[-1:])).lower()


def _with_names(tree: Record, names: dict[str, str]) -> Record:
    """A program with other names for top-level values."""
    if not names:
        return tree
    module = tree["graph_module"]
    graph = _graph_with_names(module["graph"], names)
    return _interface_with_names({**tree, "graph_module": {**module, "graph": graph}}, names)


def _graph_with_names(graph: Record, names: dict[str, str]) -> Record:
    """A graph with other names for its own values."""
    if not names:
        return graph
    return {
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


def _interface_with_names(tree: Record, names: dict[str, str]) -> Record:
    """A program whose signature and module calls have the other names of top-level values."""
    if not names:
        return tree
    module = tree["graph_module"]
    signature = {
        side: [_renamed_spec(spec, names) for spec in specs] for side, specs in module["signature"].items()
    }
    entries = [
        {**entry, "signature": _renamed_call(entry["signature"], names)} if entry.get("signature") else entry
        for entry in module["module_call_graph"]
    ]
    return {**tree, "graph_module": {**module, "signature": signature, "module_call_graph": entries}}


def _renamed_call(call: Record, names: dict[str, str]) -> Record:
    return {
        **call,
        **{side: [_renamed(each, names) for each in call[side]] for side in ("inputs", "outputs")},
    }


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
