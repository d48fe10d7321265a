"""Names that older releases give a value themselves, and then miss where the signature says another.

FX renames a value called like a builtin (`input` → `input_1`); from 2.4 on the readers put the name back afterwards. Up to 2.4
an operator's node that makes a symbol is called by the operator (`sym_size_int`), with the first free number. Up to 2.10
a node that makes several values is called by its operator, too (`cond`), and no value may have that name.
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


def without_builtin_names(tree: Record) -> Record:
    """A program whose top-level values have no builtin's name."""
    graph = tree["graph_module"]["graph"]
    taken = value_names(graph)
    names: dict[str, str] = {}
    for name in sorted(taken):
        if hasattr(builtins, name) or iskeyword(name) or name in _FX_NAMES:
            names[name] = free_name(name, taken)
            taken.add(names[name])
    return _with_names(tree, names)


def with_operators_names(tree: Record) -> Record:
    """A program whose top-level symbols are called by the operators that make them, if it returns one that is not."""
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


def without_names_of_nodes(tree: Record) -> Record:
    """A program of whose values none is called as FX calls a node with several values."""
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
    return renamed(Graph, graph, names) if names else graph


def _interface_with_names(tree: Record, names: dict[str, str]) -> Record:
    """A program whose signature and module calls have the other names of top-level values."""
    if not names:
        return tree
    module = tree["graph_module"]
    signature = renamed(GraphSignature, module["signature"], names)
    entries = [renamed(ModuleCallEntry, entry, names) for entry in module["module_call_graph"]]
    return {**tree, "graph_module": {**module, "signature": signature, "module_call_graph": entries}}


# ---------------------------------------------------------------------------------------- where names of values stand

_Rename = Callable[[Any, dict[str, str]], Any]


def renamed(kind: type[msgspec.Struct], record: Record, names: dict[str, str]) -> Record:
    """The tree of a record with other names for values, wherever its type says that a name of a value stands (`Field.names`).
    A graph inside has names of its own."""
    rename = _of_record(kind)
    return record if rename is None else rename(record, names)


def _name(value: Any, names: dict[str, str]) -> Any:
    """A name, a list of names or a table by names, with the other names."""
    if isinstance(value, dict):
        return {names.get(key, key): _name(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_name(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


@cache
def _of_record(kind: type[msgspec.Struct]) -> _Rename | None:
    """What renames the values in the records of a kind; None where there are none."""
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
    """For a table by names of records with names."""

    def rename(table: Any, names: dict[str, str]) -> Any:
        return {names.get(key, key): item for key, item in below(table, names).items()}

    return rename


def _of_type(kind: inspect.Type) -> _Rename | None:
    """What renames the values in what a field of this type holds."""
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
    # Arguments stand in arguments, so what renames them is looked up when there is one.
    return lambda record, names: renamed(kind.cls, record, names)


def _has_names(kind: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> bool:
    """Whether names of values stand in a record of a kind, those of graphs inside it aside."""
    if kind is Graph or kind in seen:
        return False
    seen.add(kind)
    if any(row.names for row in FIELDS[kind].values()):
        return True
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return any(_has_names(inner, seen) for field in info.fields for inner in _structs(field.type))


def _structs(kind: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """The records in a type."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for part in (
        *getattr(kind, "types", ()),
        *filter(None, (getattr(kind, "item_type", None), getattr(kind, "value_type", None))),
    ):
        yield from _structs(part)
