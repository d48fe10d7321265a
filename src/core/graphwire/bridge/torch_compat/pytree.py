"""Every use of `torch.utils._pytree`, a private module of torch: one function for each feature in use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import _pytree as fx_pytree
from torch.utils import _pytree

from graphwire.errors import DecodeError, exception_text, unless_interrupted


class Registration(NamedTuple):
    """A container type that is registered with torch under a serialized name, in this process."""

    name: str
    container: Any
    to_dumpable: Callable[[Any], Any] | None
    """Converts the context to a JSON value; None if the context is JSON itself, written as text."""
    from_dumpable: Callable[[Any], Any] | None
    by_fields: bool
    """Whether the type is registered as a dataclass. Its context is `[names, names of the fields that are None]`."""
    reads_names: bool
    """Whether torch's own function decodes the context. It imports or takes the class that the context names, so a file must
    never reach it."""


def is_treespec(value: object) -> bool:
    """Return whether `value` is a `TreeSpec` of torch's Python pytree."""
    return isinstance(value, _pytree.TreeSpec)


CHILDREN = "_children" if "_children" in _pytree.TreeSpec.__annotations__ else "children_specs"
"""The attribute of a `TreeSpec` with its child specs: `_children` since 2.10. The older name warns in newer releases."""


_CONTEXT = "_context" if "_context" in _pytree.TreeSpec.__annotations__ else "context"
"""The attribute of a `TreeSpec` with its context: the newer name is no property."""


def children_of(spec: Any) -> Sequence[Any]:
    """Return the child specs of a `TreeSpec`. Callers must not change them."""
    children: Sequence[Any] = getattr(spec, CHILDREN)
    return children


def context_of(spec: Any) -> Any:
    """Return the context of a `TreeSpec`."""
    return getattr(spec, _CONTEXT)


def leaf_spec() -> Any:
    """Return the spec of a leaf."""
    return _pytree.treespec_leaf() if hasattr(_pytree, "treespec_leaf") else _pytree.LeafSpec()


def make_treespec(container: Any, context: Any, children: list[Any]) -> Any:
    """Return the spec of a container with these child specs."""
    return _pytree.TreeSpec(container, context, children)


def flatten(value: Any) -> tuple[list[Any], Any]:
    """Return the leaves of nested containers, and their treespec."""
    leaves: list[Any]
    leaves, spec = _pytree.tree_flatten(value)
    return leaves, spec


def flatten_one(container: Any) -> tuple[list[Any], Any]:
    """Return the direct children of a container, and its spec with a leaf for each child."""
    leaves: list[Any]
    leaves, spec = _pytree.tree_flatten(container, is_leaf=lambda value: value is not container)
    return leaves, spec


def unflatten(leaves: Sequence[Any], spec: Any) -> Any:
    """Build the container of a spec from its leaves.

    Works like torch's `tree_unflatten`, except that it keeps `torch.Size`, of which torch makes a plain tuple.

    Raises:
        DecodeError: the number of leaves does not match the spec, or a container type fails to unflatten.
    """
    if len(leaves) != spec.num_leaves:
        raise DecodeError(f"{len(leaves)} leaves are given for a structure of {spec.num_leaves}")
    return _unflatten(iter(leaves), spec)


def unflatten_as_torch(leaves: Sequence[Any], spec: Any) -> Any:
    """Build the container of a spec from its leaves, as the code of a module does."""
    return _pytree.tree_unflatten(leaves, spec)


def _unflatten(leaves: Iterator[Any], spec: Any) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in children_of(spec)]
    if spec.type is torch.Size:
        return torch.Size(children)
    try:
        return _pytree.SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)
    except unless_interrupted(Exception) as error:
        raise DecodeError(
            f"the container type {class_name(spec.type)} fails: {exception_text(error)}"
        ) from error


def input_paths(spec: Any, names: Sequence[str]) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield the path of each leaf of a program's arguments: steps with a kind, `item` or `attribute`, and a key.

    Args:
        spec: the structure of positional and keyword arguments.
        names: the names of the parameters. They are the first steps.
    """
    arguments = [each for part in children_of(spec) for each in children_of(part)]
    for name, argument in zip(names, arguments, strict=True):
        yield from _leaf_paths(argument, (("item", name),))


def _leaf_paths(spec: Any, path: tuple[tuple[str, Any], ...]) -> Iterator[tuple[tuple[str, Any], ...]]:
    if spec.type is None:
        yield path
        return
    children = children_of(spec)
    for step, child in zip(_steps(spec, children), children, strict=True):
        yield from _leaf_paths(child, (*path, step))


def _steps(spec: Any, children: Sequence[Any]) -> Sequence[tuple[str, Any]]:
    """Return the steps to the children of a container."""
    context, count = spec.context, len(children)
    if is_namedtuple(context):
        return [("attribute", name) for name in context._fields]
    if spec.type is tuple or spec.type is list:
        return [("item", index) for index in range(count)]
    if spec.type is dict:
        return [("item", key) for key in context]
    if is_registered_by_fields(spec.type):
        return [("attribute", name) for name in context[0]]
    # What its registration says of an instance: of numbers or, since a cache takes its children apart, of nested tensors.
    for parts in (lambda: range(count), lambda: map(_with_tensors, children)):
        try:
            registered = _pytree.SUPPORTED_NODES[spec.type]
            keyed = registered.flatten_with_keys_fn(registered.unflatten_fn(parts(), context))[0]
            steps = [_step(key) for key, _ in keyed]
        except unless_interrupted(Exception):  # of a plugin or library
            continue
        if len(steps) == count:
            return steps
    return [("item", index) for index in range(count)]


def _with_tensors(spec: Any) -> Any:
    return _pytree.tree_unflatten([torch.empty((1, 1, 1, 1), device="meta")] * spec.num_leaves, spec)


def _step(key: Any) -> tuple[str, Any]:
    """Return the step that a `GetAttrKey`, `MappingKey` or `SequenceKey` is. Some releases give them no `__dict__`."""
    if hasattr(key, "name"):
        return "attribute", key.name
    return "item", key.key if hasattr(key, "key") else key.idx


def is_same_structure(spec: Any, other: Any) -> bool:
    """Return whether arguments of a structure can be passed where another is expected: keys of dicts have any order, and a
    `torch.Size` is a tuple."""
    if (tuple if spec.type is torch.Size else spec.type) is not (
        tuple if other.type is torch.Size else other.type
    ):
        return False
    if spec.type is dict:
        if set(spec.context) != set(other.context):
            return False
        ours = dict(zip(spec.context, children_of(spec), strict=True))
        pairs = [(ours[key], child) for key, child in zip(other.context, children_of(other), strict=True)]
    else:
        if spec.context != other.context or len(children_of(spec)) != len(children_of(other)):
            return False
        pairs = list(zip(children_of(spec), children_of(other), strict=True))
    return all(is_same_structure(one, another) for one, another in pairs)


def flatten_by_spec(value: Any, spec: Any) -> list[Any]:
    """Return the leaves of nested containers in the order of a spec that they match."""
    leaves: list[Any] = fx_pytree.tree_flatten_spec(value, spec)
    return leaves


def is_flattened(container: Any) -> bool:
    """Return whether torch flattens containers of this type, in this process."""
    return container in _pytree.SUPPORTED_NODES


def registration_of(container: Any) -> Registration | None:
    """Return the registration of a container type; None if it is not registered, or has no serialized name."""
    found = _pytree.SUPPORTED_SERIALIZED_TYPES.get(container)
    if found is None or found.serialized_type_name == _pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        return None
    return _registration(container, found.serialized_type_name)


def registration_by_name(name: str) -> Registration | None:
    """Look up a container type in torch's table by its serialized name. Imports and calls nothing.

    Also finds a class by its module and qualified name, which torch 2.1 and 2.2 wrote for a class without another name.
    """
    container = _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    if container is not None and (found := registration_of(container)) is not None and found.name == name:
        return found
    candidates = [each for each in list(_pytree.SUPPORTED_SERIALIZED_TYPES) if class_name(each) == name]
    return _registration(candidates[-1], name) if candidates else None


def is_serialized_name(name: str) -> bool:
    """Return whether torch itself knows a container type by this name, in this process and in every release of the schema."""
    # Only 2.15 has these names; a document must have the same requirements wherever it is written.
    return name in _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE and not name.startswith("torch.return_types.")


def registration_by_fields(name: str, fields: Collection[str]) -> Registration | None:
    """Find the only registered dataclass or namedtuple with a bare class name and these fields, in any module; None if there
    are none or several.

    torch 2.1 and 2.2 wrote the module of a class instead of its registered name, and classes move.
    """
    candidates = [
        each
        for each in list(_pytree.SUPPORTED_SERIALIZED_TYPES)
        if getattr(each, "__name__", None) == name
        and (named := field_names(each))
        and set(named) == set(fields)
    ]
    if len(candidates) != 1:
        return None
    return registration_of(candidates[0]) or _registration(candidates[0], class_name(candidates[0]))


def is_namedtuple(container: Any) -> bool:
    """Return whether `container` is a namedtuple class."""
    return isinstance(container, type) and issubclass(container, tuple) and hasattr(container, "_fields")


def field_names(container: Any) -> tuple[str, ...] | None:
    """Return the fields of a namedtuple, or the constructor fields of a dataclass; None for any other class."""
    if is_namedtuple(container):
        return tuple(container._fields)
    if isinstance(container, type) and dataclasses.is_dataclass(container):
        return tuple(each.name for each in dataclasses.fields(container) if each.init)
    return None


def nameless_fields(container: Any, context: Any) -> list[str] | None:
    """Return the field names of a namedtuple or dataclass without a serialized name; None for any other container.

    Args:
        container: the type of a `TreeSpec`.
        context: its context.
    """
    if is_namedtuple(context):
        return None if registration_of(context) else list(context._fields)
    if is_registered_by_fields(container) and registration_of(container) is None:
        return list(context[0])
    return None


def class_name(container: Any) -> str:
    """Return the module and qualified name of a class, joined by a dot."""
    return f"{container.__module__}.{container.__qualname__}"


def _registration(container: Any, name: str) -> Registration:
    found = _pytree.SUPPORTED_SERIALIZED_TYPES[container]
    by_fields = found.to_dumpable_context is None and is_registered_by_fields(container)
    reads_names = getattr(found.from_dumpable_context, "__module__", "") == _pytree.__name__
    return Registration(
        name, container, found.to_dumpable_context, found.from_dumpable_context, by_fields, reads_names
    )


def is_registered_by_fields(container: Any) -> bool:
    """Return whether torch flattens a class by its dataclass fields."""
    flatten = getattr(_pytree.SUPPORTED_NODES.get(container), "flatten_fn", None)
    return getattr(flatten, "__qualname__", "").startswith("register_dataclass.")
