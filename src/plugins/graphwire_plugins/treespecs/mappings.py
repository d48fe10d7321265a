"""Treespec serializers for containers with keys: dict, OrderedDict and defaultdict.

Keys that torch's JSON preserves exactly (text, numbers, bool, None, members of plain enums) are written as torch writes
them, in version 1 of the context. Other keys (tuples, members of an IntEnum, bytes) need version 2: tagged values.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import Any

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import Tree
from graphwire.schema.texts import decode_value, dump_json, encode_value, hashable, is_plain_json, load_json
from graphwire_plugins.names import qualified_name


class Dict:
    """`dict`: the context is the list of its keys, in insertion order."""

    name = "builtins.dict"
    version = 2

    def container(self) -> type:
        return dict

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        if is_plain_json(context):
            return 1, dump_json(context)
        return 2, dump_json(encode_value(context))

    def load_context(self, tree: Tree, version: int) -> list[Any]:
        value = load_json(tree) if isinstance(tree, str) else tree
        return _keys(decode_value(value) if version == 2 else value)

    def arity(self, container: Any, context: Any) -> int | None:
        return len(context)


class OrderedDict(Dict):
    """`collections.OrderedDict`: the context is the list of its keys, in its order."""

    name = "collections.OrderedDict"

    def container(self) -> type:
        return collections.OrderedDict


_FACTORIES = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
_OF_COLLECTIONS = (collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque)
FACTORIES: dict[str, Callable[[], Any]] = {
    qualified_name(each): each for each in (*_FACTORIES, *_OF_COLLECTIONS)
}
"""The supported default factories, by name. A file can only select one of these; nothing is imported."""


class DefaultDict:
    """`collections.defaultdict`: the context is its default factory and the list of its keys."""

    name = "collections.defaultdict"
    version = 2

    def container(self) -> type:
        return collections.defaultdict

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        factory, keys = context
        name = None if factory is None else _factory_name(factory)
        # torch looks for enum members in contexts that are JSON text, which this one is not.
        if name is not None and is_plain_json(keys) and not any(isinstance(key, enum.Enum) for key in keys):
            module, _, name = name.rpartition(".")
            return 1, {"default_factory_module": module, "default_factory_name": name, "dict_context": keys}
        return 2, {"factory": name, "keys": encode_value(keys)}

    def load_context(self, tree: Tree, version: int) -> list[Any]:
        match tree, version:
            case {
                "default_factory_module": str(module),
                "default_factory_name": str(name),
                "dict_context": keys,
            }, 1:
                return [_factory(f"{module}.{name}"), _keys(keys)]
            case {"factory": None | str() as name, "keys": keys}, 2:
                return [None if name is None else _factory(name), _keys(decode_value(keys))]
        raise DecodeError(f"not a default factory and keys of a defaultdict: {tree!r:.80}")

    def arity(self, container: Any, context: Any) -> int | None:
        return len(context[1])


def _factory_name(factory: Any) -> str:
    for name, each in FACTORIES.items():
        if each is factory:
            return name
    raise EncodeError(
        f"the default factory {qualified_name(factory, repr(factory))} of a defaultdict cannot be written",
        remedy=f"Use one of {', '.join(sorted(FACTORIES))} or None, or pass a plain dict; "
        'or save with containers="plain", which writes plain dicts',
    )


def _factory(name: str) -> Callable[[], Any]:
    try:
        return FACTORIES[name]
    except KeyError:
        raise DecodeError(
            f"the default factory {name!r} of a defaultdict is not allowed",
            remedy=f"Known are {', '.join(sorted(FACTORIES))}; a file cannot make graphwire import another",
        ) from None


def _keys(value: Any) -> list[Any]:
    """Check and return the keys of a dict. A list among them was a tuple: torch's JSON loses that, and a list cannot be
    a key."""
    if type(value) is not list:
        raise DecodeError(f"not a list of keys: {value!r:.80}")
    keys = [hashable(_tupled(key)) for key in value]
    if len(set(keys)) != len(keys):
        raise DecodeError("a dict has a duplicate key")
    return keys


def _tupled(key: Any) -> Any:
    return tuple(map(_tupled, key)) if type(key) is list else key
