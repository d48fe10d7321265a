"""Conversion of records to plain trees, and back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from graphwire.errors import SchemaError, SchemaVersionError, UnsupportedFeatureError
from graphwire.process import TYPE_ANALYSIS
from graphwire.schema import FEATURES, SCHEMA_VERSION, Program, TensorMeta
from graphwire.schema.trees.reading import program_of

Record = TypeVar("Record")

# Analysed here, once: `msgspec.convert` would do it in any thread.
with TYPE_ANALYSIS:
    msgspec.json.Decoder(Program)
    msgspec.json.Decoder(TensorMeta)


def to_tree(record: Any) -> Any:
    """Convert a record to dicts, lists and scalars, in the shape of torch's JSON.

    Do not change the result. The metas of a program's values, which make up most of it, are converted once for each
    distinct record, and the tree shares them.
    """
    if not isinstance(record, Program):
        return _plain(record)
    module = record.graph_module
    graph = msgspec.structs.replace(module.graph, tensor_values={})
    bare = msgspec.structs.replace(record, graph_module=msgspec.structs.replace(module, graph=graph))
    tree = _plain(bare)
    metas: dict[int, Any] = {}
    values = tree["graph_module"]["graph"]["tensor_values"] = {}
    for name, meta in module.graph.tensor_values.items():
        made = metas.get(id(meta))
        if made is None:
            made = metas[id(meta)] = _plain(meta)
        values[name] = made
    return tree


def _plain(record: Any) -> Any:
    return msgspec.to_builtins(record, builtin_types=(bytes, bytearray, memoryview))


def from_tree(tree: Any, kind: type[Record]) -> Record:
    """Convert a tree to a record of type `kind`.

    Raises:
        SchemaError: the tree has another shape; `place` tells where.
    """
    try:
        return program_of(tree) if kind is Program else msgspec.convert(tree, kind)  # type: ignore[return-value]
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").removeprefix(".")
        raise SchemaError(text, place=place, remedy="The document is damaged, or of another kind") from None
    except RecursionError:
        raise SchemaError("the document is nested too deeply") from None


def program_from_tree(tree: Any) -> Program:
    """Convert a tree of the current schema to a program.

    Raises:
        SchemaVersionError: the tree has another major version.
        UnsupportedFeatureError: the tree requires an extension that this version does not know.
        SchemaError: the tree has another shape.
    """
    if not isinstance(tree, dict):
        raise SchemaError(f"a program is a mapping, not {type(tree).__name__}")
    version = tree.get("schema_version")
    major = version.get("major") if isinstance(version, dict) else version
    if major != SCHEMA_VERSION[0]:
        raise SchemaVersionError(
            f"schema version {version!r} is not {SCHEMA_VERSION[0]}.x",
            place="schema_version",
            remedy="A newer graphwire may read it",
        )
    required = tree.get("requires", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError("a list of feature names is expected", place="requires")
    unknown = [name for name in required if name not in FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"the document requires {', '.join(unknown)}, which this version of graphwire does not support",
            place="requires",
            remedy="Install a newer graphwire",
        )
    return from_tree(tree, Program)
