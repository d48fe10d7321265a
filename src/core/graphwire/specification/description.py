"""Descriptions of records: each field's type, default and meaning, and the schema version that it needs.

They are derived from the records themselves (`schema`), the vocabulary of schema versions (`evolve.documents`) and the table
of variants (`schema.graph`). The forms of the specification (JSON Schema, CDDL, tables) are derived from the descriptions.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect as types

from graphwire import schema
from graphwire.analysis.neutral import GRAMMARS, OPTIONAL
from graphwire.evolve.vocabulary import EXTENSIONS, FIELDS, TYPES
from graphwire.schema import FEATURES, SCHEMA_VERSION, PluginRequirement, Version
from graphwire.wire.archive.manifest import Manifest

# -------------------------------------------------------------------------- the meanings of records, fields and numbers
# their docstrings in the source, which Python keeps for classes only.


class Meaning(NamedTuple):
    """What a docstring says of a field."""

    text: str
    """The meaning as a sentence; empty if the field has no docstring."""
    own: bool
    """Whether the text declares the field an addition of graphwire to a record of torch's schema."""
    extension: str
    """The extension that a reader must support to read the field; empty if there is none."""


_OWN = r"Extension (?:`(?P<name>[a-z-]+)`|without requirement)(?P<colon>[:,]) "


def meaning_of_class(kind: type) -> str:
    """Return the meaning of a record or enum: its docstring, without line ends."""
    return re.sub(_OWN, "", _joined(kind.__doc__ or ""))


def meaning_of(kind: type, field: str) -> Meaning:
    """Return the meaning of a field of a record, or of a member of an enum."""
    text = _docstrings(inspect.getmodule(kind)).get((kind.__name__, field), "")
    found = re.match(_OWN, text)
    if found is None:
        return Meaning(_capital(text), False, "")
    return Meaning(_capital(text[found.end() :]), True, found["name"] or "")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _docstrings(module: ModuleType | None) -> dict[tuple[str, str], str]:
    """Return the text below each field in the classes of a module, by class and field."""
    assert module is not None
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in zip(node.body, node.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[node.name, name] = _joined(text)
                case _:
                    pass
    return found


FLOAT: Final = "FloatValue"
"""The name of the type of a float, which is text if it is not finite."""
NOT_FINITE: Final = ("Infinity", "-Infinity", "NaN")
TREE: Final = "Tree"
"""The name of the type of plain data of any shape."""
SUFFIXES: Final = {"json-schema": ".schema.json", "cddl": ".cddl"}
"""The formal languages, and the ends of the names of their files."""


class Root(NamedTuple):
    """A kind of document in a file."""

    title: str
    type: Any
    """The type of the whole document."""
    record: str
    """Its record in the archive."""
    wires: tuple[str, ...]
    """The forms in which files have it."""


ROOTS: Final[dict[str, Root]] = {
    "document": Root(
        "an exported program", schema.Program, "models/NAME.SUFFIX", ("JSON", "MessagePack", "CBOR")
    ),
    "payloads": Root(
        "the config of the payloads of a program",
        schema.PayloadConfig,
        "data/…/NAME_…_config.json",
        ("JSON",),
    ),
    "references": Root(
        "the references to weights outside of the file",
        schema.WeightReferences,
        "data/weights/references.json",
        ("JSON",),
    ),
    "manifest": Root("the digests of the records of a file", Manifest, "manifest.json", ("JSON",)),
    "wire_formats": Root(
        "the providers of wire formats, by suffix, and of what else programs in them need",
        dict[str, PluginRequirement],
        "data/wire_formats.json",
        ("JSON",),
    ),
}
"""The kinds of documents in a file, by the name of their schema."""


class Field(NamedTuple):
    """A field of a record, or a variant of a union."""

    name: str
    type: types.Type
    """The type of its value. For a variant, without None."""
    required: bool
    default: Any
    """What absence means; None if the meaning tells, and for required fields."""
    meaning: str
    since: Version | None
    """The first version of torch's schema with the field; None if torch's schema does not have it."""
    extension: str
    """The extension that a reader must support to read the field; empty if there is none."""
    ignorable: bool
    """Whether a reader may ignore the field."""
    grammar: str
    """The grammar of its texts, and where in a list or map they are; empty if there is none."""


class Record(NamedTuple):
    """A record, or a union: a record with exactly one field."""

    name: str
    meaning: str
    is_union: bool
    fields: tuple[Field, ...]


class Member(NamedTuple):
    """A number of an enum."""

    name: str
    number: int
    meaning: str
    since: Version | None
    """The first version of torch's schema with the number; None if it is not known, or as old as the enum."""


class Numbers(NamedTuple):
    """An enum."""

    name: str
    meaning: str
    members: tuple[Member, ...]


class Description(NamedTuple):
    """Everything that a kind of document consists of, the root first."""

    root: Root
    type: types.Type
    records: dict[str, Record]
    numbers: dict[str, Numbers]


def describe(kind: str) -> Description:
    """Return the description of a kind of document, a key of ROOTS."""
    root = ROOTS[kind]
    shape = types.type_info(root.type)
    found: dict[type, types.Type] = {}
    _collect(shape, found)
    return Description(
        root,
        shape,
        {cls.__name__: _record(each) for cls, each in found.items() if isinstance(each, types.StructType)},
        {cls.__name__: _numbers(cls) for cls, each in found.items() if isinstance(each, types.EnumType)},
    )


def parts_of(shape: types.Type) -> tuple[types.Type, ...]:
    """Return the alternatives of a type; the type itself if there is one."""
    return shape.types if isinstance(shape, types.UnionType) else (shape,)


def is_float(shape: types.Type) -> bool:
    """Return whether a type is that of a float in a document."""
    return isinstance(shape, types.UnionType) and any(
        isinstance(each, types.FloatType) for each in shape.types
    )


def _collect(shape: types.Type, found: dict[type, types.Type]) -> None:
    """Add each record and enum that a type contains to `found`, in the order of first appearance."""
    match shape:
        case types.StructType(cls=cls) | types.EnumType(cls=cls):
            if cls in found:
                return
            found[cls] = shape
            for field in getattr(shape, "fields", ()):
                _collect(field.type, found)
        case types.ListType(item_type=item):
            _collect(item, found)
        case types.DictType(value_type=value):
            _collect(value, found)
        case types.UnionType(types=parts):
            for each in parts:
                _collect(each, found)
        case _:
            pass


def _record(shape: types.StructType) -> Record:
    cls = shape.cls
    meaning = meaning_of_class(cls)
    is_union = (
        cls.__struct_config__.forbid_unknown_fields
    )  # of a union: a reader cannot ignore an unknown variant
    return Record(
        cls.__name__, meaning, is_union, tuple([_field(cls, each, is_union) for each in shape.fields])
    )


def _field(cls: type, field: types.Field, is_variant: bool) -> Field:
    meaning = meaning_of(cls, field.name)
    row = FIELDS.get(cls, {}).get(field.name)
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Field(
        name=field.encode_name,
        type=_without_none(field.type) if is_variant else _narrowed(cls, field),
        required=field.required,
        default=None if default is msgspec.NODEFAULT else default,
        meaning=meaning.text,
        since=None if row is None else row.since,
        extension=meaning.extension,
        ignorable=field.name in _IGNORABLE.get(cls, ()),
        grammar=GRAMMARS.get((cls, field.name), ""),
    )


_IGNORABLE: Final[dict[type, frozenset[str]]] = {
    **OPTIONAL,
    schema.PayloadMeta: frozenset({"same_as", "weight", "shared", "buffer"}),
}


def _without_none(shape: types.Type) -> types.Type:
    parts = tuple([each for each in parts_of(shape) if not isinstance(each, types.NoneType)])
    return parts[0] if len(parts) == 1 else types.UnionType(parts)


NARROWED: Final[dict[tuple[type, str], types.Type]] = {
    (schema.Program, "requires"): types.ListType(types.LiteralType(tuple(sorted(FEATURES)))),
    (schema.SchemaVersion, "major"): types.IntType(ge=SCHEMA_VERSION[0], le=SCHEMA_VERSION[0]),
    (schema.SchemaVersion, "minor"): types.IntType(ge=0),
}
"""Fields for which a reader checks more than the type of the record says, before it reads the record."""


def _narrowed(cls: type, field: types.Field) -> types.Type:
    return NARROWED.get((cls, field.name), field.type)


def _numbers(cls: Any) -> Numbers:
    def since(member: enum.IntEnum) -> Version | None:
        return TYPES[member] if isinstance(member, schema.ScalarType) else None

    members = [Member(each.name, each.value, meaning_of(cls, each.name).text, since(each)) for each in cls]
    return Numbers(cls.__name__, meaning_of_class(cls), tuple(members))


def extensions() -> dict[str, str]:
    """Return every extension that a document can require, with what it represents."""
    return {name: FEATURES[name] for name in sorted(EXTENSIONS)}
