"""Descriptions of records as CDDL (RFC 8610): of the tree of a document, in each wire format that has CBOR's or JSON's types."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from msgspec import inspect as types

from graphwire.specification import description

_SCALARS: dict[type[types.Type], str] = {
    types.NoneType: "nil",
    types.BoolType: "bool",
    types.IntType: "integer",
    types.FloatType: "number",
    types.StrType: "tstr",
}
_SELF_DESCRIBED = "#6.55799"
"""The tag that marks data as CBOR, with which CBOR documents begin."""
_FIXED = {
    description.FLOAT: f"{description.FLOAT} = "
    + " / ".join(["number", *(f'"{each}"' for each in description.NOT_FINITE)]),
    description.TREE: f"{description.TREE} = nil / bool / integer / float / tstr / bstr"
    f" / [* {description.TREE}] / {{* tstr => {description.TREE}}}",
}
_WIDTH = 120


def cddl(described: description.Description, title: str) -> str:
    """Return the CDDL of a kind of document, as text. Its first rule is the document."""
    whole = _type(described.type)
    if "CBOR" in described.root.wires:
        whole = f"{whole} / {_SELF_DESCRIBED}({whole})"
    rules = [
        *(_record(each) for each in described.records.values()),
        *(_numbers(each) for each in described.numbers.values()),
    ]
    text = "\n".join([*_comment(title, ""), "", f"Document = {whole}", "", *rules])
    fixed = [rule for name, rule in _FIXED.items() if name in text]
    return "\n".join([text, *fixed]) + "\n"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}; ", subsequent_indent=f"{indent}; ")


def _type(shape: types.Type) -> str:
    if description.is_float(shape):
        return " / ".join(
            [
                description.FLOAT,
                *(_type(each) for each in description.parts_of(shape) if isinstance(each, types.NoneType)),
            ]
        )
    match shape:
        case types.StructType(cls=cls) | types.EnumType(cls=cls):
            return cls.__name__
        case types.AnyType():
            return description.TREE
        case types.IntType(ge=int(low), le=int(high)) if low == high:
            return str(low)
        case types.IntType(ge=0):
            return "uint"
        case types.ListType(item_type=item):
            return f"[* {_type(item)}]"
        case types.DictType(value_type=value):
            return f"{{* tstr => {_type(value)}}}"
        case types.LiteralType(values=values):
            return " / ".join(f'"{each}"' for each in values)
        case types.UnionType(types=parts):
            return " / ".join(_type(each) for each in parts)
        case _:
            return _SCALARS[type(shape)]


def _record(record: description.Record) -> str:
    rows = _variants(record) if record.is_union else _fields(record)
    return "\n".join([*_comment(record.meaning, ""), f"{record.name} = {{", *rows, "}", ""])


def _variants(record: description.Record) -> Iterator[str]:
    for index, field in enumerate(record.fields):
        yield from _comment(field.meaning, "  ")
        yield f"  {'' if index == 0 else '// '}{field.name}: {_field_type(field)}"


def _fields(record: description.Record) -> Iterator[str]:
    for field in record.fields:
        yield from _comment(field.meaning, "  ")
        yield f"  {'' if field.required else '? '}{field.name}: {_field_type(field)},"


def _field_type(field: description.Field) -> str:
    text = _type(field.type)
    return (
        f"({text})" if isinstance(field.type, types.UnionType | types.LiteralType) and " / " in text else text
    )


def _numbers(numbers: description.Numbers) -> str:
    rows = [
        f"  {'  ' if index == 0 else '/ '}{each.number} ; {each.name}: {each.meaning}"
        for index, each in enumerate(numbers.members)
    ]
    return "\n".join([*_comment(numbers.meaning, ""), f"{numbers.name} =", *rows, ""])
