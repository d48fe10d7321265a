"""torch's verifiers, which say what the graph of an exported program may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._export.verifier import (
    SpecViolationError,
    Verifier,
    _verify_exported_program_module_call_graph,
    _verify_exported_program_signature,
    load_verifier,
)
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from graphwire.errors import DecodeError, EncodeError, shown

_ABSENT = object()
_REFUSALS = (SpecViolationError, AssertionError, ValueError, TypeError, RuntimeError)
"""What the verifiers raise."""
_VALUES = frozenset(
    {torch.Tensor, FakeTensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, str, type(None)}
)
"""Types that a value in a graph may have; torch's own check knows more of them."""


def dialects_of(program: torch.export.ExportedProgram) -> list[str]:
    """The dialects of the verifiers that `program` obeys."""
    for verifier in program.verifiers:
        if not (isinstance(verifier, type) and issubclass(verifier, Verifier)):
            raise EncodeError(
                f"{shown(verifier)} is no verifier of torch's",
                place="verifiers",
                remedy="Let it be a subclass of `Verifier`",
            )
    return [verifier.dialect for verifier in program.verifiers]


def verifier_of(dialect: str) -> Any:
    """The verifier of a dialect, from those that this process has.

    Raises:
        DecodeError: nobody registered one.
    """
    try:
        return load_verifier(dialect)
    except KeyError:
        raise DecodeError(
            f"no verifier for dialect {dialect!r} is known in this process",
            place="verifiers",
            remedy="Import the library that defines the dialect before loading",
        ) from None


def check_program(program: torch.export.ExportedProgram) -> None:
    """Refuse a program that breaks a rule of its verifiers, as `program.validate()` does.

    That asks each node's target whether it is in lists that it makes anew for each; here each target is looked up once.
    What is in none of the lists is left to torch, which knows exceptions and says what is wrong.

    Raises:
        DecodeError: torch does not accept the program.
    """
    try:
        for kind in program.verifiers:
            verifier = kind()
            common = _has_common_nodes(program.graph_module, verifier)
            _check(verifier, program, program.graph_signature, common)
    except _REFUSALS as error:
        raise DecodeError(f"torch does not accept the program: {error}") from error


def check_encoded(
    program: torch.export.ExportedProgram, targets: set[Any], decoded: Callable[[], Any], *, plain: bool
) -> None:
    """Refuse a program that `check_program` would refuse once it is saved and loaded. Encoding has looked at each node, so
    each distinct target is asked for, and the signature.

    Args:
        targets: what the nodes call.
        decoded: makes the signature that the loaded program will have. It is asked where the program's own is refused: a few
            names in it may be out of date, which are not saved.
        plain: whether the graphs read nothing but subgraphs of their modules.

    Raises:
        EncodeError: torch would not accept the program.
    """
    try:
        for kind in program.verifiers:
            verifier = kind()
            common = plain and torch.fx.GraphModule in verifier.allowed_getattr_types()
            common = common and _are_allowed(targets, verifier)
            try:
                _check(verifier, program, program.graph_signature, common)
            except _REFUSALS:
                _check(verifier, program, decoded(), common)
    except _REFUSALS as error:
        raise EncodeError(
            f"torch does not accept the program, and would not when it is loaded: {error}",
            remedy="Mend what was edited until `program.validate()` passes",
        ) from error


def _check(verifier: Verifier, program: torch.export.ExportedProgram, signature: Any, common: bool) -> None:
    """Ask a verifier.

    Args:
        common: whether all that is known of the nodes is in the verifier's lists.
    """
    checked = _Once(program, graph_signature=_Once(signature))
    if common:
        verifier.check_additional(program.graph_module)
        _verify_exported_program_module_call_graph(program)
        _verify_exported_program_signature(checked)
    else:
        verifier.check(checked)


class _Once:
    """Another object's attributes, each asked for once: torch's check asks a signature for whole tables for each output that
    changes a buffer, and each time they are made of all its specs.

    Args:
        known: attributes to give instead.
    """

    def __init__(self, whole: Any, **known: Any) -> None:
        self.__dict__.update(known, _whole=whole)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._whole, name)
        return found


def _has_common_nodes(root: torch.fx.GraphModule, verifier: Verifier) -> bool:
    """Whether all that a graph and its subgraphs call, get and give is in the verifier's lists, no two nodes have one name,
    and each reads nodes before it."""
    seen: set[Any] = set()
    for module in root.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        names: set[str] = set()
        before: set[torch.fx.Node] = set()
        for node in module.graph.nodes:
            if node.name in names or not before.issuperset(node.all_input_nodes):
                return False
            names.add(node.name)
            before.add(node)
            if node.op == "get_attr":
                if not isinstance(getattr(module, node.target, None), torch.fx.GraphModule):
                    return False
                continue
            if node.op == "output":
                continue
            if not _is_common_value(node.meta.get("val", _ABSENT)):
                return False
            if node.op == "call_function":
                seen.add(node.target)
            elif node.op != "placeholder":
                return False
    return torch.fx.GraphModule in verifier.allowed_getattr_types() and _are_allowed(seen, verifier)


def _is_common_value(value: Any) -> bool:
    kind = type(value)
    return kind in _VALUES or ((kind is tuple or kind is list) and all(map(_is_common_value, value)))


def _are_allowed(targets: set[Any], verifier: Verifier) -> bool:
    types, functions = verifier.allowed_op_types(), set(verifier.allowed_builtin_ops())
    may_write = verifier.dialect == "TRAINING"
    for target in targets:
        if not isinstance(target, types) and target not in functions:
            return False
        if isinstance(target, OpOverload) and target._schema.is_mutable and not may_write:
            return False
        verifier.check_valid_op(target)
    return True
