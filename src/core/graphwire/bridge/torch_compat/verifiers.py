"""Runs torch's verifiers, which define what the graph of an exported program may contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import torch
from torch._export.verifier import (
    SpecViolationError,
    Verifier,
    _verify_exported_program_module_call_graph,
    _verify_exported_program_signature,
    load_verifier,
)
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from graphwire.errors import DecodeError, EncodeError, shown, unless_interrupted

_ABSENT = object()
_PARAMETER, _USER_INPUT, _USER_OUTPUT = InputKind.PARAMETER, InputKind.USER_INPUT, OutputKind.USER_OUTPUT
"""Local names: looking up a member of an enumeration takes longer than comparing it."""
_REFUSALS = (SpecViolationError, AssertionError, ValueError, TypeError, RuntimeError)
"""The exceptions that the verifiers raise."""
COMMON_VALUES = frozenset(
    {torch.Tensor, FakeTensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, str, type(None)}
)
"""Value types allowed in a graph. torch's own check accepts some more."""


def dialects_of(program: torch.export.ExportedProgram) -> list[str]:
    """Return the dialects of the program's verifiers."""
    for verifier in program.verifiers:
        if not (isinstance(verifier, type) and issubclass(verifier, Verifier)):
            raise EncodeError(
                f"{shown(verifier)} is not a subclass of torch's `Verifier`",
                place="verifiers",
                remedy="Use a subclass of `Verifier`",
            )
    return [verifier.dialect for verifier in program.verifiers]


def verifier_of(dialect: str) -> Any:
    """Return the verifier of a dialect, from those registered in this process.

    Raises:
        DecodeError: no verifier of the dialect is registered.
    """
    try:
        return load_verifier(dialect)
    except KeyError:
        raise DecodeError(
            f"no verifier for dialect {dialect!r} is registered in this process",
            place="verifiers",
            remedy="Import the library that defines the dialect before loading",
        ) from None


def check_program(program: torch.export.ExportedProgram, targets: set[Any] | None = None) -> None:
    """Raise if a program breaks a rule of its verifiers, as `program.validate()` does, but faster.

    torch rebuilds its lists of allowed targets for each node; this looks up each target once. If a target is in none of the
    lists, torch's own check runs: it knows the exceptions, and describes the problem.

    Args:
        targets: all that the nodes call, if they read no attributes, all values are `COMMON_VALUES`, each node follows those that
            it reads, and no two have one name; None if that is unknown.

    Raises:
        DecodeError: torch rejects the program.
    """
    try:
        for kind in program.verifiers:
            verifier = kind()
            common = (
                _has_common_nodes(program.graph_module, verifier)
                if targets is None
                else torch.fx.GraphModule in verifier.allowed_getattr_types()
                and _are_allowed(targets, verifier)
            )
            _check(verifier, program, program.graph_signature, common)
    except unless_interrupted(*_REFUSALS) as error:
        raise DecodeError(f"torch does not accept the program: {error}") from error


def may_call(targets: Iterable[Any], kind: Any) -> bool:
    """Return whether the nodes of a program may call operators; functions are not judged.

    Args:
        kind: the class of a verifier.
    """
    return _are_allowed(
        {each for each in targets if isinstance(each, (OpOverload, HigherOrderOperator))}, kind()
    )


def check_encoded(
    program: torch.export.ExportedProgram, targets: Iterable[Any], decoded: Callable[[], Any], *, plain: bool
) -> None:
    """Raise if `check_program` would reject a program after it is saved and loaded. Encoding has already visited each node,
    so this checks only the distinct targets and the signature.

    Args:
        targets: the targets that the nodes call.
        decoded: builds the signature of the loaded program. It is called if the program's own signature is rejected: that
            may contain outdated names, which are not saved.
        plain: whether the `get_attr` nodes read only subgraphs of their modules.

    Raises:
        EncodeError: torch would reject the program.
    """
    try:
        for kind in program.verifiers:
            verifier = kind()
            common = plain and torch.fx.GraphModule in verifier.allowed_getattr_types()
            common = common and _are_allowed(targets, verifier)
            try:
                _check(verifier, program, program.graph_signature, common)
            except unless_interrupted(*_REFUSALS):
                _check(verifier, program, decoded(), common)
    except unless_interrupted(*_REFUSALS) as error:
        raise EncodeError(
            f"torch does not accept the program, and would not when it is loaded: {str(error).rstrip('.')}",
            remedy="Fix the edited parts until `program.validate()` passes",
        ) from error


def _check(verifier: Verifier, program: torch.export.ExportedProgram, signature: Any, common: bool) -> None:
    """Run a verifier on a program.

    Args:
        common: whether all nodes are known to be in the verifier's lists of allowed nodes.
    """
    if common:
        verifier.check_additional(program.graph_module)
        _check_signature(program, signature)
    else:
        verifier.check(_CachedAttributes(program, graph_signature=_CachedAttributes(signature)))


def _check_signature(program: torch.export.ExportedProgram, signature: Any) -> None:
    """Run torch's checks of a signature and of the calls of modules, without what is certainly right, for which torch takes three
    times as long: parameters, what the caller passes, and returned tensors."""
    specs, results, graph = signature.input_specs, signature.output_specs, program.graph
    nodes: Any = graph.nodes
    inputs: list[torch.fx.Node] = []
    for node in nodes:
        if node.op != "placeholder":
            break
        inputs.append(node)
    output = [*islice(reversed(nodes), 1)]
    if len(inputs) == len(specs) == len(graph.find_nodes(op="placeholder", sort=False)):
        state = program.state_dict
        rest = [
            (spec, node)
            for spec, node in zip(specs, inputs, strict=True)
            if not (
                type(argument := spec.arg) is TensorArgument
                and argument.name == node.name
                and (
                    (
                        spec.kind is _PARAMETER
                        and type(target := spec.target) is str
                        and type(state.get(target)) is torch.nn.Parameter
                    )
                    or spec.kind is _USER_INPUT
                )
            )
        ]
        if not rest and _returns_tensors(output, results):
            ends = {spec.arg.name for spec in (*specs, *results)} | {""}
            calls = [call.signature for call in program.module_call_graph if call.signature is not None]
            if ends.issuperset([each.name for call in calls for each in (*call.inputs, *call.outputs)]):
                return
        specs, nodes = [spec for spec, _ in rest], [*(node for _, node in rest), *output]
    _verify_exported_program_module_call_graph(program)
    _verify_exported_program_signature(
        _CachedAttributes(
            program,
            graph=_CachedAttributes(graph, nodes=nodes),
            graph_signature=_CachedAttributes(signature, input_specs=specs),
        )
    )


def _returns_tensors(output: list[torch.fx.Node], results: list[Any]) -> bool:
    """Return whether the output of a graph returns tensors, each as the signature names it."""
    returned: Any = output[0].args[0] if output and output[0].op == "output" else None
    return (
        isinstance(returned, (tuple, list))
        and len(returned) == len(results)
        and all(
            type(node) is torch.fx.Node
            and spec.kind is _USER_OUTPUT
            and type(spec.arg) is TensorArgument
            and spec.arg.name == node.name
            for node, spec in zip(returned, results, strict=True)
        )
    )


class _CachedAttributes:
    """Caches the attributes of another object: torch's check reads whole tables of a signature for each output that mutates
    a buffer, and each read builds the table from all specs.

    Args:
        known: attributes with other values than those of the object.
    """

    def __init__(self, whole: Any, **known: Any) -> None:
        self.__dict__.update(known, _whole=whole)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._whole, name)
        return found


def _has_common_nodes(root: torch.fx.GraphModule, verifier: Verifier) -> bool:
    """Return whether all targets, attributes and values of a graph and its subgraphs are in the verifier's lists, all node
    names are unique, and each node reads only earlier nodes."""
    seen: set[Any] = set()
    for module in root.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        names: set[str] = set()
        before: set[torch.fx.Node] = set()
        targets: dict[int, Any] = {}  # by their ids: torch computes the hash of an operator in Python
        for node in module.graph.nodes:
            name, op = node.name, node.op
            if name in names or not before.issuperset(node._input_nodes):
                return False
            names.add(name)
            before.add(node)
            if op == "get_attr":
                if not isinstance(getattr(module, node.target, None), torch.fx.GraphModule):
                    return False
                continue
            if op == "output":
                continue
            value = node.meta.get("val", _ABSENT)
            if type(value) not in COMMON_VALUES and not _is_common_value(value):
                return False
            if op == "call_function":
                target = node.target
                targets[id(target)] = target
            elif op != "placeholder":
                return False
        seen.update(targets.values())
    return torch.fx.GraphModule in verifier.allowed_getattr_types() and _are_allowed(seen, verifier)


def _is_common_value(value: Any) -> bool:
    kind = type(value)
    return kind in COMMON_VALUES or ((kind is tuple or kind is list) and all(map(_is_common_value, value)))


def _are_allowed(targets: Iterable[Any], verifier: Verifier) -> bool:
    types, may_write = verifier.allowed_op_types(), verifier.dialect == "TRAINING"
    functions: set[Any] | None = None
    for target in targets:
        if not isinstance(target, types):
            if functions is None:
                functions = set(verifier.allowed_builtin_ops())
            if target not in functions:
                return False
        if not may_write and isinstance(target, OpOverload) and target._schema.is_mutable:
            return False
        verifier.check_valid_op(target)
    return True
