"""Descriptions of records as JSON Schema 2020-12: of the JSON form of a document."""

from __future__ import annotations

import json
from typing import Any

from msgspec import inspect as types

from graphwire.specification import description

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[type[types.Type], str] = {
    types.NoneType: "null",
    types.BoolType: "boolean",
    types.FloatType: "number",
    types.StrType: "string",
}
_FIXED: dict[str, dict[str, Any]] = {
    description.FLOAT: {
        "description": "A float. One that is not finite is text.",
        "anyOf": [{"type": "number"}, {"enum": list(description.NOT_FINITE)}],
    },
    description.TREE: {
        "description": "Plain data of any shape. The wire format says how it writes bytes and floats that are not finite."
    },
}


def json_schema(described: description.Description, title: str) -> str:
    """Return the JSON Schema of a kind of document, as text."""
    definitions = {
        **{name: _record(each) for name, each in described.records.items()},
        **{name: _numbers(each) for name, each in described.numbers.items()},
    }
    whole = {"$schema": _DIALECT, "title": title, **_type(described.type)}
    used = json.dumps([whole, definitions])
    definitions |= {name: each for name, each in _FIXED.items() if f'"{_ref(name)["$ref"]}"' in used}
    return (
        json.dumps({**whole, "$defs": dict(sorted(definitions.items()))}, indent=1, ensure_ascii=False) + "\n"
    )


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _type(shape: types.Type) -> dict[str, Any]:
    if description.is_float(shape):
        left = [each for each in description.parts_of(shape) if isinstance(each, types.NoneType)]
        return _any_of([_ref(description.FLOAT), *map(_type, left)])
    match shape:
        case types.StructType(cls=cls) | types.EnumType(cls=cls):
            return _ref(cls.__name__)
        case types.AnyType():
            return _ref(description.TREE)
        case types.IntType(ge=low, le=high):
            bounds = {"minimum": low, "maximum": high}
            return {"type": "integer"} | {name: each for name, each in bounds.items() if each is not None}
        case types.ListType(item_type=item):
            return {"type": "array", "items": _type(item)}
        case types.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _type(value)}
        case types.LiteralType(values=values):
            return {"enum": list(values)}
        case types.UnionType(types=parts):
            return _any_of([_type(each) for each in parts])
        case _:
            return {"type": _SCALARS[type(shape)]}


def _any_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _record(record: description.Record) -> dict[str, Any]:
    fields = {field.name: _field(field) for field in record.fields}
    bounds: dict[str, Any] = {"minProperties": 1, "maxProperties": 1}
    if not record.is_union:
        required = [field.name for field in record.fields if field.required]
        bounds = {"required": required} if required else {}
    return {
        "description": record.meaning,
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        **bounds,
    }


def _field(field: description.Field) -> dict[str, Any]:
    made = {"description": field.meaning, **_type(field.type)}
    if field.default is not None:
        made["default"] = field.default
    if field.ignorable:
        made["x-ignorable"] = True
    if field.grammar:
        made["x-grammar"] = field.grammar
    return made


def _numbers(numbers: description.Numbers) -> dict[str, Any]:
    rows = [
        {"const": each.number, "title": each.name, "description": each.meaning} for each in numbers.members
    ]
    return {"description": numbers.meaning, "type": "integer", "oneOf": rows}
