"""Other spellings of a program's document: everything in which writers of one program may differ without meaning anything."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from inside.schema import Expression, format_expression

from graphwire.errors import GraphwireError
from graphwire.hooks import format_infix, parse_expression

_EMPTY = (
    "as_tensors",
    "as_ints",
    "as_floats",
    "as_strings",
    "as_bools",
    "as_sym_ints",
    "as_optional_tensors",
    "as_int_lists",
)


def _symbolic(variant: str, literal: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {variant: {literal: value}}


def _symbolics(variant: str, literal: str) -> Callable[[Any], dict[str, Any]]:
    return lambda values: {variant: [{literal: value} for value in values]}


OTHER_VARIANTS: dict[str, list[Callable[[Any], dict[str, Any]]]] = {
    "as_int": [_symbolic("as_sym_int", "as_int")],
    "as_float": [_symbolic("as_sym_float", "as_float")],
    "as_bool": [_symbolic("as_sym_bool", "as_bool")],
    "as_ints": [_symbolics("as_sym_ints", "as_int")],
    "as_floats": [_symbolics("as_sym_floats", "as_float")],
    "as_bools": [_symbolics("as_sym_bools", "as_bool")],
    "as_tensor": [_symbolic("as_optional_tensor", "as_tensor")],
    "as_tensors": [_symbolics("as_optional_tensors", "as_tensor")],
    "as_none": [_symbolic("as_optional_tensor", "as_none")],
}
"""For each variant others that say the same."""


def respelled(tree: Any, salt: random.Random) -> Any:
    """The tree of a program in another spelling."""
    if isinstance(tree, list):
        return [respelled(item, salt) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: respelled(value, salt) for key, value in tree.items()}
    if "expr_str" in tree:
        return {"expr_str": other_text(tree["expr_str"], salt), "hint": None}
    if "inputs" in tree and "target" in tree:
        tree |= {
            "metadata": {"other": "text"},
            "stack": None,
            "from_node": None,
            "container": salt.choice([None, "list"]),
        }
        if tree.get("is_hop_single_tensor_return") is True:
            tree["is_hop_single_tensor_return"] = None
        named = [each for each in tree["inputs"] if each["name"]]
        if len(named) == len(tree["inputs"]):
            salt.shuffle(named)
            tree["inputs"] = named
    elif "arg" in tree and "name" in tree and isinstance(tree["arg"], dict):
        if "kind" in tree:
            tree |= {"kind": salt.choice([None, 0, 1, 2]), "tuples": salt.random() < 0.5}
            tree["arg"] = _other_variant(tree["arg"], salt)
    elif "sizes" in tree:
        for part in (*tree["sizes"], *tree["strides"], tree["storage_offset"]):
            if part.get("as_int") is not None and salt.random() < 0.5:
                part |= {"as_int": None, "as_expr": {"expr_str": f"Integer({part['as_int']})", "hint": None}}
    elif "in_spec" in tree and salt.random() < 0.5:
        for spec in ("in_spec", "out_spec"):
            tree[spec] = tree[spec].replace('"builtins.dict"', '"builtins.dict@2"')
    elif "range_constraints" in tree:
        items = [(f" {key} ", value) for key, value in tree["range_constraints"].items()]
        salt.shuffle(items)
        tree |= {
            "range_constraints": dict(items),
            "torch_version": "9.9",
            "requires": [],
            "producer": "somebody",
        }
        tree |= {"schema_version": {"major": 9, "minor": 0}, "guards_code": tree.get("guards_code", [])[::-1]}
    return tree


def _other_variant(argument: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    held = {variant: value for variant, value in argument.items() if value is not None}
    if len(held) != 1 or salt.random() < 0.3:
        return argument
    ((variant, value),) = held.items()
    if value == []:
        return {salt.choice(_EMPTY): []}
    return salt.choice(OTHER_VARIANTS.get(variant, [lambda value: {variant: value}]))(value)


def other_text(text: str, salt: random.Random) -> str:
    """An expression with operands in another order, or in infix text."""
    try:
        shuffled = _shuffled(parse_expression(text), salt)
        return format_infix(shuffled) if salt.random() < 0.5 else format_expression(shuffled)
    except GraphwireError:
        return text


def _shuffled(expression: Expression, salt: random.Random) -> Expression:
    operands = [_shuffled(part, salt) if isinstance(part, Expression) else part for part in expression.args]
    if expression.head in ("Add", "Mul", "Max", "Min", "And", "Or", "Equality", "Unequality"):
        salt.shuffle(operands)
    return Expression(expression.head, tuple(operands))
