"""Descriptions of records as Markdown: a table for each record and enum."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import inspect as types

from graphwire.schema import DTYPE_NAMES, ITEM_SIZES, PLACES, SCHEMA_VERSION, VARIANTS, ScalarType, Version
from graphwire.specification import description
from graphwire.specification.cddl import cddl
from graphwire.specification.json_schema import json_schema

_SCALARS: dict[type[types.Type], str] = {
    types.NoneType: "null",
    types.BoolType: "boolean",
    types.IntType: "integer",
    types.FloatType: "float",
    types.StrType: "text",
}
_OURS = "graphwire"
_NONE = "-"
_NOT_FINITE = ", ".join(f"`{each}`" for each in description.NOT_FINITE)
_HEAD = f"""\
# Records

This page is part of the [specification](README.md). It lists every record of a file, with its fields, for schema version
{".".join(map(str, SCHEMA_VERSION))}. [document.md](document.md) has the rules for reading and writing them. Beside it are the
same records as JSON Schema and CDDL.

<!-- `python docs/spec/make_schemas.py` makes this page from the records in src/core/graphwire/schema. Edit those. -->

How to read a table:

- **Type.** `list of X` is a list, `map of X` a dict with text keys. Names of records and enums are links. A *union* has
  exactly one of its variants. `{description.FLOAT}` is a float, or one of the texts {_NOT_FINITE}.
  `{description.TREE}` is plain data of any shape.
- **Absent.** *required*: the field is never absent. Otherwise the value that absence means. Where that is null, null and
  absence mean the same, and the meaning tells what.
- **Since.** The first version of torch's schema whose readers know the field. *{_OURS}*: torch's schema does not have it,
  and torch ignores it; a name after it is the [extension](#extensions) that a document with the field requires.
"""


def records_page() -> str:
    """Return the page with the tables of all kinds of documents."""
    described = {kind: description.describe(kind) for kind in description.ROOTS}
    records = {name: each for one in described.values() for name, each in one.records.items()}
    numbers = {name: each for one in described.values() for name, each in one.numbers.items()}
    parts = [_HEAD, _contents(described.values())]
    for kind, each in described.items():
        files = ", ".join(f"[{kind}{suffix}]({kind}{suffix})" for suffix in description.SUFFIXES.values())
        title = each.root.title[0].upper() + each.root.title[1:]
        parts.append(
            f"## {title}\n\nThe record `{each.root.record}` of a file, a {_type(each.type)}: {files}."
        )
        parts += [_record(records.pop(name)) for name in each.records if name in records]
    parts.append(
        "## Numbers and names\n\nAn enum is a number. Readers reject numbers that its table does not have."
    )
    parts += [*map(_numbers, numbers.values()), _element_types(), _places(), _extensions(described.values())]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _contents(described: Iterable[description.Description]) -> str:
    seen: set[str] = set()
    lines = []
    for each in described:
        names = [name for name in each.records if name not in seen]
        seen.update(names)
        if names:
            lines.append(f"- {each.root.title}: {', '.join(map(_link, names))}")
    numbers = dict.fromkeys(name for each in described for name in each.numbers)
    others = ("Element types without a number", "Places of arguments", "Extensions")
    links = [*map(_link, numbers), *(f"[{each}](#{each.lower().replace(' ', '-')})" for each in others)]
    return "\n".join([*lines, f"- numbers and names: {', '.join(links)}"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _type(shape: types.Type) -> str:
    if description.is_float(shape):
        nulls = [_type(each) for each in description.parts_of(shape) if isinstance(each, types.NoneType)]
        return " or ".join([f"`{description.FLOAT}`", *nulls])
    match shape:
        case types.StructType(cls=cls) | types.EnumType(cls=cls):
            return _link(cls.__name__)
        case types.AnyType():
            return f"`{description.TREE}`"
        case types.ListType(item_type=item):
            return f"list of {_inner(item)}"
        case types.DictType(value_type=value):
            return f"map of {_inner(value)}"
        case types.LiteralType(values=values):
            return " or ".join(f"`{each}`" for each in values)
        case types.UnionType(types=parts):
            return " or ".join(map(_type, parts))
        case _:
            return _SCALARS[type(shape)]


def _inner(shape: types.Type) -> str:
    if isinstance(shape, types.LiteralType) and len(shape.values) > 4:
        return "text"
    text = _type(shape)
    return f"({text})" if " or " in text else text


def _since(field: description.Field) -> str:
    if field.since is not None:
        return str(field.since)
    return f"{_OURS}, [`{field.extension}`](#extensions)" if field.extension else _OURS


def _record(record: description.Record) -> str:
    head = f"### {record.name}\n\n{'Union. ' if record.is_union else ''}{record.meaning}"
    if record.is_union:
        rows = [
            [f"`{each.name}`", _type(each.type), _variant_since(record, each), each.meaning]
            for each in record.fields
        ]
        return f"{head}\n\n{_table(['Variant', 'Type', 'Since', 'Meaning'], rows)}"
    rows = [
        [f"`{each.name}`", _type(each.type), _absent(each), _since(each), each.meaning]
        for each in record.fields
    ]
    return f"{head}\n\n{_table(['Field', 'Type', 'Absent', 'Since', 'Meaning'], rows)}"


def _variant_since(record: description.Record, field: description.Field) -> str:
    resolved = record.name == "Argument" and VARIANTS[field.name].resolved
    return str(Version(8, 8)) if resolved else _since(field)


def _absent(field: description.Field) -> str:
    return "*required*" if field.required else f"`{json.dumps(field.default)}`"


def _numbers(numbers: description.Numbers) -> str:
    head = f"### {numbers.name}\n\n{numbers.meaning}"
    if numbers.name != ScalarType.__name__:
        rows = [[str(each.number), f"`{each.name}`", each.meaning] for each in numbers.members]
        return f"{head}\n\n{_table(['Number', 'Name', 'Meaning'], rows)}"
    rows = []
    for each in numbers.members:
        name = DTYPE_NAMES.get(ScalarType(each.number), "")
        size = str(ITEM_SIZES[name]) if name else ""
        rows.append(
            [
                str(each.number),
                f"`{each.name}`",
                f"`{name}`" if name else "",
                size,
                str(each.since),
                each.meaning,
            ]
        )
    return f"{head}\n\n{_table(['Number', 'Name', 'torch', 'Bytes', 'Since', 'One element'], rows)}"


def _element_types() -> str:
    numbered = set(DTYPE_NAMES.values())
    rows = [[f"`{name}`", str(size)] for name, size in ITEM_SIZES.items() if name not in numbered]
    return (
        "### Element types without a number\n\nBy torch's name, in `dtype_name` and `as_dtype_name`; the extension `dtypes`.\n\n"
        + _table(["Name", "Bytes of an element"], rows)
    )


def _places() -> str:
    rows = [
        [
            f"`{variant}`",
            *(str(row.since(place) or _NONE) for place in PLACES),
            row.feature and f"`{row.feature}`",
        ]
        for variant, row in VARIANTS.items()
    ]
    names = ["argument", *(text.strip() for text in PLACES.values() if text)]
    return (
        "### Places of arguments\n\nThe first version of torch's schema whose readers read a variant in a place;"
        f" {_NONE} if none does. graphwire reads every variant in every place where it has a meaning.\n\n"
        + _table(["Variant", *names, "Extension"], rows)
    )


def _extensions(described: Iterable[description.Description]) -> str:
    users: dict[str, list[str]] = {}
    for each in described:
        for record in each.records.values():
            for field in record.fields:
                if field.extension:
                    users.setdefault(field.extension, []).append(f"`{record.name}.{field.name}`")
    rows = [
        [f"`{name}`", meaning, ", ".join(dict.fromkeys(users.get(name, [])))]
        for name, meaning in description.extensions().items()
    ]
    return (
        "### Extensions\n\nThe names that `Program.requires` can list, what each represents, and the fields that need it.\n\n"
        + _table(["Extension", "Represents", "Fields"], rows)
    )


# --------------------------------------------------------- the files of the specification that are derived from records


_LANGUAGES: Final[dict[str, Callable[[description.Description, str], str]]] = {
    "json-schema": json_schema,
    "cddl": cddl,
}
RECORDS = "records.md"
"""The page with the tables of all records."""


def schema_text(kind: str, language: str) -> str:
    """Return the schema of a kind of document, a key of ROOTS, in a formal language, a key of SUFFIXES."""
    described = description.describe(kind)
    version = ".".join(map(str, SCHEMA_VERSION))
    title = f"graphwire {kind.replace('_', ' ')}, schema version {version}: {described.root.title}"
    return _LANGUAGES[language](described, title)


def specification_files() -> dict[str, str]:
    """Return the text of every derived file by name."""
    texts = {
        f"{kind}{suffix}": schema_text(kind, language)
        for kind in description.ROOTS
        for language, suffix in description.SUFFIXES.items()
    }
    return {RECORDS: records_page(), **texts}
