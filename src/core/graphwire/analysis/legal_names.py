"""Gives other names to what no reader accepts the name of, where somebody asks for it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from graphwire.analysis.validation.value_rules import (
    MAX_NAME,
    OWN_ATTRIBUTES,
    is_value_name,
    length_of,
    path_fault,
)
from graphwire.schema import VALUE_TABLES, Program
from graphwire.schema.texts.metadata import EXACT_STACK, split_modules

_PATHS: Final = frozenset(
    ("parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name", "fqn", "edited_values")
)
"""The fields with the qualified name of a weight, a constant or a module."""
_ILLEGAL: Final = r"[\"\\\n\r\0\ud800-\udfff]"
"""What the rules refuse in a path, and the breaks that no code of Python has between quotes."""
_KEPT: Final = 60
"""The characters of a name that is too long that its new name begins with."""


def legal_path(path: str) -> str:
    """Return a qualified name that readers accept; the same if they accept it.

    The parts that they refuse get new names, which end with a hash of the old ones: two never become one, and a module, its
    weights and another program's of that name stay together.
    """
    if path_fault(path) is None and re.search(_ILLEGAL, path) is None:
        return path
    parts = [_legal(part, MAX_NAME) for part in path.split(".")]
    legal = ".".join(parts)
    return legal if length_of(legal) <= MAX_NAME else ".".join(_legal(part, 2 * _KEPT) for part in parts)


def _legal(part: str, most: int) -> str:
    plain = re.sub(_ILLEGAL, "_", part)
    if plain == part and part and part not in OWN_ATTRIBUTES and length_of(part) <= most:
        return part
    return f"{plain[:_KEPT].strip('_')}_{_hash(part)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def with_legal_names(program: Program) -> tuple[Program, list[tuple[str, str]]]:
    """Return a program whose weights, constants, modules and values have names that readers accept.

    Returns:
        The program, and each name that changed with the new one. The names in payloads change by `legal_path`.
    """
    tree = msgspec.to_builtins(program)
    renaming = _Renaming(tree)
    return msgspec.convert(renaming.of(tree, ""), Program), list(renaming.found.items())


class _Renaming:
    """Renames in the tree of a program."""

    def __init__(self, tree: Any) -> None:
        self.found: dict[str, str] = {}
        self.values = {name: _legal_value(name) for name in _values(tree) if not is_value_name(name)}

    def of(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if key == EXACT_STACK:
                return json.dumps([self.module(row) for row in json.loads(value)])
            if key == "nn_module_stack":
                rows = split_modules(value)
                return value if rows is None else ";".join(",".join(self.module(row)) for row in rows)
            return self.path(value) if key in _PATHS else value if key == "as_string" else self.name(value)
        if isinstance(value, list):
            return [self.of(each, key) for each in value]
        if isinstance(value, dict):
            if key == "encoded_values":
                return {self.path(name): self.encoded(each) for name, each in value.items()}
            return {self.name(name): self.of(each, name) for name, each in value.items()}
        return value

    def encoded(self, value: dict[str, Any]) -> dict[str, Any]:
        """Rename the payloads of a coded value, and the value that it is the same as. Its tree is the codec's own."""
        same = {"same_as": legal_path(value["same_as"])} if "same_as" in value else {}
        return {**value, "tensors": [legal_path(each) for each in value["tensors"]], **same}

    def module(self, row: Sequence[str]) -> list[str]:
        """Rename a module around a node: its key, its path, which may end with the number of a call, and its class."""
        key, path, kind = row
        name, at, call = path.rpartition("@")
        name, call = (name, at + call) if call.isdecimal() and name else (path, "")
        return [key and legal_path(key), self.path(name) + call, kind]

    def path(self, path: str) -> str:
        legal = legal_path(path) if path else path  # the root has no name
        if legal != path:
            self.found[path] = legal
        return legal

    def name(self, name: str) -> str:
        legal = self.values.get(name, name)
        if legal != name:
            self.found[name] = legal
        return legal


def _legal_value(name: str) -> str:
    plain = re.sub(r"\W", "_", name[:_KEPT], flags=re.ASCII)
    return (
        f"v_{plain.strip('_')}_{_hash(name)}"
        if plain.startswith(tuple("_0123456789"))
        else f"{plain}_{_hash(name)}"
    )


def _values(tree: Any) -> set[str]:
    """Return the names of values, in all graphs."""
    if isinstance(tree, list):
        return set().union(*map(_values, tree))
    if not isinstance(tree, dict):
        return set()
    own = {
        name for table in VALUE_TABLES.values() if isinstance(tree.get(table), dict) for name in tree[table]
    }
    return own.union(*map(_values, tree.values()))
