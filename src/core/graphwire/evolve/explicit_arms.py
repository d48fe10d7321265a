"""Records as torch 2.1 and 2.2 write and need them: every arm of a union and every option, null where it is not set."""

from __future__ import annotations

from typing import Any

from graphwire.evolve.trees import Edits, Record, Where, arm_of, rewrite

__all__ = ["with_all_arms", "without_nulls"]

_ARGUMENT = (
    "as_none as_tensor as_tensors as_int as_ints as_float as_floats as_string as_strings as_sym_int as_sym_ints"
    " as_scalar_type as_memory_format as_layout as_device as_bool as_bools as_sym_bool as_sym_bools as_graph"
    " as_optional_tensors as_custom_obj"
).split()
_INPUT_SPEC = ("user_input", "parameter", "buffer", "tensor_constant")
_OUTPUT_SPEC = (
    "user_output",
    "loss_output",
    "buffer_mutation",
    "gradient_to_parameter",
    "gradient_to_user_input",
)
_HINT = ("as_int", "as_float", "as_bool")

_INNER_ARMS = {
    "as_sym_int": ("as_name", "as_int"),
    "as_sym_bool": ("as_name", "as_bool"),
    "as_device": ("type", "index"),
}
_INNER_LISTS = {
    "as_sym_ints": ("as_name", "as_int"),
    "as_sym_bools": ("as_name", "as_bool"),
    "as_optional_tensors": ("as_tensor", "as_none"),
}
"""The arms of an argument that hold a record with options, or a list of such, and the fields of the record."""


def without_nulls(value: Any) -> Any:
    """A tree without the null fields of its records."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def with_all_arms(tree: Record) -> Record:
    """A program of schema 1 or 2 with every arm and option written."""
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


def _filled(record: Record, fields: tuple[str, ...] | list[str]) -> Record:
    return {**dict.fromkeys(fields), **record}


def _argument(argument: Record, where: Where) -> Record:
    arm = arm_of(argument)
    if arm in _INNER_ARMS:
        argument = {arm: _filled(argument[arm], _INNER_ARMS[arm])}
    elif arm in _INNER_LISTS:
        argument = {arm: [_filled(item, _INNER_LISTS[arm]) for item in argument[arm]]}
    return _filled(argument, _ARGUMENT)


def _symbolic(value: Record, literal: str) -> Record:
    expression = value.get("as_expr")
    if isinstance(expression, dict):
        hint = expression.get("hint")
        if isinstance(hint, dict):
            hint = _filled(hint, _HINT)
        value = {**value, "as_expr": {**expression, "hint": hint}}
    return _filled(value, ("as_expr", literal))
