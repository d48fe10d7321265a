"""Resolves operators between FX targets and serialized names, each once for a save or a load."""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from graphwire import errors
from graphwire.analysis.validation.value_rules import is_parameter_name
from graphwire.bridge.context import DecodeContext, EncodeContext, OpaqueOrigin, Operator
from graphwire.bridge.torch_compat.private import HigherOrderOperator, OpOverload, operators_in
from graphwire.evolve.plain_values import decode_value, walk_nodes
from graphwire.registry.calls import attributed, blamed
from graphwire.registry.discovery import remedy_for_name, unavailable_error
from graphwire.registry.interfaces import OpHandler
from graphwire.registry.registry import Registry
from graphwire.schema import (
    Argument,
    ArgumentKind,
    Graph,
    NamedArgument,
    Node,
    Program,
    calls_in,
    install_advice,
)

# ------------------------------------------------- placeholders for operators that are unavailable on this installation
# programs with them can be inspected, not run.
#
# A placeholder keeps how its node was encoded, so that saving the program again gives the same document.


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


class OpaqueOperator(HigherOrderOperator):
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
        raise errors.UnknownOperatorError(
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


def encode_operator(context: EncodeContext, target: Any) -> Operator:
    """Return how to encode nodes of an FX target.

    Raises:
        EncodeError: no handler owns the target.
    """
    key = id(target)
    operator = context.operators.get(key)
    if operator is None:
        operator = context.operators[key] = context.registry.overloads.get(key) or _named(context, target)
    return operator


def _named(context: EncodeContext, target: Any) -> Operator:
    if type(target) is OpaqueOperator:
        return opaque_operator(target)
    registry = context.registry
    failures: list[errors.GraphwireError] = []
    for handler in registry.handlers_in_turn():
        try:
            name = handler.name_of(target)
            if name is None or not _is_own(registry, handler, name, target):
                continue
        except errors.GraphwireError as error:
            failures.append(error)  # another handler may own the target
            continue
        if (owner := registry.op_handler(name)) is not None:
            if not registry.is_in_box(owner):
                context.provided.add(("op_handler", name))
            return _operator(registry, target, name, owner)
        if fault := registry.fault_of("op_handler", name):
            raise unavailable_error(fault, f"the operator {name}", errors.EncodeError)
    if failures:
        raise failures[0]
    raise errors.EncodeError(
        f"no operator handler supports {errors.shown(target)}",
        remedy=remedy_for_name(
            registry, "op_handler", "", "Install the plugin that handles it, or register an OpHandler for it"
        ),
    )


def _is_own(registry: Registry, handler: OpHandler, name: Any, target: Any) -> bool:
    """Return whether a handler may give a target this name. Handlers shipped with graphwire may name any operator; others
    only operators that their own `resolve` returns for the name."""
    if registry.is_in_box(handler):
        return True
    return registry.op_handler(name) is handler and handler.resolve(name) is target


def name_of_operator(registry: Registry, function: Any) -> str | None:
    """Return the serialized name of a function in metadata, if it is an operator. Skips handlers that fail."""
    for handler in registry.handlers_in_turn():
        try:
            name = handler.name_of(function)
            if name is not None and _is_own(registry, handler, name, function):
                return name
        except errors.unless_interrupted(Exception):  # a plugin's code, needed for metadata only
            pass
    return None


def operator_schemas(names: Iterable[str], registry: Registry) -> dict[str, str]:
    """Return the schema of each operator that has one, by its serialized name."""
    found = {}
    for name in names:
        handler = registry.op_handler(name)
        try:
            target = None if handler is None else handler.resolve(name)
        except errors.unless_interrupted(Exception):  # a plugin's code; the page then lacks the schema
            continue
        schema = getattr(target, "_schema", None)
        if schema is not None:
            found[name] = str(schema)
    return found


def decode_operator(context: DecodeContext, name: str, record: Node | None = None) -> Operator:
    """Return the operator of a serialized name.

    Args:
        record: the node that calls it. If the operator is unavailable, it keeps the form of this call.

    Raises:
        UnknownOperatorError: no handler owns the name, or its owner cannot resolve it on this installation.
    """
    operator = context.operators.get(name)
    if operator is None and context.origin is None and (kept := context.registry.overloads.get(name)):
        operator = context.operators[name] = kept
    if operator is None:
        handler = context.registry.op_handler(name)
        target = None if handler is None else _resolved(context, handler, name)
        if handler is None or target is None:
            if context.origin is not None:
                return opaque_operator(OpaqueOperator(name, CallForm.of(record), context.origin))
            if fault := context.registry.fault_of("op_handler", name):
                raise unavailable_error(fault, f"the operator {name}", errors.UnknownOperatorError)
            remedy = remedy_for_name(context.registry, "op_handler", name, "") or _advice(name)
            error = errors.UnknownOperatorError(f"this installation has no operator {name!r}", remedy=remedy)
            raise attributed(error, handler)
        operator = context.operators[name] = _operator(context.registry, target, name, handler)
    return operator


def _resolved(context: DecodeContext, handler: OpHandler, name: str) -> Any:
    """Return the target of a name; None if operators of its namespace stay opaque."""
    origin = context.origin
    if origin is not None and origin.keeps(name, handler.namespace):
        return None
    return handler.resolve(name)


_MOST_REPORTED = 20
"""The most missing operators that an error names; finding the nearest name to each is slow."""


def check_operators(context: DecodeContext, graph: Graph, calls: Mapping[str, Node] | None = None) -> None:
    """Raise if operators of a graph are unavailable on this installation.

    Args:
        calls: `schema.calls_in` of the graph, if it is known.

    Raises:
        UnknownOperatorError: some are unavailable; the message names each, with its first use.
    """
    try:
        for target, node in (calls_in(graph) if calls is None else calls).items():
            decode_operator(context, target, node)
    except errors.UnknownOperatorError:
        _report_operators(context, graph)


def _report_operators(context: DecodeContext, graph: Graph) -> None:
    missing: dict[str, errors.UnknownOperatorError] = {}
    for place, node in walk_nodes(graph):
        if node.target in context.operators or node.target in missing:
            continue
        if len(missing) == _MOST_REPORTED:
            break
        try:
            decode_operator(context, node.target, node)
        except errors.UnknownOperatorError as error:
            missing[node.target] = errors.UnknownOperatorError(
                error.problem, place=place, remedy=error.remedy
            )
    if len(missing) == 1:
        raise next(iter(missing.values()))
    if missing:
        raise errors.UnknownOperatorError(
            f"{len(missing)}{' or more' * (len(missing) == _MOST_REPORTED)} operators are missing",
            problems=[
                errors.Problem(error.place, "unknown-operator", f"{error.problem}. {error.remedy}")
                for error in missing.values()
            ],
        )


def _advice(name: str) -> str:
    parts = name.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) != 5:
        return "Install the plugin that handles it, or register an OpHandler for it"
    namespace, operator = parts[2], parts[3]
    known = operators_in(namespace)
    near = difflib.get_close_matches(f"{namespace}::{operator}", known, 1)
    if near:
        return f"The most similar operator of this torch is {near[0]}"
    return f"Import or install the library that registers {namespace}::{operator} before loading"


def _operator(registry: Registry, target: Any, name: str, handler: OpHandler) -> Operator:
    """Return how to encode and decode the nodes of a target. That of an overload with a built-in handler is kept."""
    if type(target) is not OpOverload or not registry.is_in_box(handler):
        return _described(target, name, handler)
    kept = registry.overloads
    known: Operator | None = kept.get(id(target))
    if known is not None and known.name == name:
        return known
    made = _described(target, name, handler)
    if len(kept) < _MOST_KEPT:
        kept[id(target)] = made
        if target.namespace == "aten":  # nobody registers these anew
            kept[name] = made
    return made


def _described(target: Any, name: str, handler: OpHandler) -> Operator:
    # Not by `isinstance`: a check against a Protocol takes as long as everything else here.
    codec: Any = handler if hasattr(handler, "encode_node") else None
    if handler.convention == "schema":
        try:
            facts = _facts_of(target) if isinstance(target, OpOverload) else _read_schema(target)
        except errors.unless_interrupted(Exception):  # of a plugin's class
            facts = None
        if facts is None:
            what = f"returns {errors.shown(target)} for {name!r}, which has no schema"
            problem = f"the operator handler {handler.namespace!r} {what}"
            remedy = "Declare its convention as symbolic or generic, or return an overload"
            raise blamed(errors.PluginError(problem, remedy=remedy), handler)
        return Operator(target, name, handler, codec=codec, **facts)
    operator = Operator(target, name, handler, codec=codec)
    if handler.convention == "symbolic":
        operator.only_result = "number"
        parameters = _parameters(target)
        operator.parameters = [(parameter.name, False) for parameter in parameters]
        if type(target) is types.BuiltinFunctionType:
            operator.needed = sum(parameter.default is parameter.empty for parameter in parameters)
    return operator


def _read_schema(target: Any) -> dict[str, Any] | None:
    """Return the fields of `Operator` that the schema of an operator states; None for a target without a schema."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return None
    # Reading an attribute of torch's argument objects takes as long as ten Python attributes.
    arguments = [(each.name, each.kwarg_only, each.has_default_value()) for each in schema.arguments]
    needed = [index for index, (_, _, has_default) in enumerate(arguments, 1) if not has_default]
    return {
        "parameters": [(parameter, keyword_only) for parameter, keyword_only, _ in arguments],
        "required": frozenset(arguments[index - 1][0] for index in needed),
        "positional": tuple(each[0] for each in itertools.takewhile(lambda each: not each[1], arguments)),
        "needed": max(needed, default=0),
        "returns": schema.returns,
        "only_result": str(schema.returns[0].type) if len(schema.returns) == 1 else "",
        "is_legal": len({each[0] for each in arguments}) == len(arguments)
        and all(is_parameter_name(each[0], keyword=True) for each in arguments),
    }


_MOST_KEPT = 4096
"""The most overloads whose description is kept. torch has fewer."""
_facts_of = functools.lru_cache(maxsize=_MOST_KEPT)(_read_schema)
"""Cached for torch's overloads, whose schemas never change."""


def signature_mismatches(before: Program, after: Program, registry: Registry) -> list[errors.Problem]:
    """Return the problems of nodes that opset upgraders wrote, whose inputs do not match the installed operators.

    Args:
        before: the program before the upgrade.
        after: the program after it.
        registry: provides the handlers that resolve the operators.
    """
    from graphwire.bridge.graph.results import literal_fits  # here: it imports this module

    known = {id(node): node.target for _, node in walk_nodes(before.graph_module.graph)}
    had = set(known.values())
    problems = []
    for place, node in walk_nodes(after.graph_module.graph):
        if id(node) in known:
            continue
        handler = registry.op_handler(node.target)
        try:
            operator = None if handler is None else handler.resolve(node.target)
        except errors.unless_interrupted(
            Exception
        ):  # a plugin's code; an error is raised when something needs the operator
            continue
        if operator is None and node.target not in had:
            problems.append(
                errors.Problem(place, "no-operator", f"this installation has no operator {node.target}")
            )
        schema = getattr(operator, "_schema", None)
        if handler is None or schema is None:
            continue
        if handler.convention != "schema" or hasattr(handler, "encode_node"):
            continue
        parameters = {argument.name: argument for argument in schema.arguments}
        given = {named.name: decode_value(named.arg) for named in node.inputs}
        for name in sorted(given):
            if name not in parameters:
                has = ", ".join(sorted(parameters)) or "none"
                message = f"{node.target} has no parameter {name or 'without a name'}; it has {has}"
                problems.append(errors.Problem(place, "no-parameter", message))
            elif not literal_fits(given[name], parameters[name], operator):
                wanted = parameters[name].real_type
                message = f"{node.target} takes a {wanted} as {name}, and gets {errors.shown(given[name])}"
                problems.append(errors.Problem(place, "wrong-type", message))
        if "" not in given:
            required = {name for name, each in parameters.items() if not each.has_default_value()}
            for name in sorted(required - given.keys()):
                message = f"{node.target} lacks a value for {name}, which has no default"
                problems.append(errors.Problem(place, "no-argument", message))
    return problems


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a builtin without a signature
        return []
