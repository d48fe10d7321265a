"""Constant codecs for tensor subclasses.

`TensorSubclasses` encodes subclasses that flatten themselves (`__tensor_flatten__`). The tree is `{"class",
"attributes", "context", "sizes", "strides", "parameter", "requires_grad"}`; the tensors are the inner ones, in the
order of the attributes, followed by those in the context. An inner tensor may be a subclass again.

`PlainSubclasses` encodes subclasses that hold their elements and only add behaviour. The tree is `{"class",
"requires_grad", "state"}`, where the state is the instance's attributes; the tensors are the plain one, followed by
those in the state.

A class is looked up by module and qualified name among the subclasses of `torch.Tensor` in this process: those that the
loading program has defined or imported. A name in a file never causes an import.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError, UnknownTypeError
from graphwire.hooks import Tree
from graphwire_plugins.constants.plain_data import decode_data, encode_data, importable_name, refuse_job_value
from graphwire_plugins.constants.weights import as_weight, weight_fields
from graphwire_plugins.names import qualified_name, subclasses


class TensorSubclasses:
    """Encodes traceable wrapper subclasses of `torch.Tensor`, such as torchao's quantized tensors."""

    name = "tensor_subclass"

    def owns(self, value: Any) -> bool:
        """Whether `value` is an instance of a subclass that implements `__tensor_flatten__`."""
        import torch
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass

        return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the inner tensors, which share the value's memory.

        Raises:
            EncodeError: the value is a DTensor, or its context is not data.
        """
        refuse_job_value(value)
        attributes, context = value.__tensor_flatten__()
        tensors = [getattr(value, attribute) for attribute in attributes]
        tree: Tree = {
            "class": importable_name(type(value)),
            "attributes": list(attributes),
            "context": encode_data(context, tensors),
            "sizes": list(value.shape),
            "strides": list(value.stride()),
            **weight_fields(value),
        }
        return tree, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Rebuild the subclass with its own `__tensor_unflatten__`.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
            UnknownTypeError: this process has no such class.
        """
        import torch

        match tree:
            case {
                "class": str(name),
                "attributes": list(attributes),
                "context": context_tree,
                "sizes": list(sizes),
                "strides": list(strides),
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            }:
                pass
            case _:
                raise DecodeError(f"no tensor subclass is described by {tree!r:.200}")
        if len(attributes) > len(tensors) or not all(isinstance(each, str) for each in attributes):
            raise DecodeError(f"{len(tensors)} tensors are given for the attributes {attributes!r:.200}")
        kind = _class_of(name)
        if not hasattr(kind, "__tensor_unflatten__"):
            raise DecodeError(f"{name} has no `__tensor_unflatten__`")
        context = decode_data(context_tree, tensors)
        inner = dict(zip(attributes, tensors, strict=False))
        try:
            made = kind.__tensor_unflatten__(inner, context, torch.Size(sizes), tuple(strides))
        except Exception as error:
            raise DecodeError(
                f"{name} cannot be rebuilt from its parts: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, torch.Tensor):
            raise DecodeError(f"{name} does not return a tensor from `__tensor_unflatten__`")
        return as_weight(made, parameter, requires_grad)


class PlainSubclasses:
    """Encodes strided tensors of subclasses of `torch.Tensor` or `torch.nn.Parameter` that hold their elements."""

    name = "plain_subclass"

    def owns(self, value: Any) -> bool:
        """Whether `value` is of a subclass without its own `__torch_dispatch__`."""
        import torch

        return (
            isinstance(value, torch.Tensor)
            and type(value) not in (torch.Tensor, torch.nn.Parameter)
            and type(value).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
            and value.layout is torch.strided
            and not value.is_quantized
        )

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree, and the value as a plain tensor over the same memory.

        Raises:
            EncodeError: an attribute of the instance is not data.
        """
        import torch

        tensors = [torch.Tensor._make_subclass(torch.Tensor, value.detach())]
        tree: Tree = {
            "class": importable_name(type(value)),
            "requires_grad": value.requires_grad,
            "state": encode_data(dict(vars(value)), tensors),
        }
        return tree, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Rebuild the tensor over the same memory, without calling `__new__` or `__init__` of the class.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
            UnknownTypeError: this process has no such class.
        """
        import torch

        match tree:
            case {"class": str(name), "requires_grad": bool(requires_grad), "state": state} if tensors:
                kind = _class_of(name)
                if kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
                    raise DecodeError(f"{name} does not hold its elements itself")
                if issubclass(kind, torch.nn.parameter.UninitializedTensorMixin):
                    raise DecodeError(f"{name} has no elements")
                attributes = decode_data(state, tensors)
                if type(attributes) is not dict or not all(type(key) is str for key in attributes):
                    raise DecodeError(f"the attributes of a {name} are {state!r:.200}")
                if shadowed := [key for key in attributes if _is_behaviour(kind, key)]:
                    raise DecodeError(f"the attributes of a {name} would hide its methods {shadowed!r:.200}")
                if not isinstance(tensors[0], torch.Tensor):
                    raise DecodeError(f"the elements of a {name} are not a plain tensor")
                made = torch.Tensor._make_subclass(kind, tensors[0], requires_grad)
                vars(made).update(attributes)
                return made
        raise DecodeError(f"no tensor is described by {tree!r:.200} and {len(tensors)} tensors")


def _is_behaviour(kind: type, name: str) -> bool:
    """Whether a class has a method, property or slot of that name."""
    found = inspect.getattr_static(kind, name, None)
    return callable(found) or hasattr(type(found), "__get__")


def _class_of(name: str) -> Any:
    import torch

    # The newest one, if a class was defined repeatedly (in a notebook, for example).
    for kind in reversed(list(subclasses(torch.Tensor))):
        if qualified_name(kind) == name:
            return kind
    raise UnknownTypeError(
        f"this process has no tensor subclass {name!r:.200}",
        remedy="Before you load, import the library that defines it",
    )
