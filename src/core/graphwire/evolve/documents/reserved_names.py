"""Renames values whose names older loaders change or reserve, so that the graph and the signature agree.

FX renames a value that has the name of a builtin (`input` → `input_1`); from 2.4 on the readers restore the name afterwards.
Up to 2.4 the loader names a symbol after the operator whose node makes it (`sym_size_int`), with the first free number. Up to
2.10 the loader also names a node that makes several values after its operator (`cond`), and no value may have that name.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from functools import cache
from keyword import iskeyword
from typing import Any

import msgspec
from msgspec import inspect

from graphwire.evolve.documents.free_names import free_name, value_names
from graphwire.evolve.documents.trees import Edits, Record, Where, name_of, rewrite
from graphwire.evolve.documents.vocabulary import FIELDS
from graphwire.schema import Graph, GraphSignature, ModuleCallEntry

_FX_NAMES = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_WORD = re.compile(r"\W", re.ASCII)


def rename_builtin_names(tree: Record) -> Record:
    """Rename the top-level values that have the name of a builtin."""
    graph = tree["graph_module"]["graph"]
    taken = value_names(graph)
    names: dict[str, str] = {}
    for name in sorted(taken):
        if hasattr(builtins, name) or iskeyword(name) or name in _FX_NAMES:
            names[name] = free_name(name, taken)
            taken.add(names[name])
    return _with_names(tree, names)


def name_symbols_by_operators(tree: Record) -> Record:
    """Name the top-level symbols after the operators that make them, if the program returns one with another name."""
    graph = tree["graph_module"]["graph"]
    taken = value_names(graph)
    names: dict[str, str] = {}
    for node in graph["nodes"]:
        made = node["outputs"][0] if len(node["outputs"]) == 1 else {}
        symbol = made.get("as_sym_int") or made.get("as_sym_bool") or {}
        if "as_name" in symbol and node["target"].startswith("torch.ops."):
            names[symbol["as_name"]] = _WORD.sub("_", "_".join(node["target"].split(".")[-2:]))
    free = taken - names.keys()
    for old, stem in names.items():
        names[old] = free_name(stem, free)
        free.add(names[old])
    returned = {name_of(output) for output in graph["outputs"]}
    wrong = {old: new for old, new in names.items() if old != new}
    return _with_names(tree, wrong) if returned & wrong.keys() else tree


def rename_node_name_clashes(tree: Record) -> Record:
    """Rename the values whose names FX gives to nodes with several values."""
    found: dict[str, dict[str, str]] = {}

    def of_graph(graph: Record, where: Where) -> Record:
        stems = {_stem(node["target"]) for node in graph["nodes"] if _has_several_values(node)}
        taken = value_names(graph)
        names: dict[str, str] = {}
        for name in sorted(taken):
            if name in stems or name.rstrip("0123456789").removesuffix("_") in stems:
                names[name] = free_name(f"{name}_value", taken, separator="")
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
    """Return the name that FX gives the first node of a target."""
    parts = target.split(".")
    return _WORD.sub("_", "_".join(parts[3:] if target.startswith("torch.ops.") else parts[-1:])).lower()


def _with_names(tree: Record, names: dict[str, str]) -> Record:
    """Rename top-level values of a program."""
    if not names:
        return tree
    module = tree["graph_module"]
    graph = _graph_with_names(module["graph"], names)
    return _interface_with_names({**tree, "graph_module": {**module, "graph": graph}}, names)


def _graph_with_names(graph: Record, names: dict[str, str]) -> Record:
    """Rename a graph's own values."""
    return rename_values(Graph, graph, names) if names else graph


def _interface_with_names(tree: Record, names: dict[str, str]) -> Record:
    """Apply the new names of top-level values to the signature and the module calls."""
    if not names:
        return tree
    module = tree["graph_module"]
    signature = rename_values(GraphSignature, module["signature"], names)
    entries = [rename_values(ModuleCallEntry, entry, names) for entry in module["module_call_graph"]]
    return {**tree, "graph_module": {**module, "signature": signature, "module_call_graph": entries}}


# ---------------------------------------------------------------------------------------- which fields hold value names

_Rename = Callable[[Any, dict[str, str]], Any]


def rename_values(kind: type[msgspec.Struct], record: Record, names: dict[str, str]) -> Record:
    """Rename values in the tree of a record, in every field that holds value names (`Field.names`).

    A graph inside has names of its own, so they stay.
    """
    rename = _of_record(kind)
    return record if rename is None else rename(record, names)


def _name(value: Any, names: dict[str, str]) -> Any:
    """Rename a name, a list of names or the keys of a table."""
    if isinstance(value, dict):
        return {names.get(key, key): _name(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_name(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


@cache
def _of_record(kind: type[msgspec.Struct]) -> _Rename | None:
    """Return the function that renames values in records of a kind; None if such records hold no names."""
    found: dict[str, _Rename] = {}

    def rename(record: Any, names: dict[str, str]) -> Any:
        if not isinstance(record, dict):  # an older schema may have a name alone here
            return _name(record, names)
        return {
            field: found[field](value, names) if field in found and value is not None else value
            for field, value in record.items()
        }

    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        below = _of_type(field.type)
        row = FIELDS[kind][field.name]
        if row.names:
            found[field.name] = _name if below is None else _both(below)
        elif below is not None:
            found[field.name] = below
    return rename if found else None


def _both(below: _Rename) -> _Rename:
    """Combine the renaming of a table's keys with that of its records."""

    def rename(table: Any, names: dict[str, str]) -> Any:
        return {names.get(key, key): item for key, item in below(table, names).items()}

    return rename


def _of_type(kind: inspect.Type) -> _Rename | None:
    """Return the function that renames values in a field of this type; None if the field holds no names."""
    if isinstance(kind, inspect.UnionType):
        return next((found for each in kind.types if (found := _of_type(each)) is not None), None)
    if isinstance(kind, (inspect.ListType, inspect.DictType)):
        below = _of_type(kind.item_type if isinstance(kind, inspect.ListType) else kind.value_type)
        if below is None:
            return None
        if isinstance(kind, inspect.ListType):
            return lambda items, names: [below(item, names) for item in items]
        return lambda table, names: {key: below(item, names) for key, item in table.items()}
    if not isinstance(kind, inspect.StructType) or not _has_names(kind.cls, set()):
        return None
    # Arguments contain arguments, so the function for the inner ones is looked up when one occurs.
    return lambda record, names: rename_values(kind.cls, record, names)


def _has_names(kind: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> bool:
    """Report whether records of a kind hold value names, apart from those of graphs inside them."""
    if kind is Graph or kind in seen:
        return False
    seen.add(kind)
    if any(row.names for row in FIELDS[kind].values()):
        return True
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return any(_has_names(inner, seen) for field in info.fields for inner in _structs(field.type))


def _structs(kind: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """Return the record types in a type."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for part in (
        *getattr(kind, "types", ()),
        *filter(None, (getattr(kind, "item_type", None), getattr(kind, "value_type", None))),
    ):
        yield from _structs(part)
