"""Renames values whose names older loaders change or reserve, so that the graph and the signature agree.

FX renames a value that has the name of a builtin (`input` → `input_1`); from 2.4 on the readers restore the name afterwards.
Up to 2.4 the loader names a symbol after the operator whose node makes it (`sym_size_int`), with the first free number. Up to
2.10 the loader also names a node that makes several values after its operator (`cond`), and no value may have that name.
"""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Callable, Container, Iterator
from functools import cache
from keyword import iskeyword
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from graphwire.evolve.trees import Edits, Record, Where, name_of, rewrite, with_module
from graphwire.evolve.vocabulary import FIELDS
from graphwire.schema import VALUE_TABLES, Graph, GraphSignature, ModuleCallEntry

# ------------------------------------------------------------------------- finds unused names for new values of a graph


def value_names(graph: Record) -> set[str]:
    """Return the names of a graph's values."""
    return {name for table in VALUE_TABLES.values() for name in graph.get(table) or ()}


def free_name(stem: str, taken: Container[str | None], separator: str = "_") -> str:
    """Return the first of `stem`, `stem_1`, `stem_2` … that is not taken."""
    numbered = (f"{stem}{separator}{index}" for index in itertools.count(1))
    return next(name for name in itertools.chain((stem,), numbered) if name not in taken)


_FX_NAMES = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_WORD = r"(?a)\W"


def rename_builtin_names(tree: Record) -> Record:
    """Rename the top-level values that have the name of a builtin."""
    return _with_names(tree, _free_names(tree["graph_module"]["graph"], _is_builtin))


def _is_builtin(name: str) -> bool:
    return hasattr(builtins, name) or iskeyword(name) or name in _FX_NAMES


def _free_names(
    graph: Record, is_reserved: Callable[[str], bool], suffix: str = "", separator: str = "_"
) -> dict[str, str]:
    """Return a free name for each value of a graph whose name is reserved."""
    taken, names = value_names(graph), {}
    for name in sorted(taken):
        if is_reserved(name):
            names[name] = free_name(f"{name}{suffix}", taken, separator)
            taken.add(names[name])
    return names


def name_symbols_by_operators(tree: Record) -> Record:
    """Name the top-level symbols after the operators that make them, if the program returns one with another name."""
    graph = tree["graph_module"]["graph"]
    taken = value_names(graph)
    names: dict[str, str] = {}
    for node in graph["nodes"]:
        made = node["outputs"][0] if len(node["outputs"]) == 1 else {}
        symbol = made.get("as_sym_int") or made.get("as_sym_bool") or {}
        if "as_name" in symbol and node["target"].startswith("torch.ops."):
            names[symbol["as_name"]] = re.sub(_WORD, "_", "_".join(node["target"].split(".")[-2:]))
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

        def is_reserved(name: str) -> bool:
            return name in stems or name.rstrip("0123456789").removesuffix("_") in stems

        names = _free_names(graph, is_reserved, "_value", separator="")
        found[where.path] = names
        return rename_values(Graph, graph, names)

    tree = rewrite(tree, Edits(graph=of_graph))
    return _interface_with_names(tree, found["graph_module.graph"])


def _has_several_values(node: Record) -> bool:
    outputs = node["outputs"]
    listed = len(outputs) != 1 or name_of(outputs[0]) is None
    return listed or node.get("is_hop_single_tensor_return") is False


def _stem(target: str) -> str:
    """Return the name that FX gives the first node of a target."""
    parts = target.split(".")
    return re.sub(_WORD, "_", "_".join(parts[3:] if target.startswith("torch.ops.") else parts[-1:])).lower()


def _with_names(tree: Record, names: dict[str, str]) -> Record:
    """Rename top-level values of a program."""
    graph = rename_values(Graph, tree["graph_module"]["graph"], names)
    return _interface_with_names(with_module(tree, graph=graph), names) if names else tree


def _interface_with_names(tree: Record, names: dict[str, str]) -> Record:
    """Apply the new names of top-level values to the signature and the module calls."""
    module = tree["graph_module"]
    signature = rename_values(GraphSignature, module["signature"], names)
    entries = [rename_values(ModuleCallEntry, entry, names) for entry in module["module_call_graph"]]
    return with_module(tree, signature=signature, module_call_graph=entries)


# ---------------------------------------------------------------------------------------- which fields hold value names

_Rename: TypeAlias = Callable[[Any, dict[str, str]], Any]


def rename_values(kind: type[msgspec.Struct], record: Record, names: dict[str, str]) -> Record:
    """Rename values in the tree of a record, in every field that holds value names (`Field.names`).

    A graph inside has names of its own, so they stay.
    """
    renames = _of_record(kind) if names else {}
    return {
        field: renames[field](value, names) if field in renames and value is not None else value
        for field, value in record.items()
    }


@cache
def _of_record(kind: type[msgspec.Struct]) -> dict[str, _Rename]:
    """Return the function that renames values in each field of such records that holds names."""
    rows = FIELDS[kind]
    found = {field.name: _of_type(field.type, rows[field.name].names) for field in _fields_of(kind)}
    return {field: rename for field, rename in found.items() if rename is not None}


def _fields_of(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _of_type(kind: inspect.Type, named: bool) -> _Rename | None:
    """Return the function that renames values in a field of this type; None if the field holds no names.

    Args:
        named: whether its texts, or the keys of its table, are names.
    """
    match kind:
        case inspect.StrType() if named:
            return lambda name, names: names.get(name, name)
        case inspect.StructType(cls=cls) if _has_names(cls, set()):
            # Arguments contain arguments, so the function for the inner ones is looked up when one occurs.
            return lambda record, names: rename_values(cls, record, names)
        case inspect.UnionType(types=types):
            return next((found for each in types if (found := _of_type(each, named))), None)
        case inspect.ListType(item_type=item) if below := _of_type(item, named):
            return lambda items, names: [below(each, names) for each in items]
        case inspect.DictType(value_type=value):
            of_key, of_value = _of_type(kind.key_type, named), _of_type(value, named)
            if of_key or of_value:
                return lambda table, names: {
                    of_key(key, names) if of_key else key: of_value(each, names) if of_value else each
                    for key, each in table.items()
                }
    return None


def _has_names(kind: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> bool:
    """Report whether records of a kind hold value names, apart from those of graphs inside them."""
    if kind is Graph or kind in seen:
        return False
    seen.add(kind)
    if any(row.names for row in FIELDS[kind].values()):
        return True
    return any(_has_names(inner, seen) for field in _fields_of(kind) for inner in _structs(field.type))


def _structs(kind: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """Return the record types in a type."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for part in (
        *getattr(kind, "types", ()),
        *filter(None, (getattr(kind, "item_type", None), getattr(kind, "value_type", None))),
    ):
        yield from _structs(part)
