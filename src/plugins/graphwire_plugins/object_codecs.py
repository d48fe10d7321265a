"""Constant codecs for objects: TorchScript's custom classes, and opaque values of classes registered with torch."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError, UnknownTypeError, unless_interrupted
from graphwire.registry.interfaces import Tree
from graphwire.schema.texts.treespec import decode_value, encode_value, hashable, member_name
from graphwire.wire.document import check_expanded_size
from graphwire_plugins.library import qualified_name, safe_globals
from graphwire_plugins.script_states import STATES, check_state

# ----------------------------------------------------------------------------------- encoding of Python values as trees
# states of script objects, contexts of tensor subclasses, opaque values.
#
# Only data is written. For an instance of a user-defined class, its fields are written, and a load looks the class up among
# those that the process declares to torch (`declared_classes`). A name in a file never causes an import or an attribute
# access on a module.


def encode_data(value: Any, tensors: list[Any]) -> Tree:
    """Encode a value as a tree.

    Args:
        tensors: the tensors found so far. Those in the value are appended, and the tree refers to them by position.

    Raises:
        EncodeError: the value is not data, its class is not declared, or it has too many values.
    """
    check_expanded_size(value, "the state of an object", most=_MOST_VALUES)
    return _encode(value, tensors, [_MOST_VALUES])


def _encode(value: Any, tensors: list[Any], left: list[int]) -> Tree:
    import torch

    left[0] -= 1
    if left[0] < 0:  # as of objects that share objects
        raise EncodeError(f"the state of an object is more than {_MOST_VALUES:,} values")
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, torch.SymInt):
        return value  # from a value in a graph: the caller encodes it
    for kind, (tag, write) in _torch_kinds().items():
        if type(value) is kind:
            return {tag: write(value)}
    if type(value) in (list, tuple, set, frozenset, torch.Size):
        items: list[Tree] = [_encode(item, tensors, left) for item in value]
        return items if type(value) is list else {type(value).__name__: items}
    if type(value) is dict:
        pairs: list[Tree] = []
        for key, item in value.items():
            pairs.append([_encode(key, tensors, left), _encode(item, tensors, left)])
        return {"dict": pairs}
    if isinstance(value, enum.Enum):
        importable_name(type(value))
        return encode_value(value)
    if type(value) in _PLAIN:
        return encode_value(value)
    refuse_job_value(value)
    if isinstance(value, type) or callable(value):
        return {"declared": _declared_name(value)}
    return {"object": _declared_name(type(value)), "state": _encode(state_of(value), tensors, left)}


def refuse_job_value(value: Any) -> None:
    """Raise if a value refers to the processes of the job that made it: no other job has these.

    Raises:
        EncodeError: it is a device mesh, a process group, or another object of torch.distributed.
    """
    from graphwire.bridge.torch_compat.private import kind_of_job_value

    if kind := kind_of_job_value(value):
        raise EncodeError(
            f"it is {kind}, which refers to the processes of the job that made it",
            remedy=_NAMED_GROUP,
        )


_NAMED_GROUP = (
    "Let the model use torch's functional collectives, and export without torch's setting `compile_on_one_rank`: "
    "the graph then has the names of process groups, which `groups=` of load maps to those of another job"
)


def decode_data(tree: Tree, tensors: Sequence[Any]) -> Any:
    """Decode a tree that `encode_data` made.

    Raises:
        DecodeError: `encode_data` does not make such a tree.
        UnknownTypeError: this process does not declare a class.
    """
    import torch

    if type(tree) is list:
        return [decode_data(item, tensors) for item in tree]
    if type(tree) is not dict:
        return tree
    readers = {tag: kind for kind, (tag, _) in _torch_kinds().items()}
    parts: Any = list(tree.items())
    match parts:
        case [("tensor", int(index))] if 0 <= index < len(tensors):
            return tensors[index]
        case [("tuple" | "set" | "frozenset" | "Size" as kind, list(items))]:
            kinds = {"tuple": tuple, "set": set, "frozenset": frozenset, "Size": torch.Size}
            return kinds[kind](decode_data(item, tensors) for item in items)
        case [("dict", list(pairs))] if all(type(pair) is list and len(pair) == 2 for pair in pairs):
            return {hashable(decode_data(key, tensors)): decode_data(item, tensors) for key, item in pairs}
        case [(str(tag), str(text))] if tag in readers:
            return _torch_value(readers[tag], text)
        case [("complex", [float(real), float(imaginary)])]:
            return complex(real, imaginary)
        case [("declared", str(name))]:
            return _declared(name)
        case [("object", str(name)), ("state", state)]:
            return rebuild(_declared(name), decode_data(state, tensors))
    return decode_value(tree)


_MOST_VALUES = 1 << 20
"""Values of a state, each as often as it is written."""
_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})


def _torch_kinds() -> dict[type, tuple[str, Callable[[Any], Tree]]]:
    """Return torch's values that are written by name: for each type its tag, and the function that encodes it."""
    import torch

    return {
        torch.dtype: ("dtype", _bare),
        torch.layout: ("layout", _bare),
        torch.memory_format: ("memory_format", _bare),
        torch.device: ("device", str),
        complex: ("complex", lambda value: [value.real, value.imag]),
    }


def _bare(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _torch_value(kind: type, text: str) -> Any:
    import torch

    if kind is torch.device:
        try:
            return torch.device(text)
        except unless_interrupted(RuntimeError) as error:
            raise DecodeError(f"torch knows no device {text!r:.80}") from error
    found = vars(torch).get(text)
    if type(found) is not kind:
        raise DecodeError(f"this torch has no {kind.__name__} {text!r:.80}", remedy="Install a newer torch")
    return found


# ------------------------------------------------------------------------------------------------------------- objects


def declared_classes() -> dict[str, Any]:
    """Return the classes that this process allows torch to create from a file, by module and qualified name.

    They are those passed to `torch.serialization.add_safe_globals`, and the types registered as opaque or with pytree.
    """
    from torch.utils import _pytree

    from graphwire.bridge.torch_compat.private import opaque_types

    return {
        qualified_name(each): each for each in (*opaque_types(), *_pytree.SUPPORTED_NODES, *safe_globals())
    }


def importable_name(declared: Any) -> str:
    """Return the module and qualified name of a class or function, if other processes can import it by that name.

    Raises:
        EncodeError: they cannot: it is local to a function or to the running program.
    """
    name, module = qualified_name(declared), getattr(declared, "__module__", None)
    found = None if module in (None, "__main__", "__mp_main__") else sys.modules.get(module)
    for part in declared.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not declared:
        raise EncodeError(
            f"no other process can import {name}: it is not part of an importable module",
            remedy="Define it in a module, outside of functions, or install a plugin with a constant codec for it",
        )
    return name


def _declared_name(declared: Any) -> str:
    name = qualified_name(declared)
    if declared_classes().get(name) is not declared:
        raise EncodeError(
            f"{name} is not data, and is not declared as safe to create from a file",
            remedy="Declare it in the program that saves and in the one that loads: "
            f"`torch.serialization.add_safe_globals([{getattr(declared, '__name__', name)}])`",
        )
    return importable_name(declared)


def _declared(name: str) -> Any:
    try:
        return declared_classes()[name]
    except KeyError:
        raise UnknownTypeError(
            f"{name!r:.200} is not declared in this process",
            remedy="Before you load, import the library that does, or call `torch.serialization.add_safe_globals`",
        ) from None


def state_of(value: Any) -> Any:
    """Return the state of an object of a declared class: its fields, or the result of its own `__getstate__`."""
    import dataclasses  # which takes long, and this module is imported with every plugin

    kind: Any = type(value)
    if isinstance(value, tuple):
        return tuple(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if kind.__getstate__ is not object.__getstate__:
        return value.__getstate__()
    return dict(vars(value))


def rebuild(kind: Any, state: Any) -> Any:
    """Rebuild the object from the result of `state_of`.

    Raises:
        DecodeError: the state does not belong to this class.
    """
    if not isinstance(kind, type):
        raise DecodeError(f"{qualified_name(kind)} is not a class")
    try:
        if issubclass(kind, tuple):
            return kind(*state) if hasattr(kind, "_fields") else kind(state)
        made: Any = object.__new__(kind)
        if hasattr(kind, "__setstate__"):
            made.__setstate__(state)
        else:
            for name, item in state.items():
                object.__setattr__(made, name, item)
    except (TypeError, AttributeError, ValueError) as error:
        raise DecodeError(f"no {qualified_name(kind)} is described by its state: {error}") from error
    return made


_CODEC = "Install a plugin with a constant codec that owns it and checks what it is made of"


class ScriptObjects:
    """Encodes instances of torch's own C++ script classes, by the state that `__getstate__` returns.

    The tree is `{"class", "state"}`; the tensors are those in the state. Only the classes in `STATES` are supported:
    C++ trusts a state, so each is checked. Any other class needs a codec of a plugin that knows it.
    """

    name = "script_object"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a `torch.ScriptObject`."""
        import torch

        return type(value) is torch.ScriptObject

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the state as a tree, and the tensors in it.

        Raises:
            EncodeError: the class is not supported, or the state could not be loaded.
        """
        import torch

        refuse_job_value(value)
        name = str(value._type().qualified_name())
        if name not in STATES:
            raise EncodeError(f"graphwire cannot check states of the script class {name}", remedy=_CODEC)
        state, _ = torch.ScriptObject.__getstate__(value)
        try:
            check_state(name, state)
        except DecodeError as error:
            raise EncodeError(error.problem) from error
        tensors: list[Any] = []
        return {"class": name, "state": encode_data(state, tensors)}, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Rebuild the object by passing the state to its `__setstate__`.

        Raises:
            DecodeError: the class is not supported, torch does not have it, or it does not accept the state.
        """
        import torch

        match tree:
            case {"class": str(name), "state": state}:
                if name not in STATES:
                    raise DecodeError(
                        f"graphwire cannot check states of the script class {name!r:.200}", remedy=_CODEC
                    )
                state = decode_data(state, tensors)
                check_state(name, state)
                made = torch.ScriptObject.__new__(torch.ScriptObject)
                try:
                    torch.ScriptObject.__setstate__(made, (state, name))
                except unless_interrupted(RuntimeError, TypeError) as error:
                    raise DecodeError(
                        f"torch cannot make a {name!r:.200} here: {str(error).splitlines()[0]}",
                        remedy="Load the library that registers the class before the program",
                    ) from error
                return made
        raise DecodeError(f"no script object is described by {tree!r:.200}")


class OpaqueValues:
    """Encodes instances of classes that are registered with torch as opaque, by their fields or their own state; members of
    enumerations, which torch registers all, by their names.

    The tree is the value as data. The class is looked up among those that this process declares to torch.
    """

    name = "opaque_value"

    def owns(self, value: Any) -> bool:
        """Whether the class of `value` is registered with torch as opaque, or is an enumeration that has a name for it."""
        if isinstance(value, enum.Enum):
            return member_name(value) is not None
        from graphwire.bridge.torch_compat.private import opaque_type_name

        return opaque_type_name(type(value)) is not None and type(value) in declared_classes().values()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the value as a tree, and the tensors in it."""
        if isinstance(value, enum.Enum):  # also of the running script, which loads its own files
            return encode_value(value), []
        tensors: list[Any] = []
        return encode_data(value, tensors), tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the value of a tree.

        Raises:
            DecodeError: `encode` does not make such a tree.
            UnknownTypeError: the class is not registered in this process.
        """
        value = decode_data(tree, tensors)
        if not self.owns(value):
            raise DecodeError(f"no opaque value is described by {tree!r:.200}")
        return value
