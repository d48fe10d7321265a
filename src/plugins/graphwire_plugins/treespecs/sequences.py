"""Treespec serializers for sequences: tuple, list, deque, namedtuples, `torch.Size`, `torch.return_types`."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from graphwire.errors import DecodeError, EncodeError, UnknownTypeError, shown
from graphwire.hooks import Tree
from graphwire.schema.texts import load_json


class _Plain:
    """A container without a context; torch writes the context as JSON's null."""

    name: str
    version = 1

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        if context is not None:
            raise EncodeError(f"a {self.name} has no context, and this one has {shown(context)}")
        return 1, "null"

    def load_context(self, tree: Tree, version: int) -> Any:
        if tree not in ("null", None):
            raise DecodeError(f"a {self.name} has no context, and this one has {tree!r:.80}")

    def arity(self, container: Any, context: Any) -> int | None:
        return None


class Tuple(_Plain):
    """`tuple`."""

    name = "builtins.tuple"

    def container(self) -> type:
        return tuple


class List(_Plain):
    """`list`."""

    name = "builtins.list"

    def container(self) -> type:
        return list


class Size(_Plain):
    """`torch.Size`."""

    name = "torch.Size"

    def container(self) -> type:
        import torch

        return torch.Size


class ReturnTypes(_Plain):
    """The named tuples that operators return, such as `torch.return_types.topk`, each under its own name.

    torch registers them without serialized names, and cannot write them.
    """

    name = "torch.return_types"

    def container(self) -> Mapping[str, type]:
        import torch

        return {
            f"{self.name}.{each.__name__}": each
            for each in vars(torch.return_types).values()
            if isinstance(each, type) and issubclass(each, tuple) and each.__module__ == self.name
        }

    def arity(self, container: Any, context: Any) -> int | None:
        return container.n_sequence_fields


class Deque:
    """`collections.deque`: the context is its `maxlen`."""

    name = "collections.deque"
    version = 1

    def container(self) -> type:
        return collections.deque

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        return 1, "null" if context is None else str(int(context))

    def load_context(self, tree: Tree, version: int) -> int | None:
        length = load_json(tree) if isinstance(tree, str) else tree
        if length is None or (type(length) is int and 0 <= length < 2**63):
            return length
        raise DecodeError(f"not a maxlen of a deque: {length!r:.80}")

    def arity(self, container: Any, context: Any) -> int | None:
        return None


class NamedTuple:
    """Every namedtuple class that is registered under a serialized name: the context is that name."""

    name = "collections.namedtuple"
    version = 1

    def container(self) -> Any:
        # The function represents all namedtuple classes: torch uses it as the type of each namedtuple's spec.
        return collections.namedtuple

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        from graphwire.bridge.torch_compat import class_name, registration_of

        if (registered := registration_of(context)) is not None:
            return 1, registered.name
        name = class_name(context)
        arguments = f"{context.__qualname__}, serialized_type_name={name!r}"
        raise EncodeError(
            f"the namedtuple {name} has no serialized name",
            remedy="Register it in the program that saves and in the one that loads: "
            f"`torch.utils._pytree._register_namedtuple({arguments})`. "
            'Or save with containers="plain", which writes plain tuples',
        )

    def load_context(self, tree: Tree, version: int) -> Any:
        from graphwire.bridge.torch_compat import is_namedtuple, registration_by_fields, registration_by_name

        match tree:
            case str(name):
                found = registration_by_name(name)
            # 2.1 and 2.2 wrote the bare class name and its fields, and created a class from them on load.
            case {"class_name": str(name), "fields": list(fields)} if all(
                type(each) is str for each in fields
            ):
                found = registration_by_fields(name, list(map(str, fields)))
            case _:
                raise DecodeError(f"not a serialized name of a namedtuple: {tree!r:.80}")
        if found is not None and is_namedtuple(found.container):
            return found.container
        call = "torch.utils._pytree._register_namedtuple(CLASS, serialized_type_name=NAME)"
        raise UnknownTypeError(
            f"no namedtuple is registered as {name!r} in this process",
            remedy=f"Before you load, import the module that defines it, or register it: `{call}`",
        )

    def arity(self, container: Any, context: Any) -> int | None:
        return len(context._fields)
