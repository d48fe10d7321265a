"""Operators: FX targets ⇄ serialized names, each resolved once for a save or a load."""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
import types
from typing import Any, NamedTuple

from graphwire.bridge import torch_compat
from graphwire.bridge.context import DecodeContext, EncodeContext, Operator
from graphwire.bridge.graph.unknown_operators import CallForm, OpaqueOperator, opaque_operator
from graphwire.errors import (
    EncodeError,
    GraphwireError,
    PluginError,
    Problem,
    UnknownOperatorError,
    exception_text,
    shown,
)
from graphwire.evolve.opsets import walk_nodes
from graphwire.hooks import NodeCodec, OpHandler, Registry, remedy_for_name, unavailable_error
from graphwire.schema import Graph, Node


def encode_operator(context: EncodeContext, target: Any) -> Operator:
    """How nodes of an FX target are written.

    Raises:
        EncodeError: no handler owns the target.
    """
    operator = context.operators.get(id(target))
    if operator is None:
        operator = context.operators[id(target)] = _named(context, target)
    return operator


def _named(context: EncodeContext, target: Any) -> Operator:
    if isinstance(target, OpaqueOperator):
        return opaque_operator(target)
    registry = context.registry
    failures: list[GraphwireError] = []
    for handler in registry.op_handlers:
        try:
            name = _asked(context, handler, "name_of", target, EncodeError)
            if name is None or not _is_own(registry, handler, name, target):
                continue
        except GraphwireError as error:
            failures.append(error)  # the target may be another handler's
            continue
        if (owner := registry.op_handler(name)) is not None:
            context.provided.add(("op_handler", name))
            return _described(target, name, owner)
        if fault := registry.fault_of("op_handler", name):
            raise unavailable_error(fault, f"the operator {name}", EncodeError)
    if failures:
        raise failures[0]
    raise EncodeError(
        f"no operator handler knows {shown(target)}",
        remedy=remedy_for_name(
            registry, "op_handler", "", "Install the plugin that handles it, or register an OpHandler for it"
        ),
    )


def _is_own(registry: Registry, handler: OpHandler, name: Any, target: Any) -> bool:
    """Whether a handler may give a target this name. Those in the box name everybody's operators, and others their own: what
    their name leads back to."""
    if type(name) is not str:
        return False
    if registry.is_in_box(handler):
        return True
    return registry.op_handler(name) is handler and handler.resolve(name) is target


def name_of_operator(registry: Registry, function: Any) -> str | None:
    """The serialized name of a function that a node only notes, if it is an operator; a handler that fails knows none."""
    for handler in registry.op_handlers:
        try:
            name = handler.name_of(function)
            if name is not None and _is_own(registry, handler, name, function):
                return name
        except Exception:  # noqa: BLE001 a stranger's code, asked for no more than a note
            continue
    return None


def decode_operator(context: DecodeContext, name: str, record: Node | None = None) -> Operator:
    """The FX target of a serialized name.

    Args:
        record: the node that calls it, whose form an operator is kept with that cannot be had here.

    Raises:
        UnknownOperatorError: no handler owns the name, or its owner does not have it on this installation.
    """
    operator = context.operators.get(name)
    if operator is None:
        handler = context.registry.op_handler(name)
        target = None if handler is None else _resolved(context, handler, name)
        if handler is None or target is None:
            if context.origin is not None:
                return opaque_operator(OpaqueOperator(name, CallForm.of(record), context.origin))
            if fault := context.registry.fault_of("op_handler", name):
                raise unavailable_error(fault, f"the operator {name}", UnknownOperatorError)
            remedy = remedy_for_name(context.registry, "op_handler", name, "") or _advice(name)
            raise UnknownOperatorError(f"there is no operator {name!r} on this installation", remedy=remedy)
        operator = context.operators[name] = _described(target, name, handler)
    return operator


def _resolved(context: DecodeContext, handler: OpHandler, name: str) -> Any:
    """The target of a name, unless operators of its namespace are only kept here."""
    origin = context.origin
    if origin is not None and origin.keeps(name, handler.namespace):
        return None
    return _asked(context, handler, "resolve", name, UnknownOperatorError)


def _asked(
    context: EncodeContext | DecodeContext,
    handler: OpHandler,
    method: str,
    argument: Any,
    kind: type[GraphwireError],
) -> Any:
    """What a handler answers. It is a stranger's code: when it fails, the error says whose it is."""
    try:
        return getattr(handler, method)(argument)
    except GraphwireError:
        raise
    except Exception as error:
        owner = context.registry.owner_of_handler(handler)
        raise kind(
            f"`{method}` of the operator handler {handler.namespace!r} of {owner} fails at {shown(argument)}: "
            f"{exception_text(error)}"
        ) from error


_MOST_TOLD = 20
"""Missing operators that are named; finding the nearest name to each takes a while."""


def check_operators(context: DecodeContext, graph: Graph) -> None:
    """Do nothing for a graph whose operators can all be had on this installation.

    Raises:
        UnknownOperatorError: some cannot; the message names each, and where it is used first.
    """
    missing: dict[str, UnknownOperatorError] = {}
    for place, node in walk_nodes(graph):
        if node.target in context.operators or node.target in missing:
            continue
        if len(missing) == _MOST_TOLD:
            break
        try:
            decode_operator(context, node.target, node)
        except UnknownOperatorError as error:
            missing[node.target] = UnknownOperatorError(error.problem, place=place, remedy=error.remedy)
    if len(missing) == 1:
        raise next(iter(missing.values()))
    if missing:
        raise UnknownOperatorError(
            f"{len(missing)}{' or more' * (len(missing) == _MOST_TOLD)} operators are missing",
            problems=[
                Problem(error.place, "unknown-operator", f"{error.problem}. {error.remedy}")
                for error in missing.values()
            ],
        )


def _advice(name: str) -> str:
    parts = name.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) != 5:
        return "Install the plugin that handles it, or register an OpHandler for it"
    namespace, operator = parts[2], parts[3]
    known = torch_compat.operators_in(namespace)
    near = difflib.get_close_matches(f"{namespace}::{operator}", known, 1)
    if near:
        return f"The nearest that this torch has is {near[0]}"
    return f"Import or install the library that registers {namespace}::{operator} before loading"


def _described(target: Any, name: str, handler: OpHandler) -> Operator:
    operator = Operator(target, name, handler, codec=_codec_of(handler))
    if handler.convention == "schema":
        facts = _facts_of(target) if isinstance(target, torch_compat.OpOverload) else _read_schema(target)
        if facts is None:
            raise PluginError(
                f"the operator handler {handler.namespace!r} gives {target!r:.80} for {name!r}, which has no schema",
                remedy="Its convention is symbolic or generic, or it gives an overload",
            )
        operator.parameters, operator.returns = facts.parameters, facts.returns
        operator.required, operator.positional, operator.needed = (
            facts.required,
            facts.positional,
            facts.needed,
        )
    elif handler.convention == "symbolic":
        parameters = _parameters(target)
        operator.parameters = [(parameter.name, False) for parameter in parameters]
        if type(target) is types.BuiltinFunctionType:
            operator.needed = sum(parameter.default is parameter.empty for parameter in parameters)
    return operator


class _SchemaFacts(NamedTuple):
    """What is read of an operator's schema: the fields of `Operator`."""

    parameters: list[tuple[str, bool]]
    required: frozenset[str]
    positional: tuple[str, ...]
    needed: int
    returns: Any


def _read_schema(target: Any) -> _SchemaFacts | None:
    schema = getattr(target, "_schema", None)
    if schema is None:
        return None
    # Each question to an argument of torch's takes as long as ten of Python's.
    arguments = [(each.name, each.kwarg_only, each.has_default_value()) for each in schema.arguments]
    return _SchemaFacts(
        [(parameter, keyword_only) for parameter, keyword_only, _ in arguments],
        frozenset(parameter for parameter, _, has_default in arguments if not has_default),
        tuple(parameter for parameter, _, _ in itertools.takewhile(lambda each: not each[1], arguments)),
        max((index for index, (_, _, has_default) in enumerate(arguments, 1) if not has_default), default=0),
        schema.returns,
    )


_facts_of = functools.lru_cache(maxsize=4096)(_read_schema)
"""For torch's overloads, whose schemas never change."""


def _codec_of(handler: Any) -> NodeCodec | None:
    # Not by `isinstance`: asking a Protocol takes as long as all the rest.
    return handler if hasattr(handler, "encode_node") else None


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a builtin without a signature
        return []
