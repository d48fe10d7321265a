"""Placeholders for operators that are unavailable on this installation: programs with them can be inspected, not run.

A placeholder keeps how its node was encoded, so that saving the program again gives the same document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from graphwire.bridge import torch_compat
from graphwire.bridge.context import OpaqueOrigin, Operator
from graphwire.errors import UnknownOperatorError
from graphwire.schema import Argument, ArgumentKind, NamedArgument, Node, install_advice


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a call was encoded, beyond what FX represents."""

    inputs: tuple[tuple[str, ArgumentKind | None, bool], ...] = ()
    """For each input: its name, how it is passed, and whether it is a tuple."""
    convention: str = "generic"
    returns: int = 1
    """The number of results that its schema would declare."""

    @classmethod
    def of(cls, record: Node | None) -> CallForm:
        """Return the form of a node; the default for an operator that is an argument, not a call."""
        if record is None:
            return cls()
        inputs = tuple((named.name, named.kind, named.tuples) for named in record.inputs)
        if record.is_hop_single_tensor_return is not None:
            return cls(inputs)
        return cls(inputs, "schema", len(record.outputs))


class OpaqueOperator(torch_compat.HigherOrderOperator):
    """An operator that is known by its name alone."""

    def __init__(self, name: str, form: CallForm, origin: OpaqueOrigin) -> None:
        # Not torch's `__init__`, which adds the name to a process-wide table.
        self._name = name
        self.form = form
        self.origin = origin
        self.__name__ = "opaque_" + re.sub(r"\W+", "_", name.removeprefix("torch.ops."))
        self.__qualname__ = self.__name__
        # Not torch's module name either: generated code would look for the name in `torch.ops`.
        self.__module__ = __name__
        self._ns = "higher_order"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: the operator is unavailable on this installation.

        Raises:
            UnknownOperatorError: always.
        """
        raise UnknownOperatorError(
            f"the operator {self._name} is not available on this installation: the program was loaded for inspection only",
            remedy=install_advice(self.origin.plugins) if self.origin.plugins else "",
        )

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<opaque operator {self._name}>"


class _OpaqueHandler:
    """Encodes the inputs of one opaque operator's nodes in their original form."""

    prefixes = ("",)
    namespace = "opaque"
    opset_version = 0

    def __init__(self, form: CallForm) -> None:
        self.convention = form.convention
        self._form = form

    def name_of(self, target: Any) -> str | None:
        """Return the name of an opaque operator."""
        return target.name() if isinstance(target, OpaqueOperator) else None

    def resolve(self, name: str) -> None:
        """Return None: the operator is unavailable."""

    def encode_node(
        self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
    ) -> list[NamedArgument]:
        """Encode the inputs, with their original names and order."""
        inputs = []
        positional, left = list(args), dict(kwargs)
        for name, kind, tuples in self._form.inputs:
            if kind is ArgumentKind.KEYWORD and name in left:
                inputs.append(NamedArgument(name, encode(left.pop(name)), kind, tuples))
            elif kind is not ArgumentKind.KEYWORD and positional:
                inputs.append(NamedArgument(name, encode(positional.pop(0)), kind, tuples))
        inputs += [NamedArgument("", encode(value), ArgumentKind.POSITIONAL) for value in positional]
        return inputs + [NamedArgument(k, encode(v), ArgumentKind.KEYWORD) for k, v in left.items()]

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the inputs to positional and keyword arguments."""
        values = [decode(named.arg) for named in inputs]
        pairs = zip(inputs, values, strict=True)
        return call_of(inputs, [tuple(v) if n.tuples and isinstance(v, list) else v for n, v in pairs])


def call_of(inputs: Sequence[NamedArgument], values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a call whose operator has no schema."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for named, value in zip(inputs, values, strict=True):
        if named.kind is ArgumentKind.KEYWORD and named.name:
            kwargs[named.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def opaque_operator(target: OpaqueOperator) -> Operator:
    """Return how to encode and decode the nodes of an unavailable operator."""
    handler = _OpaqueHandler(target.form)
    returns = [None] * target.form.returns if target.form.convention == "schema" else None
    own = target.origin.own_forms
    return Operator(target, target.name(), handler, codec=handler, is_own_form=own, returns=returns)
