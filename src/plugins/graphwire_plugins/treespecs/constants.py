"""Treespec serializers for constants that are containers without children.

`torch.utils._pytree.register_constant` makes them. `flat_apply` and operators with constant arguments keep them in
graphs.
"""

from __future__ import annotations

from typing import Any

from graphwire.errors import DecodeError, EncodeError, UnknownTypeError
from graphwire.hooks import Tree
from graphwire_plugins.names import qualified_name, safe_globals, subclasses
from graphwire_plugins.ops.functions import PredispatchFunctions


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
                except RuntimeError as error:
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
