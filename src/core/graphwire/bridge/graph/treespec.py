"""Converts torch's treespecs to and from text: `torch.utils._pytree.TreeSpec` and `graphwire.schema.texts.treespec`.

A plugin's treespec serializer encodes a container type, or else its registration with torch does
(`torch.utils._pytree.register_pytree_node`, `torch.export.register_dataclass`). A name in a text never causes an import.
If torch can represent a treespec, the text is exactly torch's.
"""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from graphwire.bridge.torch_compat import pytree
from graphwire.errors import (
    DecodeError,
    EncodeError,
    GraphwireError,
    LimitError,
    UnknownTypeError,
    exception_text,
    unless_interrupted,
)
from graphwire.registry.calls import attributed, blamed, remedy_of_broken
from graphwire.registry.discovery import remedy_for_name, remedy_for_plugin, remedy_for_unavailable_name
from graphwire.registry.registry import Registry, TreespecType
from graphwire.schema.texts import treespec
from graphwire.wire.document import check_expanded_size, check_plugin_tree

_quoted = json.encoder.encode_basestring_ascii
_AT_FAULT = "This is a fault of the plugin or library that provides it"
_LEAF_TEXT = '{"type": null, "context": null, "children_spec": []}'


class _Served(NamedTuple):
    """The decoder of a type's contexts, and the version of the context."""

    by: TreespecType | pytree.Registration
    version: int


def encode_treespec(
    spec: Any, registry: Registry, *, plain: bool = False, names: set[str] | None = None
) -> str:
    """Encode a `TreeSpec` as JSON text of protocol 1.

    Args:
        plain: write a namedtuple or dataclass without a serialized name as a tuple or, with its fields as keys, a dict; and
            a defaultdict whose factory cannot be encoded as a dict. Fields of a dataclass that are None have no child and
            no key.
        names: receives the names of the container types, with the versions of their contexts.

    Raises:
        EncodeError: the treespec is too large once shared children are written out, a container type has no serializer and
            no serialized name, or a context cannot be encoded; the message names the class and what to add.
        LimitError: containers nest deeper than `graphwire.schema.texts.treespec.MAX_DEPTH`.
    """
    if not pytree.is_treespec(spec):
        raise EncodeError(f"a {type(spec).__qualname__} is not a torch.utils._pytree.TreeSpec")
    containers = itertools.count(1)

    def enter(name: str) -> None:
        if names is not None:
            names.add(name)
        if next(containers) == _MEASURED_FROM:
            check_expanded_size(
                spec, "a treespec", kinds=(object,), inner_of=pytree.children_of, most=_MOST_NODES
            )

    return f"[{treespec.PROTOCOL}, {_encode(spec, registry, plain, treespec.MAX_DEPTH, enter)}]"


def decode_treespec(text: str, registry: Registry, *, max_depth: int = treespec.MAX_DEPTH) -> Any:
    """Decode a `TreeSpec` from a text that `encode_treespec`, or any release of torch, wrote.

    Args:
        text: JSON of protocol 1.
        registry: the plugins whose serializers are used.
        max_depth: the maximum nesting of containers.

    Raises:
        SchemaError: the text is not a treespec.
        LimitError: it nests deeper than `max_depth`.
        UnknownTypeError: this process does not support some container types; the message names all of them.
        DecodeError: a context is invalid for its type.
    """
    spec = treespec.parse_treespec(text, max_depth=max_depth)
    types = _types_of(spec, registry)
    return _decode(spec, types, "")


# ---------------------------------------------------------------------------------------------------------- encoding


_MOST_NODES = 1 << 20
"""The most nodes of a treespec, counted once per use: specs may share children."""
_MEASURED_FROM = 1 << 10
"""A treespec with this many containers is measured before more of it is written: children may be shared."""
_NESTED = frozenset((list, tuple, dict))
_FLAT = frozenset((str, int))
"""Types of keys. Most contexts are lists of keys."""


def _encode(spec: Any, registry: Registry, plain: bool, depth_left: int, enter: Callable[[str], None]) -> str:
    container = spec.type
    if container is None:
        return _LEAF_TEXT
    if type(container) is not type and not callable(container):  # and its hash may take forever
        raise TypeError("the type of a treespec is neither a type nor a function that makes one")
    if depth_left == 0:
        raise LimitError(f"a treespec nests containers deeper than {treespec.MAX_DEPTH} levels")
    context = pytree.context_of(spec)
    if type(context) in _NESTED and not (type(context) is list and {*map(type, context)} <= _FLAT):
        check_expanded_size(context, "the context of a container")
    name, text, served = _encode_node(container, context, registry, plain)
    enter(name)
    children = []
    for index, child in enumerate(pytree.children_of(spec)):
        try:
            children.append(_encode(child, registry, plain, depth_left - 1, enter))
        except EncodeError as error:
            error.within(f"children_spec[{index}]")
            raise
    if served is not None:
        _check_written(served, name, text, children)
    return _node_text(name, text, children)


def _node_text(name: str, context: str, children: list[str]) -> str:
    return f'{{"type": {_quoted(name)}, "context": {context}, "children_spec": [{", ".join(children)}]}}'


def _encode_node(
    container: Any, context: Any, registry: Registry, plain: bool
) -> tuple[str, str, _Served | None]:
    """Return a container's serialized name, the context as JSON, and what decodes it; None for the serializers shipped with
    graphwire, which the test suite covers, and for what has no function of its own."""
    if plain and (names := pytree.nameless_fields(container, context)) is not None:
        bare: Any = dict if pytree.is_registered_by_fields(container) else tuple
        return _encode_node(bare, names if bare is dict else None, registry, plain=False)
    types = registry.container_types
    own = types.box.by_container.get(container)
    if (by := own or types.of(container)) is not None:
        try:
            version, tree = by.serializer.dump_context(context)
        except GraphwireError:
            # Its factory has no name that a file may contain.
            if plain and container is collections.defaultdict:
                return _encode_node(dict, context[1], registry, plain=False)
            raise
        if own is None:
            try:
                _check_context(by, version, tree)
            except EncodeError as error:
                blamed(error, by.serializer)
                raise
        text = _quoted(tree) if type(tree) is str else treespec.dump_json(tree)
        return treespec.with_version(by.name, version), text, _Served(by, version) if own is None else None
    registered = pytree.registration_of(container)
    if registered is None or registered.reads_names:
        raise _unnamed(container, registry)
    registry.container_types.named(registered.name)  # raises if two plugins provide the type
    if registered.to_dumpable is None:
        if treespec.is_plain_json(context):
            return registered.name, _quoted(treespec.dump_json(context)), None
        # torch would write it and read another value back: a tuple as a list, a member of an IntEnum as an int.
        text = _quoted(treespec.dump_json(treespec.encode_value(context)))
        return treespec.with_version(registered.name, 2), text, None
    try:
        dumpable = registered.to_dumpable(context)
    except unless_interrupted(Exception) as error:
        raise EncodeError(_failure(f"`to_dumpable_context` of {registered.name}", error)) from error
    return registered.name, treespec.dump_json(dumpable), _Served(registered, 1)


def _check_written(served: _Served, name: str, text: str, children: list[str]) -> None:
    """Raise if a context could not be decoded."""
    by = served.by
    is_plugin = isinstance(by, TreespecType)
    who = f"the {'treespec serializer' if is_plugin else 'registration'} of {by.name}"
    who += "" if is_plugin else " with torch"
    # Only a serializer with `fit_context` reads the children.
    if not hasattr(getattr(by, "serializer", None), "fit_context"):
        children = [_LEAF_TEXT] * len(children)
    try:
        _decode_context(
            served, treespec.parse_treespec(f"[{treespec.PROTOCOL}, {_node_text(name, text, children)}]")
        )
    except GraphwireError as error:
        failure = EncodeError(f"{who} could not decode what it wrote: {error.problem}", remedy=_AT_FAULT)
        raise blamed(failure, getattr(by, "serializer", None)) from error


def _check_context(by: TreespecType, version: Any, tree: Any) -> None:
    """Raise unless a serializer returned a valid context."""
    who = f"the treespec serializer of {by.name}"
    if type(version) is not int or not 1 <= version <= by.serializer.version:
        raise EncodeError(
            f"{who} writes a context of version {version!r:.40}, but reads only up to {by.serializer.version}",
            remedy=_AT_FAULT,
        )
    if type(tree) is not str:
        check_plugin_tree(tree, who, "context", escaped=True)


def _failure(what: str, error: Exception) -> str:
    return f"{what} fails: {exception_text(error)}"


def _unnamed(container: Any, registry: Registry) -> EncodeError:
    name = pytree.class_name(container)
    bare = container.__qualname__
    if container.__module__ in ("collections", "torch.return_types"):
        return EncodeError(
            f"no plugin supports the container type {name}",
            remedy=remedy_for_name(
                registry, "treespec_serializer", name, "Enable graphwire's plugin `treespecs`, which does"
            ),
        )
    plainly = ""
    call = (
        f"torch.utils._pytree.register_pytree_node({bare}, FLATTEN, UNFLATTEN, serialized_type_name={name!r})"
    )
    if pytree.is_flattened(container) and pytree.field_names(container) is not None:
        call = f"torch.export.register_dataclass({bare}, serialized_type_name={name!r})"
        plainly = '. Or save with containers="plain", which turns them into plain dicts or tuples'
    return EncodeError(
        f"the container type {name} has no serialized name",
        remedy=f"Register one, in the program that saves and in the one that loads: `{call}`" + plainly,
    )


# ---------------------------------------------------------------------------------------------------------- decoding


def _types_of(spec: treespec.TreeSpec, registry: Registry) -> dict[str, _Served]:
    """Return the decoders of all types that a text names, before anything is built."""
    types: dict[str, _Served] = {}
    unknown: dict[str, str] = {}
    for place, node, _ in treespec.treespec_nodes(spec):
        if node.type is None or node.type in types or node.type in unknown:
            continue
        served = _served(node.type, registry) or _old_dataclass(node)
        if served is None:
            unknown[node.type] = place
        else:
            types[node.type] = served
    if unknown:
        raise _unknown(unknown, registry)
    return types


def _served(name: str, registry: Registry) -> _Served | None:
    for each, version in ((name, 1), treespec.split_version(name)):
        by = registry.container_types.named(each) or _registered(each)
        if by is not None and pytree.is_flattened(by.container):
            return _Served(by, version)
    return None


def _registered(name: str) -> pytree.Registration | None:
    found = pytree.registration_by_name(name)
    return None if found is None or found.reads_names else found


def _old_dataclass(node: treespec.TreeSpec) -> _Served | None:
    """Return the dataclass that torch 2.1 or 2.2 wrote as `[class, fields, fields that are None]` instead of JSON text."""
    match node.context:
        case [str(name), list(fields), list(none)] if all(type(each) is str for each in (*fields, *none)):
            found = pytree.registration_by_fields(name.rpartition(".")[2], [*fields, *none])
            return None if found is None else _Served(found, 1)
    return None


def _decode(node: treespec.TreeSpec, types: dict[str, _Served], place: str) -> Any:
    if node.type is None:
        return pytree.leaf_spec()
    served = types[node.type]
    try:
        context = _decode_context(served, node)
    except GraphwireError as error:
        error.within(f"{place}.context" if place else "context")
        raise
    dot = "." if place else ""
    children = [
        _decode(child, types, f"{place}{dot}children_spec[{index}]")
        for index, child in enumerate(node.children)
    ]
    return pytree.make_treespec(served.by.container, context, children)


def _decode_context(served: _Served, node: treespec.TreeSpec) -> Any:
    by = served.by
    if isinstance(by, TreespecType):
        serializer = by.serializer
        if not 1 <= served.version <= serializer.version:
            raise DecodeError(
                f"the context of {by.name} has version {served.version}; its serializer reads only up to {serializer.version}",
                remedy="Update the plugin that provides it",
            )
        context = serializer.load_context(node.context, served.version)
        arity = serializer.arity(by.container, context)
        fit = getattr(serializer, "fit_context", None)
        if fit is not None and arity in (None, len(node.children)):
            context = fit(context, [*node.children])
    else:
        context, arity = _registered_context(by, served.version, node.context)
    if arity is not None and arity != len(node.children):
        wrong = DecodeError(f"a {by.name} with this context has {arity} children, not {len(node.children)}")
        raise attributed(wrong, getattr(by, "serializer", None))
    return context


def _registered_context(registered: pytree.Registration, version: int, tree: Any) -> tuple[Any, int | None]:
    """Decode the context of a type in torch's table, and return it with the number of children it requires."""
    if registered.from_dumpable is not None:
        try:
            return registered.from_dumpable(tree), None
        except unless_interrupted(Exception) as error:
            raise DecodeError(_failure(f"`from_dumpable_context` of {registered.name}", error)) from error
    if version > 2:
        raise DecodeError(f"the context of {registered.name} has version {version}, which is not supported")
    # torch 2.1 and 2.2 wrote dataclasses with the context itself instead of its text.
    context = treespec.load_json(tree) if isinstance(tree, str) else tree
    if version == 2:
        return treespec.decode_value(context), None
    return _fields_context(registered, context) if registered.by_fields else (context, None)


def _fields_context(registered: pytree.Registration, context: Any) -> tuple[Any, int]:
    """Check the context of a dataclass, since its names are passed to the class as keywords."""
    # torch 2.1 and 2.2 put the class name first.
    lists = context[-2:] if type(context) is list and len(context) in (2, 3) else []
    if len(lists) != 2 or not all(
        type(each) is list and all(type(name) is str for name in each) for each in lists
    ):
        raise DecodeError(
            f"the context of the dataclass {registered.name} is not a pair of lists of field names"
        )
    names = [*lists[0], *lists[1]]
    # None for a class registered like a dataclass that is not one: its fields are unknown.
    fields = pytree.field_names(registered.container)
    if unknown := sorted(set(names) - set(names if fields is None else fields)):
        raise DecodeError(f"the dataclass {registered.name} has no field {', '.join(map(repr, unknown))}")
    if len(set(names)) != len(names):
        raise DecodeError(f"a field of the dataclass {registered.name} occurs twice")
    return lists, len(lists[0])


def _unknown(unknown: dict[str, str], registry: Registry) -> UnknownTypeError:
    names = sorted({treespec.split_version(name)[0] for name in unknown})
    what = "container types" if len(names) > 1 else "container type"
    remedy = (
        "Before you load, import the modules that register them "
        "(torch.export.register_dataclass, torch.utils._pytree.register_pytree_node), "
        "or install the plugins that provide their treespec serializers"
    )
    remedies = [remedy]
    for name, failure in registry.container_types.all.failures.items():
        if any(each == name or each.startswith(f"{name}.") for each in names):
            owner = registry.owner_of("treespec_serializer", name)
            remedies.append(
                f"The serializer {name} of {owner} is dropped: {failure}. {remedy_of_broken(owner)}"
            )
    faults = [registry.fault_of("treespec_serializer", name) for name in names]
    remedies += [remedy_for_unavailable_name(fault) for fault in faults if fault is not None]
    if not any(faults):
        remedies += [
            remedy_for_plugin(each) for each in registry.plugins if each.status in ("blocked", "broken")
        ]
    return UnknownTypeError(
        f"this process does not support the {what} {', '.join(names)}",
        place=next(iter(unknown.values())),
        remedy=". ".join(remedies),
    )
