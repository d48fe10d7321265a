"""Converts the inputs of a node between FX arguments and named arguments, by the convention of the operator's handler."""

from __future__ import annotations

import enum
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import torch

from graphwire.bridge.context import Operator
from graphwire.bridge.graph.arguments import Scope, decode_argument, encode_argument
from graphwire.bridge.graph.operators import call_of
from graphwire.bridge.graph.values import EncodeScope
from graphwire.bridge.torch_compat import private
from graphwire.errors import DecodeError, EncodeError, locate
from graphwire.registry.calls import blamed
from graphwire.registry.interfaces import NodeCodec
from graphwire.schema import Argument, ArgumentKind, NamedArgument, Node
from graphwire.wire.document import check_plugin_tree

# ----------------------------------------------------------------------------------------------------- encode


def encode_inputs(scope: EncodeScope, called: Operator, node: torch.fx.Node) -> list[NamedArgument]:
    """Encode the arguments of a call.

    Raises:
        EncodeError: an argument cannot be represented, or the operator has no parameter for it.
    """
    if called.codec is not None:
        inputs = _encode_by_handler(scope, called, called.codec, node)
        if inputs is not None:
            if called.is_own_form:
                scope.context.features.add("calls")
            return inputs
    return _ENCODERS[called.handler.convention](scope, called, node)


def _arguments_of(node: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = node.args, node.kwargs
    if not isinstance(args, tuple) or not all(isinstance(key, str) for key in kwargs):
        raise TypeError("the arguments of a node are not a tuple and a dict with text keys")
    return args, kwargs


def _encode_by_handler(
    scope: EncodeScope, called: Operator, codec: NodeCodec, node: torch.fx.Node
) -> list[NamedArgument] | None:
    """Return the inputs that a handler encodes itself, checked to be of the types that the records declare."""
    own: dict[int, Argument] = {}

    def encode(value: Any) -> Argument:
        argument = encode_argument(scope.context, scope.nodes, value)
        return own.setdefault(id(argument), argument)

    inputs = codec.encode_node(called.target, *_arguments_of(node), encode)
    if inputs is None:
        return None
    place = f"the handler of {called.handler.namespace!r:.80} returns"
    try:
        if type(inputs) is not list:
            raise EncodeError(f"{place} a {type(inputs).__name__} as the inputs of a node", remedy=_RECORDS)
        return [_checked_input(named, own, place) for named in inputs]
    except EncodeError as error:
        raise blamed(error, codec) from error.__cause__


_RECORDS = (
    "`encode_node` returns a list of `NamedArgument` records, each with an `Argument` of the declared types"
)


def _checked_input(named: Any, own: Mapping[int, Argument], place: str) -> NamedArgument:
    if type(named) is not NamedArgument:
        raise EncodeError(f"{place} a {type(named).__name__} as an input of a node", remedy=_RECORDS)
    if type(named.name) is not str:
        what = type(named.name).__name__
        raise EncodeError(f"{place} a {what} as the name of an input of a node", remedy=_RECORDS)
    argument = own.get(id(named.arg))
    given = named if argument is None else msgspec.structs.replace(named, arg=_NONE)
    try:
        tree = msgspec.to_builtins(given)
        check_plugin_tree(tree, place.removesuffix(" returns"), f"the input {named.name!r:.80}", escaped=True)
        made = msgspec.convert(tree, NamedArgument)
        same = _is_same(made, given)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(
            f"{place} an invalid record as the input {named.name!r:.80} of a node: {error}", remedy=_RECORDS
        ) from error
    if not same:
        raise EncodeError(f"{place} the input {named.name!r:.80} of a node with wrong types", remedy=_RECORDS)
    return made if argument is None else msgspec.structs.replace(made, arg=argument)


def _is_same(made: Any, given: Any) -> bool:
    """Return whether a record equals the one a reader would make, types included: another enumeration would be read as a
    number."""
    if type(made) is not type(given):  # a plain number may be in place of a float or enumeration
        return type(given) is int and isinstance(made, (float, enum.IntEnum)) and made == given
    parts: Iterable[tuple[Any, Any]]
    if isinstance(made, msgspec.Struct):
        parts = zip(msgspec.structs.astuple(made), msgspec.structs.astuple(given), strict=True)
    elif type(made) is list and len(made) == len(given):
        parts = zip(made, given, strict=True)
    elif type(made) is dict and made.keys() == given.keys():
        parts = ((made[key], value) for key, value in given.items())
    else:
        return bool(made == given)
    return all(_is_same(one, other) for one, other in parts)


_NONE = Argument(as_none=True)
_POSITIONAL, _KEYWORD = ArgumentKind.POSITIONAL, ArgumentKind.KEYWORD
"""Local names: looking up a member of an enumeration takes longer than making a record."""


def _encode(scope: EncodeScope, name: str, value: Any, kind: ArgumentKind) -> NamedArgument:
    argument = encode_argument(scope.context, scope.nodes, value)
    if not isinstance(value, tuple):
        return NamedArgument(name, argument, kind)
    if argument.as_sequence is not None:
        argument.as_sequence.kind = "tuple"
        return NamedArgument(name, argument, kind)
    return NamedArgument(name, argument, kind, tuples=True)


_name_of, _kind_of = attrgetter("name"), attrgetter("kind")
_LITERALS = frozenset((int, float, bool, str, type(None)))


def _is_list(argument: Argument) -> bool:
    """Return whether an argument lists numbers, or values that nodes before made."""
    return argument.as_ints is not None or argument.as_tensors is not None or argument.as_sym_ints is not None


def _encode_by_schema(scope: EncodeScope, called: Operator, node: torch.fx.Node) -> list[NamedArgument]:
    (args, kwargs), nodes = private.given_to(node), scope.nodes
    if type(args) is not tuple or kwargs:
        args, kwargs = _arguments_of(node)
    inputs: list[NamedArgument] = []
    if not kwargs and called.needed <= len(args) <= len(called.positional):
        sound, context = called.is_legal, scope.context
        for name, value in zip(called.positional, args, strict=False):
            kind = type(value)
            if kind is torch.fx.Node and (known := nodes.get(value)) is not None:
                inputs.append(NamedArgument(name, known, _POSITIONAL))
                sound = sound and (known.as_tensor is not None or known.as_sym_int is not None)
            elif kind in _LITERALS:
                inputs.append(NamedArgument(name, encode_argument(context, nodes, value), _POSITIONAL))
            else:
                inputs.append(named := _encode(scope, name, value, _POSITIONAL))
                sound = sound and _is_list(named.arg)
        if sound:
            context.sound[id(inputs)] = inputs
        return inputs
    if len(args) > len(called.parameters):
        raise EncodeError(f"{called.name} takes {len(called.parameters)} arguments, not {len(args)}")
    given = 0
    for position, (name, keyword_only) in enumerate(called.parameters):
        if position < len(args) and (keyword_only or name in kwargs):
            raise (
                _passed_twice(called, name)
                if name in kwargs
                else EncodeError(f"{called.name} takes {name} by keyword only", remedy="Pass it by keyword")
            )
        if name in kwargs:
            inputs.append(_encode(scope, name, kwargs[name], _KEYWORD))
            given += 1
        elif position < len(args):
            inputs.append(_encode(scope, name, args[position], _POSITIONAL))
    missing = called.required.difference([named.name for named in inputs])
    if missing:
        raise EncodeError(
            f"{called.name} lacks a value for {', '.join(sorted(missing))}, which has no default",
            remedy="Pass all parameters without a default",
        )
    if given != len(kwargs):
        unknown = sorted(set(kwargs) - {name for name, _ in called.parameters})
        raise EncodeError(f"{called.name} has no parameter {', '.join(unknown)}")
    return inputs


def _passed_twice(called: Operator, name: str) -> EncodeError:
    return EncodeError(f"{called.name} gets {name} by position and by keyword", remedy="Pass it once")


def _encode_in_order(scope: EncodeScope, called: Operator, node: torch.fx.Node) -> list[NamedArgument]:
    args, kwargs = _arguments_of(node)
    if len(args) < called.needed:  # FX would generate an operation without operands
        raise EncodeError(
            f"{called.name} takes {called.needed} arguments by position, not {len(args)}",
            remedy="Pass all of them",
        )
    names = [name for name, _ in called.parameters]
    if called.handler.convention == "symbolic" and (unknown := set(kwargs).difference(names)):
        raise EncodeError(
            f"{called.name} has no parameter {', '.join(sorted(unknown))!r:.80}", remedy="Remove the keyword"
        )
    if twice := set(names[: len(args)]).intersection(kwargs):
        raise _passed_twice(called, min(twice))
    names += [""] * (len(args) - len(names))
    positional = [_encode(scope, name, value, _POSITIONAL) for name, value in zip(names, args, strict=False)]
    keywords = [_encode(scope, name, value, _KEYWORD) for name, value in kwargs.items()]
    return positional + keywords


_ENCODERS = {"schema": _encode_by_schema, "symbolic": _encode_in_order, "generic": _encode_in_order}


# ----------------------------------------------------------------------------------------------------- decode


def decode_inputs(scope: Scope, called: Operator, record: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Decode the inputs of a node to the positional and keyword arguments of the FX call.

    Args:
        scope: the graph that contains the node.

    Raises:
        DecodeError: an argument refers to a missing value, or the operator has no parameter for it.
    """
    if called.codec is not None:
        decode = functools.partial(decode_argument, scope)
        call = called.codec.decode_node(called.target, [*record.inputs], decode)
        if call is not None:
            return call
    return _DECODERS[called.handler.convention](called, record, _decode(scope, record.inputs))


def _decode(scope: Scope, inputs: list[NamedArgument]) -> list[Any]:
    values: list[Any] = []
    known = scope.values
    for named in inputs:
        tensor = named.arg.as_tensor
        value = None if tensor is None else known.get(tensor.name)
        if value is None:  # another argument, or a value that is made at its first use
            try:
                value = decode_argument(scope, named.arg)
            except Exception as error:
                locate(error, f"inputs[{len(values)}]")
                raise
            if named.tuples and isinstance(value, list):
                value = tuple(value)
        values.append(value)
    return values


def _decode_by_schema(
    called: Operator, record: Node, given: list[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    inputs, count = record.inputs, len(given)
    if (
        called.needed <= count
        and tuple(map(_name_of, inputs)) == called.positional[:count]
        and _KEYWORD not in map(_kind_of, inputs)
    ):  # the common case: the first parameters, by position, and all that have no default
        return tuple(given), {}
    # An input without a name (as in documents of the first schema) is the parameter at its position.
    names = [
        named.name or (called.parameters[index][0] if index < len(called.parameters) else "")
        for index, named in enumerate(record.inputs)
    ]
    values = dict(zip(names, given, strict=True))
    if len(values) < len(names):
        raise DecodeError(
            f"{record.target} has two inputs for one parameter: one by name, one by its position"
        )
    kinds = {name: named.kind for name, named in zip(names, record.inputs, strict=True)}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    missing: list[str] = []
    gap = False
    for name, keyword_only in called.parameters:
        if name not in values:
            if name in called.required:
                missing.append(name)
            gap = True
            continue
        kind = kinds[name] or ArgumentKind.UNKNOWN
        if keyword_only or gap or kind is ArgumentKind.KEYWORD:
            kwargs[name] = values.pop(name)
            gap = True
        else:
            args.append(values.pop(name))
    if values:
        raise DecodeError(
            f"{record.target} has no parameter {', '.join(sorted(values))} on this installation",
            remedy="The operator's signature has changed since the program was written; an opset upgrader is needed",
        )
    if missing:
        raise DecodeError(f"{record.target} lacks a value for {', '.join(missing)}, which has no default")
    return tuple(args), kwargs


def _decode_in_order(
    called: Operator, record: Node, given: list[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = call_of(record.inputs, given)
    _check_names(called, ["" if named.name in kwargs else named.name for named in record.inputs], kwargs)
    if len(args) < called.needed:  # FX would generate an operation without operands
        raise DecodeError(f"{record.target} takes {called.needed} arguments by position, not {len(args)}")
    return args, kwargs


def _check_names(called: Operator, names: Sequence[str], keywords: Collection[str]) -> None:
    """Raise if inputs have names that are not those of the parameters: whoever reads the file, and the content hash, go by names.

    A single name by position that no parameter has may be another release's: a function has no such keyword, so one call follows.

    Args:
        names: of the inputs, empty for those without a name or passed by keyword.
    """
    declared = [name for name, _ in called.parameters]
    symbolic = called.handler.convention == "symbolic"
    free = symbolic and sum(map(bool, names)) == 1
    for index, name in enumerate(names):
        if name and declared[index : index + 1] != [name] and (name in declared or not free):
            raise DecodeError(
                f"{called.name} has no parameter {name!r:.80} at the position of that input",
                place=f"inputs[{index}]",
                remedy="The file was edited, or the function has other parameters here",
            )
    if symbolic and (unknown := set(keywords).difference(declared)):
        raise DecodeError(
            f"{called.name} has no parameter {', '.join(sorted(unknown))!r:.80}",
            place="inputs",
            remedy="The file was edited, or the function has other parameters here",
        )


_DECODERS = {"schema": _decode_by_schema, "symbolic": _decode_in_order, "generic": _decode_in_order}
