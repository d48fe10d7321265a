"""Records as neutral JSON: fields by name, without defaults, with texts parsed."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

import msgspec

from graphwire import schema
from graphwire.analysis.neutral.tagged_trees import pairs, scalar, tagged
from graphwire.analysis.neutral.texts import (
    neutral_expression,
    neutral_guard,
    neutral_infix,
    neutral_treespec,
)
from graphwire.schema import Float, decode_float

Form = Callable[[Any], Any]

_OPTIONAL: Final[dict[type[msgspec.Struct], str]] = {
    schema.Program: "producer readable_from plugins example_inputs edited_values group_sizes",
    schema.GraphModule: "stack_frames node_sources inline_constraints replacements",
    schema.Graph: "input_names value_metadata output_metadata placed copies compositions held_as output_list",
    schema.Node: "stack from_node container",
    schema.NamedArgument: "tuples",
    schema.GraphArgument: "node",
    schema.UserInputSpec: "name",
    schema.UserOutputSpec: "name",
    schema.InputToTensorConstantSpec: "persistent",
    schema.ModuleCallSignature: "input_names output_names",
    schema.TensorMeta: "sparse",
}
OPTIONAL: Final = {record: frozenset(names.split()) for record, names in _OPTIONAL.items()}
"""The fields of a program's records that a reader may ignore: those without which the program works."""


def _value(value: Any) -> Any:
    """Return a value of any type that has no form of its own."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, msgspec.Struct):
        return neutral_record(value)
    if isinstance(value, list):
        listed = []
        for item in value:  # a loop, because a comprehension needs two stack frames per level
            listed.append(_value(item))
        return listed
    if isinstance(value, dict):
        entries = []
        for key, item in value.items():
            entries.append([key, _value(item)])
        return {"dict": entries}
    return scalar(value)


def _float(value: Any) -> Any:
    return [_float(item) for item in value] if isinstance(value, list) else scalar(float(decode_float(value)))


def _none_arm(_: bool) -> bool:
    """Return the value of the arm `as_none`, whose false means the same."""
    return True


GRAMMARS: Final[dict[tuple[type[msgspec.Struct], str], str]] = {
    (schema.SymExpr, "expr_str"): "expression",
    (schema.GraphModule, "replacements"): "map to expression",
    (schema.GraphModule, "inline_constraints"): "map from infix expression",
    (schema.Program, "range_constraints"): "map from infix expression",
    (schema.Program, "guards_code"): "list of guard",
    (schema.ModuleCallSignature, "in_spec"): "treespec",
    (schema.ModuleCallSignature, "out_spec"): "treespec",
    (schema.TreespecArgument, "spec"): "treespec",
    (schema.ExampleInputs, "spec"): "treespec",
    (schema.Argument, "as_treespec"): "treespec",
}
"""The fields whose texts follow a grammar, with its name, and where in a list or map the texts are."""

_TEXTS: Final[dict[str, Form]] = {
    "expression": neutral_expression,
    "map to expression": lambda table: pairs((key, neutral_expression(text)) for key, text in table.items()),
    "map from infix expression": lambda table: pairs(
        (neutral_infix(key), neutral_record(item)) for key, item in table.items()
    ),
    "list of guard": lambda texts: list(map(neutral_guard, texts)),
    "treespec": lambda held: neutral_treespec(held) if isinstance(held, str) else neutral_record(held),
}
_TREES: Final = frozenset({(schema.EncodedValue, "tree"), (schema.Composition, "tree")})
_FLOATS: Final = (Float, list[Float], list[list[Float]])
_KEPT: Final = frozenset({(schema.RangeConstraint, "min_val"), (schema.RangeConstraint, "max_val")})
"""The fields in which None is a value."""


def neutral_record(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record as neutral JSON. Fields that a reader may ignore are under its key `optional`.

    Raises:
        ExpressionError, SchemaError: a text violates its grammar.
    """
    kind = type(record)
    ignored = OPTIONAL.get(kind, frozenset())
    made: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, default, form in _fields(kind):
        value = getattr(record, name)
        if (value is None and (kind, name) not in _KEPT) or (
            type(value) is type(default) and value == default
        ):
            continue
        (extra if name in ignored else made)[name] = form(value)
    return made | ({"optional": extra} if extra else {})


def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any, Form]]:
    """Return the name, the default and the form of each field of a record."""
    rows = _FIELDS.get(kind)
    return _fields_of(kind) if rows is None else rows


def _fields_of(kind: type[msgspec.Struct]) -> list[tuple[str, Any, Form]]:
    rows: list[tuple[str, Any, Form]] = []
    for field in msgspec.structs.fields(kind):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if field.name == "as_none":
            rows.append((field.name, default, _none_arm))
            continue
        place = kind, field.name
        if place in GRAMMARS:
            form = _TEXTS[GRAMMARS[place]]
        elif place in _TREES:
            form = tagged
        else:
            is_float = any(field.type in (each, each | None) for each in _FLOATS)
            form = _float if is_float else _value
        rows.append((field.name, default, form))
    return rows


_FIELDS: Final = {
    kind: _fields_of(kind)
    for kind in vars(schema).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
