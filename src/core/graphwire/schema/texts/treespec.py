"""Treespecs: the structure of nested containers, in the JSON text that torch writes (protocol 1), without torch.

    [1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, …}]}]

A leaf has neither type nor context nor children. By default, a context is itself JSON text; the registration of a type
may define otherwise. A context that torch's text cannot represent exactly is stored under `TYPE@VERSION` with a version
above 1.
"""

from __future__ import annotations

import binascii
import enum
import functools
import json
import math
import operator
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from graphwire.errors import (
    DecodeError,
    EncodeError,
    Ignored,
    LimitError,
    SchemaError,
    UnknownTypeError,
    dict_of_pairs,
)
from graphwire.process import TYPE_ANALYSIS

PROTOCOL = 1
"""The protocol version, the first element of the text."""

MAX_DEPTH = 400
"""Nesting depth of containers. torch's own flattening stops at Python's recursion limit, slightly beyond."""

MAX_JSON_DEPTH = 2 * MAX_DEPTH + 16
"""Nesting depth of lists and objects in the text: two for each container around, and those of contexts. Also that of a context
that is JSON text."""


class TreeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node of a treespec: a container or a leaf."""

    type: str | None
    """The serialized name of the container's type; None for a leaf."""
    context: Any
    """The data needed, besides the children, to rebuild the container, as its type's serializer writes it."""
    children: list[TreeSpec] = msgspec.field(name="children_spec")
    """The child specs, in the order in which the type flattens."""


LEAF = TreeSpec(None, None, [])
"""The spec of a leaf."""

with TYPE_ANALYSIS:
    _decoder = msgspec.json.Decoder(tuple[int, TreeSpec])


def parse_treespec(text: str, *, max_depth: int = MAX_DEPTH) -> TreeSpec:
    """Parse a treespec's text.

    Args:
        text: JSON of protocol 1.
        max_depth: the nesting depth of containers that is allowed.

    Raises:
        SchemaError: the text is not a treespec of protocol 1.
        LimitError: it nests deeper than `max_depth`.
    """
    if not isinstance(text, str):
        raise SchemaError(f"a treespec is text, not {type(text).__name__}")
    try:
        protocol, spec = _parse(text)
    except RecursionError as error:
        raise _too_deep(max_depth) from error
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        problem = problem[:1].lower() + problem[1:]
        place = path.rstrip("`").removeprefix("[1]").removeprefix(".")  # inside `[protocol, spec]`
        raise SchemaError(f"a treespec is malformed: {problem}", place=place) from error
    except ValueError as error:
        raise SchemaError(f"a treespec is not JSON text: {error}") from error
    if protocol != PROTOCOL:
        raise SchemaError(
            f"a treespec has protocol {protocol}; only {PROTOCOL} is supported",
            remedy="A later version of graphwire may read it",
        )
    level, depth, texts = [spec], 0, 0
    while level:
        below: list[TreeSpec] = []
        for node in level:
            context = node.context
            texts += 3 + (type(context) is str)
            if node.type is None:
                if context is not None or node.children:
                    places = (place for place, each, _ in treespec_nodes(spec) if each is node)
                    raise SchemaError("a leaf has neither context nor children", place=next(places))
                continue
            texts += 1
            if depth == max_depth:
                raise _too_deep(max_depth)
            if type(context) in (list, dict) and _nests_deeper(context, MAX_JSON_DEPTH - 2 * depth - 2):
                raise LimitError(f"lists and objects of a treespec nest deeper than {MAX_JSON_DEPTH} levels")
            below += node.children
        level, depth = below, depth + 1
    if 2 * texts != text.count('"') - text.replace(r"\\", "").count(
        r"\""
    ):  # a context of lists and objects, or a key twice
        twice = SchemaError("a key occurs twice in an object of a treespec")
        json.loads(text, object_pairs_hook=partial(dict_of_pairs, twice=lambda _: twice))
    return spec


def _nests_deeper(context: list[Any] | dict[str, Any], most: int) -> bool:
    level: list[Any] = [context]
    while level and most > 0:
        parts = [part for each in level for part in (each.values() if type(each) is dict else each)]
        level, most = [part for part in parts if type(part) in (list, dict)], most - 1
    return bool(level)


def format_treespec(spec: TreeSpec) -> str:
    """Return a treespec's text, byte for byte in torch's layout. The reverse of `parse_treespec`.

    Raises:
        EncodeError: a context is not JSON.
    """
    return f"[{PROTOCOL}, {_format(spec)}]"


def treespec_nodes(spec: TreeSpec) -> Iterator[tuple[str, TreeSpec, int]]:
    """Yield every node of a treespec, parents first, in text order: its place, itself, its depth (the root's is 1)."""
    stack = [("", spec, 1)]
    while stack:
        place, node, depth = stack.pop()
        yield place, node, depth
        dot = "." if place else ""
        for index in range(len(node.children) - 1, -1, -1):
            stack.append((f"{place}{dot}children_spec[{index}]", node.children[index], depth + 1))


def keywords_of(in_spec: TreeSpec) -> list[Any]:
    """Return the names of the keyword arguments in a call's spec, `((args…), {name: …})`; an empty list for other
    shapes.

    Raises:
        SchemaError: the names are not a list.
    """
    children = in_spec.children
    if in_spec.type != "builtins.tuple" or len(children) != 2 or children[1].type is None:
        return []
    if split_version(children[1].type)[0] != "builtins.dict":
        return []
    context = children[1].context
    if context == "[]":  # as nearly always; Python's JSON takes longer than all else here
        return []
    try:
        keys = json.loads(context) if isinstance(context, str) else context
    except (ValueError, RecursionError) as error:
        raise SchemaError("the names of keyword arguments are not JSON text") from error
    if not isinstance(keys, list):
        raise SchemaError("the names of keyword arguments are not a list")
    return keys


def with_version(name: str, version: int) -> str:
    """Return a type's name as a treespec contains it for a context of that version."""
    return name if version == 1 else f"{name}@{version}"


def split_version(name: str) -> tuple[str, int]:
    """Split a name in a treespec into the type and the context's version. The reverse of `with_version`."""
    bare, at, version = name.rpartition("@")
    # At most nine digits: a file may contain a number of any length.
    return (
        (bare, int(version))
        if at and version.isascii() and version.isdecimal() and len(version) < 10
        else (name, 1)
    )


def dump_json(value: Any) -> str:
    """Return JSON text in torch's form for contexts: enum members by class and name; NaN and Infinity by these words.

    Raises:
        EncodeError: the value contains something that is not JSON.
    """
    try:
        return _DUMPED.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"the context of a container is not JSON: {error}") from error


def load_json(text: str) -> Any:
    """Parse JSON text that torch wrote as a context; enum members are looked up among the classes in this process.

    Raises:
        DecodeError: the text is not JSON.
        UnknownTypeError: this process does not have the enum class.
    """
    if text == "[]":  # a dict without keys, as nearly every call has one for its keywords
        return []
    try:
        return _CONTEXTS.decode(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DecodeError(f"the context of a container is not JSON text: {error}") from error


def is_plain_json(value: Any) -> bool:
    """Whether torch's JSON preserves `value` exactly: no tuples, only text as dict keys, enum members by name.

    An instance of a subclass of str, int, float, list or dict counts as its base class, as everywhere in JSON.
    """
    if type(value) in _JSON_TYPES:
        return True
    if isinstance(value, enum.Enum):
        # torch cannot read an enum class local to a function, and does not distinguish a member of an IntEnum from an
        # int.
        is_named = is_named_member(value) and "<locals>" not in type(value).__qualname__
        return is_named and not isinstance(value, (str, int, float, list, tuple, dict))
    if isinstance(value, list):
        return all(map(is_plain_json, value))
    if isinstance(value, dict):
        if "__enum__" in value:
            return False
        return all(isinstance(key, str) and not isinstance(key, enum.Enum) for key in value) and all(
            map(is_plain_json, value.values())
        )
    return isinstance(value, (str, int, float))


_JSON_TYPES = frozenset({str, int, float, bool, type(None)})


_MOST_VALUES = 1 << 20
"""Values in a context or in a plugin's metadata, counting each occurrence."""


def encode_value(value: Any, place: str = "") -> Any:
    """Encode a value as a tree that preserves what JSON loses: tuples, dict keys, enum members, inf, nan and bytes.

    Raises:
        EncodeError: the value has another type (a subclass of a container would come back as its base), or is too
            large.
    """
    return _encode_value(value, place, [_MOST_VALUES])


def _encode_value(value: Any, place: str, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:  # lists that share lists can reach this
        raise EncodeError(f"more than {_MOST_VALUES:,} values", place=place)
    if isinstance(value, enum.Enum):
        name = member_name(value)
        if name is not None:
            return {"enum": _class_name(type(value)), "name": name}
        raise EncodeError(f"no names of its class make the enum member {value!r}", place=place)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": float.__repr__(value)}
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if type(value) is list:
        return [_encode_value(item, f"{place}[{index}]", left) for index, item in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": _encode_value(list(value), place, left)}
    if type(value) is dict:
        return {
            "dict": [
                [_encode_value(key, place, left), _encode_value(item, f"{place}[{_shown(key)}]", left)]
                for key, item in value.items()
            ]
        }
    if type(value) is bytes:
        return {"bytes": binascii.b2a_base64(value, newline=False).decode()}
    raise EncodeError(
        f"a value of the class {_class_name(type(value))} cannot be written here",
        place=place,
        remedy="Numbers, text, bytes, None, enum members, and lists, tuples and dicts of them (exactly these types) can be "
        "written",
    )


def _shown(key: Any) -> str:
    return f"{key!r:.40}" if type(key) in (str, float, bool) else "..."


def decode_value(tree: Any, place: str = "") -> Any:
    """Decode a tree that `encode_value` made.

    Raises:
        DecodeError: `encode_value` does not make such a tree.
        UnknownTypeError: this process does not have an enum class.
    """
    if type(tree) is list:
        return [decode_value(item, f"{place}[{index}]") for index, item in enumerate(tree)]
    if type(tree) is not dict:
        return tree
    match tree:
        case {"float": ("inf" | "-inf" | "nan") as text, **rest} if not rest:
            return float(text)
        case {"tuple": list(items), **rest} if not rest:
            return tuple(decode_value(items, place))
        case {"dict": list(pairs), **rest} if not rest and all(
            type(pair) is list and len(pair) == 2 for pair in pairs
        ):
            decoded: dict[Any, Any] = {}
            for key, item in pairs:
                decoded[hashable(decode_value(key, place), place)] = decode_value(item, place)
            if len(decoded) == len(pairs):
                return decoded
        case {"bytes": str(text), **rest} if not rest and len(text) % 4 == 0:
            try:
                return binascii.a2b_base64(text, strict_mode=True)
            except (binascii.Error, ValueError) as error:
                raise DecodeError(f"bytes in the context of a container: {error}", place=place) from error
        case {"enum": str(class_name), "name": str(name), **rest} if not rest:
            return _enum_member(class_name, name)
    raise DecodeError(f"invalid value in the context of a container: {tree!r:.80}", place=place)


def hashable(key: Any, place: str = "") -> Any:
    """Return `key` if it can be a dict key.

    Raises:
        DecodeError: it cannot.
    """
    try:
        hash(key)
    except TypeError as error:
        raise DecodeError(f"invalid dict key: {key!r:.80}", place=place) from error
    return key


def _parse(text: str) -> tuple[int, TreeSpec]:
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeEncodeError):
        # Python's JSON, with which torch writes, has NaN, Infinity and lone surrogates.
        return msgspec.convert(json.loads(text), tuple[int, TreeSpec])


def _format(spec: TreeSpec) -> str:
    if spec.type is None:
        return '{"type": null, "context": null, "children_spec": []}'
    children = ", ".join(map(_format, spec.children))
    name = json.dumps(spec.type)
    return f'{{"type": {name}, "context": {dump_json(spec.context)}, "children_spec": [{children}]}}'


def _encode_enum(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return {"__enum__": True, "fqn": _class_name(type(value)), "name": value.name}
    raise TypeError(f"a {_class_name(type(value))} is not an enum member")


def _decode_enum(tree: dict[str, Any]) -> Any:
    if "__enum__" not in tree:
        return tree
    match tree:
        case {"fqn": str(class_name), "name": str(name)}:
            return _enum_member(class_name, name)
    raise DecodeError(f"invalid enum member: {tree!r:.80}")


_DUMPED = json.JSONEncoder(default=_encode_enum)
_CONTEXTS = json.JSONDecoder(object_hook=_decode_enum)


def _enum_member(class_name: str, name: str) -> enum.Enum:
    """Return a member of an enum class that exists in this process. Nothing is imported."""
    # The newest of several: in a notebook, a class may be defined repeatedly.
    for candidate in reversed(list(_subclasses(enum.Enum))):
        if _class_name(candidate) == class_name:
            member = _member(candidate, name)
            if member is None:
                raise DecodeError(f"the enum {class_name} has no member {name!r}")
            return member
    raise UnknownTypeError(
        f"the enum class {class_name} does not exist in this process",
        remedy="Import the module that defines it before you load: loading a file never imports anything",
    )


def _subclasses(root: type[enum.Enum]) -> Iterator[type[enum.Enum]]:
    for each in root.__subclasses__():
        yield each
        yield from _subclasses(each)


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def is_named_member(member: enum.Enum) -> bool:
    """Whether a member is one that its class names (a combination of flags is not)."""
    return type(member).__members__.get(member.name) is member


def member_name(member: enum.Enum) -> str | None:
    """Return the name of a member, those of the flags that it combines (`READ|WRITE`), or None if no names make it."""
    if is_named_member(member):
        return member.name
    name = _combined_name(member)
    return name if name is not None and _member(type(member), name) is member else None


def _combined_name(member: enum.Enum) -> str | None:
    return "|".join(f"{each._name_}" for each in member) if isinstance(member, enum.Flag) else None


def _member(kind: type[enum.Enum], name: str) -> enum.Enum | None:
    member = kind.__members__.get(name)
    if member is None and issubclass(kind, enum.Flag) and _combines_as_flags_do(kind):
        flags = [kind.__members__.get(each) for each in name.split("|")] if name else []
        with Ignored(ValueError, TypeError):  # a name of no member, or a combination that the class forbids
            found = functools.reduce(operator.or_, flags, kind(0))
            return found if _combined_name(found) == name else None
    return member


_COMBINING = ("_missing_", "__or__", "__iter__")
"""The methods that combine flags and take combinations apart."""


def _combines_as_flags_do(kind: type[enum.Flag]) -> bool:
    """Return whether to combine the members of a class runs no code of its own: a file names the class."""
    own, usual = (
        [getattr(m, "__func__", m) for m in map(partial(getattr, of), _COMBINING)] for of in (kind, enum.Flag)
    )
    return type(kind) is enum.EnumMeta and kind._member_type_ in (object, int) and own == usual  # type: ignore[attr-defined]


def _too_deep(max_depth: int) -> LimitError:
    return LimitError(f"a treespec nests containers deeper than {max_depth} levels")
