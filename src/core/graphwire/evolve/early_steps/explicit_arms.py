"""Writes records as torch 2.1 and 2.2 need them: with every arm of a union and every option, null where it is not set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from graphwire import schema
from graphwire.evolve.documents import Edits, Record, Where, arm_of, rewrite, with_module
from graphwire.schema import ARGUMENT_ARMS, by_arm

_ARGUMENT = ARGUMENT_ARMS[: ARGUMENT_ARMS.index("as_operator")]
_INPUT_SPEC = ("user_input", "parameter", "buffer", "tensor_constant")
_OUTPUT_SPEC = "user_output loss_output buffer_mutation gradient_to_parameter gradient_to_user_input".split()


def without_nulls(value: Any) -> Any:
    """Return a tree without the null fields of its records."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def with_all_arms(tree: Record) -> Record:
    """Write every arm and option of a program of schema 1 or 2."""
    tree = rewrite(
        tree,
        Edits(
            argument=_argument,
            tensor_meta=lambda meta, where: {**meta, "device": _filled(meta["device"], ("type", "index"))},
            sym_int=partial(_symbolic, "as_int"),
            sym_bool=partial(_symbolic, "as_bool"),
            input_spec=lambda spec, where: _filled(spec, _INPUT_SPEC),
            output_spec=lambda spec, where: _filled(spec, _OUTPUT_SPEC),
        ),
    )
    entries = tree["graph_module"]["module_call_graph"]
    return with_module(tree, module_call_graph=[_filled(entry, ("fqn", "signature")) for entry in entries])


def _filled(record: Record, fields: Iterable[str]) -> Record:
    return {**dict.fromkeys(fields), **record}


def _filler(record: type[msgspec.Struct]) -> Fill:
    return lambda held: _filled(held, record.__struct_fields__)


def _each(fill: Fill) -> Fill:
    return lambda items: [fill(item) for item in items]


Fill: TypeAlias = Callable[[Any], Any]

_INNER: dict[str, Fill] = by_arm(
    {
        "as_sym_int": _filler(schema.SymIntArgument),
        "as_sym_bool": _filler(schema.SymBoolArgument),
        "as_optional_tensor": _filler(schema.OptionalTensorArgument),
        "as_device": _filler(schema.Device),
    },
    _each,
)
"""The arms of an argument that hold a record with options, or a list of such records, and the function that adds their nulls."""


def _argument(argument: Record, where: Where) -> Record:
    arm = arm_of(argument)
    if arm in _INNER:
        argument = {arm: _INNER[arm](argument[arm])}
    return _filled(argument, _ARGUMENT)


def _symbolic(literal: str, value: Record, where: Where) -> Record:
    expression = value.get("as_expr")
    if isinstance(expression, dict):
        hint = expression.get("hint")
        filled = _filled(hint, ("as_int", "as_float", "as_bool")) if isinstance(hint, dict) else hint
        value = {**value, "as_expr": {**expression, "hint": filled}}
    return _filled(value, ("as_expr", literal))
