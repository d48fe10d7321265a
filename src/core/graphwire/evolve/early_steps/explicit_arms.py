"""Writes records as torch 2.1 and 2.2 need them: with every arm of a union and every option, null where it is not set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from graphwire.evolve.documents import Edits, Record, Where, arm_of, rewrite
from graphwire.schema import (
    ARGUMENT_ARMS,
    Device,
    OptionalTensorArgument,
    SymBoolArgument,
    SymIntArgument,
    by_arm,
)

_ARGUMENT = ARGUMENT_ARMS[: ARGUMENT_ARMS.index("as_operator")]
_INPUT_SPEC = ("user_input", "parameter", "buffer", "tensor_constant")
_OUTPUT_SPEC = (
    "user_output",
    "loss_output",
    "buffer_mutation",
    "gradient_to_parameter",
    "gradient_to_user_input",
)
_HINT = ("as_int", "as_float", "as_bool")


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
            sym_int=lambda value, where: _symbolic(value, "as_int"),
            sym_bool=lambda value, where: _symbolic(value, "as_bool"),
            input_spec=lambda spec, where: _filled(spec, _INPUT_SPEC),
            output_spec=lambda spec, where: _filled(spec, _OUTPUT_SPEC),
        ),
    )
    module = tree["graph_module"]
    entries = [_filled(entry, ("fqn", "signature")) for entry in module["module_call_graph"]]
    return {**tree, "graph_module": {**module, "module_call_graph": entries}}


def _filled(record: Record, fields: tuple[str, ...]) -> Record:
    return {**dict.fromkeys(fields), **record}


def _filler(record: type[msgspec.Struct]) -> Fill:
    return lambda held: _filled(held, record.__struct_fields__)


def _each(fill: Fill) -> Fill:
    return lambda items: [fill(item) for item in items]


Fill: TypeAlias = Callable[[Any], Any]

_INNER: dict[str, Fill] = by_arm(
    {
        "as_sym_int": _filler(SymIntArgument),
        "as_sym_bool": _filler(SymBoolArgument),
        "as_optional_tensor": _filler(OptionalTensorArgument),
        "as_device": _filler(Device),
    },
    _each,
)
"""The arms of an argument that hold a record with options, or a list of such records, and the function that adds their nulls."""


def _argument(argument: Record, where: Where) -> Record:
    arm = arm_of(argument)
    if arm in _INNER:
        argument = {arm: _INNER[arm](argument[arm])}
    return _filled(argument, _ARGUMENT)


def _symbolic(value: Record, literal: str) -> Record:
    expression = value.get("as_expr")
    if isinstance(expression, dict):
        hint = expression.get("hint")
        if isinstance(hint, dict):
            hint = _filled(hint, _HINT)
        value = {**value, "as_expr": {**expression, "hint": hint}}
    return _filled(value, ("as_expr", literal))
