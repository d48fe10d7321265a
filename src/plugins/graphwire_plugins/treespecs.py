"""The built-in treespec serializers, for container types of Python's standard library and of torch.

Dataclasses and other classes that a user registers with torch under a serialized name need no serializer here: the
bridge finds them in torch's own table.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable, Mapping
from typing import Any

from graphwire.errors import DecodeError, EncodeError, UnknownTypeError, shown, unless_interrupted
from graphwire.registry.interfaces import Tree, TreespecSerializer, hookimpl
from graphwire.schema.texts import treespec
from graphwire_plugins.library import qualified_name, safe_globals, subclasses
from graphwire_plugins.ops import PredispatchFunctions

# ---------------------------------------------- treespec serializers for constants that are containers without children
# `torch.utils._pytree.register_constant` makes them. `flat_apply` and operators with constant arguments keep them in graphs.


class ConstantFunctions:
    """The callee of `flat_apply`: the context is the name of the function or class.

    It is looked up among torch's own functions that occur in graphs, the tensor subclasses and autograd functions of
    this process, and the objects declared with `torch.serialization.add_safe_globals`. A name in a file never causes an
    import.
    """

    name = "torch._higher_order_ops.flat_apply._ConstantFunction"
    version = 1

    def container(self) -> type:
        from torch._higher_order_ops.flat_apply import _ConstantFunction

        return _ConstantFunction

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        function = context.value.func
        name = _name(function)
        if _callables().get(name) is not function:
            raise EncodeError(
                f"{name} is called by the graph, but a program that loads could not find it",
                remedy="Declare it in the program that saves and in the one that loads: "
                f"`torch.serialization.add_safe_globals([{getattr(function, '__name__', name)}])`",
            )
        return 1, {"function": name}

    def load_context(self, tree: Tree, version: int) -> Any:
        from torch.utils._pytree import ConstantNode

        match tree:
            case {"function": str(name), **rest} if not rest:
                function = _callables().get(name)
                if function is None:
                    raise UnknownTypeError(
                        f"this process has no {name!r:.200}, which the graph calls",
                        remedy="Before you load, import the library that defines it",
                    )
                container: Any = self.container()
                return ConstantNode(container(function))
        raise DecodeError(f"no function is named by {tree!r:.80}")

    def arity(self, container: Any, context: Any) -> int | None:
        return 0


class FunctionSchemas:
    """`torch.FunctionSchema`, for programs that register it as a constant: the context is the schema's text."""

    name = "torch.FunctionSchema"
    version = 1

    def container(self) -> type:
        import torch

        return torch._C.FunctionSchema

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        return 1, {"schema": str(context.value)}

    def load_context(self, tree: Tree, version: int) -> Any:
        import torch
        from torch.utils._pytree import ConstantNode

        match tree:
            case {"schema": str(text), **rest} if not rest and _is_shallow(text):
                try:
                    return ConstantNode(torch._C.parse_schema(text))
                except unless_interrupted(RuntimeError) as error:
                    raise DecodeError(f"invalid operator schema: {text!r:.200}") from error
        raise DecodeError(f"no operator schema is described by {tree!r:.80}")

    def arity(self, container: Any, context: Any) -> int | None:
        return 0


_MOST_CHARACTERS, _MOST_NESTING = 10_000, 16


def _is_shallow(text: str) -> bool:
    """Whether a schema's text is safe for torch's parser, which recurses on the C stack."""
    deepest = depth = 0
    for character in text[: _MOST_CHARACTERS + 1]:
        depth += (character in "([") - (character in ")]")
        deepest = max(deepest, depth)
    return len(text) <= _MOST_CHARACTERS and deepest <= _MOST_NESTING


def _name(function: Any) -> str:
    return qualified_name(function, unnamed=function)


def _callables() -> dict[str, Any]:
    import torch

    alive = [*subclasses(torch.Tensor), *subclasses(torch.autograd.Function)]
    return {_name(each): each for each in [*PredispatchFunctions().functions, *safe_globals(), *alive]}


# ------------------------------------- treespec serializers for containers with keys: dict, OrderedDict and defaultdict
# Keys that torch's JSON preserves exactly (text, numbers, bool, None, members of plain enums) are written as torch writes
# them, in version 1 of the context. Other keys (tuples, members of an IntEnum, bytes) need version 2: tagged values.


class Dict:
    """`dict`: the context is the list of its keys, in insertion order."""

    name = "builtins.dict"
    version = 2

    def container(self) -> type:
        return dict

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        if treespec.is_plain_json(context):
            return 1, treespec.dump_json(context)
        return 2, treespec.dump_json(treespec.encode_value(context))

    def load_context(self, tree: Tree, version: int) -> list[Any]:
        value = treespec.load_json(tree) if isinstance(tree, str) else tree
        return _keys(treespec.decode_value(value) if version == 2 else value)

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
        if (
            name is not None
            and treespec.is_plain_json(keys)
            and not any(isinstance(key, enum.Enum) for key in keys)
        ):
            module, _, name = name.rpartition(".")
            return 1, {"default_factory_module": module, "default_factory_name": name, "dict_context": keys}
        return 2, {"factory": name, "keys": treespec.encode_value(keys)}

    def load_context(self, tree: Tree, version: int) -> list[Any]:
        match tree, version:
            case {
                "default_factory_module": str(module),
                "default_factory_name": str(name),
                "dict_context": keys,
            }, 1:
                return [_factory(f"{module}.{name}"), _keys(keys)]
            case {"factory": None | str() as name, "keys": keys}, 2:
                return [None if name is None else _factory(name), _keys(treespec.decode_value(keys))]
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
    keys = [treespec.hashable(_tupled(key)) for key in value]
    if len(set(keys)) != len(keys):
        raise DecodeError("a dict has a duplicate key")
    return keys


def _tupled(key: Any) -> Any:
    return tuple(map(_tupled, key)) if type(key) is list else key


# ----------------------------------------------------------------------------------- treespec serializers for sequences
# tuple, list, deque, namedtuples, `torch.Size`, `torch.return_types`.


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
        length = treespec.load_json(tree) if isinstance(tree, str) else tree
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
        from graphwire.bridge.torch_compat.pytree import class_name, registration_of

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
        from graphwire.bridge.torch_compat.pytree import (
            is_namedtuple,
            registration_by_fields,
            registration_by_name,
        )

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


@hookimpl
def graphwire_treespec_serializers() -> list[TreespecSerializer]:
    """Return the built-in serializers."""
    containers: list[TreespecSerializer] = [Tuple(), List(), Dict(), OrderedDict(), DefaultDict(), Deque()]
    return [*containers, NamedTuple(), Size(), ReturnTypes(), ConstantFunctions(), FunctionSchemas()]
