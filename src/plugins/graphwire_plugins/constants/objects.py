"""Objects as constants: TorchScript's custom classes, and opaque values of classes registered with torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks.interfaces import Tree
from graphwire_plugins.constants.plain_data import declared_classes, decode_data, encode_data


class ScriptObjects:
    """Instances of C++ classes that a library registered with TorchScript, by the state that `__getstate__` gives.

    The tree is `{"class", "state"}`; the tensors are those in the state. The class is looked up in torch's own table of
    custom classes, which a file cannot add to.
    """

    name = "script_object"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a `torch.ScriptObject`."""
        import torch

        return type(value) is torch.ScriptObject

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """The state as a tree, and the tensors in it.

        Raises:
            EncodeError: the class says no state.
        """
        import torch

        name = str(value._type().qualified_name())
        if not value._has_method("__getstate__") or not value._has_method("__setstate__"):
            raise EncodeError(
                f"the class {name} says no state that could be written",
                remedy="Give it `def_pickle(getstate, setstate)` where it is registered",
            )
        state, _ = torch.ScriptObject.__getstate__(value)
        tensors: list[Any] = []
        return {"class": name, "state": encode_data(state, tensors)}, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """The object whose `__setstate__` was given the state.

        Raises:
            DecodeError: torch has no such class, or the class does not take the state.
        """
        import torch

        match tree:
            case {"class": str(name), "state": state}:
                made = torch.ScriptObject.__new__(torch.ScriptObject)
                try:
                    torch.ScriptObject.__setstate__(made, (decode_data(state, tensors), name))
                except (RuntimeError, TypeError) as error:
                    raise DecodeError(
                        f"torch cannot make a {name!r:.200} here: {str(error).splitlines()[0]}",
                        remedy="Load the library that registers the class before the program",
                    ) from error
                return made
        raise DecodeError(f"no script object is described by {tree!r:.200}")


class OpaqueValues:
    """Instances of classes that were registered with torch as opaque values, by their fields or their own state.

    The tree is the value as data; the class is looked up among those that this process declares to torch.
    """

    name = "opaque_value"

    def owns(self, value: Any) -> bool:
        """Whether the class of `value` is registered with torch as opaque."""
        from graphwire.bridge.torch_releases import opaque_type_name

        return opaque_type_name(type(value)) is not None and type(value) in declared_classes().values()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """The value as a tree, and the tensors in it."""
        tensors: list[Any] = []
        return encode_data(value, tensors), tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """The value of a tree.

        Raises:
            DecodeError: the tree is none that `encode` makes.
            UnknownTypeError: nobody registers the class in this process.
        """
        value = decode_data(tree, tensors)
        if not self.owns(value):
            raise DecodeError(f"no opaque value is described by {tree!r:.200}")
        return value
