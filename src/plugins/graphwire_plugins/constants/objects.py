"""Constant codecs for objects: TorchScript's custom classes, and opaque values of classes registered with torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import Tree
from graphwire_plugins.constants.plain_data import (
    declared_classes,
    decode_data,
    encode_data,
    refuse_job_value,
)
from graphwire_plugins.constants.script_states import STATES, check_state

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
            raise EncodeError(error.problem) from None
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
                except (RuntimeError, TypeError) as error:
                    raise DecodeError(
                        f"torch cannot make a {name!r:.200} here: {str(error).splitlines()[0]}",
                        remedy="Load the library that registers the class before the program",
                    ) from error
                return made
        raise DecodeError(f"no script object is described by {tree!r:.200}")


class OpaqueValues:
    """Encodes instances of classes that are registered with torch as opaque, by their fields or their own state.

    The tree is the value as data. The class is looked up among those that this process declares to torch.
    """

    name = "opaque_value"

    def owns(self, value: Any) -> bool:
        """Whether the class of `value` is registered with torch as opaque."""
        from graphwire.bridge.torch_compat import opaque_type_name

        return opaque_type_name(type(value)) is not None and type(value) in declared_classes().values()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the value as a tree, and the tensors in it."""
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
