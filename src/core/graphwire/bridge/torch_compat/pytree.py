"""Every use of `torch.utils._pytree`, which is private to torch: one function for each thing that we take from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from graphwire.errors import DecodeError, exception_text


class Registration(NamedTuple):
    """A container type that somebody registered with torch under a serialized name, in this process."""

    name: str
    container: Any
    to_dumpable: Callable[[Any], Any] | None
    """Makes the context a JSON value; None where the context is JSON itself, written as text."""
    from_dumpable: Callable[[Any], Any] | None
    by_fields: bool
    """Whether it was registered as a dataclass, so that a context is `[names, names of the fields that are None]`."""
    reads_names: bool
    """Whether torch's own function reads its context, which imports or takes the class that the context names. A file
    must not reach it."""


def is_treespec(value: object) -> bool:
    """Whether `value` is a `TreeSpec` of torch's Python pytree."""
    from torch.utils import _pytree

    return isinstance(value, _pytree.TreeSpec)


def children_of(spec: Any) -> Sequence[Any]:
    """The child specs of a `TreeSpec`, not to be changed."""
    # `_children` since 2.10; `children_specs` before, which warns since.
    children: Sequence[Any] = spec._children if hasattr(spec, "_children") else spec.children_specs
    return children


def context_of(spec: Any) -> Any:
    """The context of a `TreeSpec`."""
    return spec.context


def leaf_spec() -> Any:
    """The spec of a leaf."""
    from torch.utils import _pytree

    return _pytree.treespec_leaf() if hasattr(_pytree, "treespec_leaf") else _pytree.LeafSpec()


def make_treespec(container: Any, context: Any, children: list[Any]) -> Any:
    """The spec of a container with these child specs."""
    from torch.utils import _pytree

    return _pytree.TreeSpec(container, context, children)


def flatten_one(container: Any) -> tuple[list[Any], Any]:
    """The children of one container, not of the ones in it, and its spec with a leaf for each child."""
    from torch.utils import _pytree

    leaves: list[Any]
    leaves, spec = _pytree.tree_flatten(container, is_leaf=lambda value: value is not container)
    return leaves, spec


def unflatten(leaves: Sequence[Any], spec: Any) -> Any:
    """The container of a spec, with these leaves.

    As torch's own `tree_unflatten`, except that a `torch.Size` comes back as one; torch makes a plain tuple of it.

    Raises:
        DecodeError: the spec has another number of leaves, or a container type does not make a container of them.
    """
    if len(leaves) != spec.num_leaves:
        raise DecodeError(f"{len(leaves)} leaves are given for a structure of {spec.num_leaves}")
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves: Iterator[Any], spec: Any) -> Any:
    import torch
    from torch.utils import _pytree

    if spec.type is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in children_of(spec)]
    if spec.type is torch.Size:
        return torch.Size(children)
    try:
        return _pytree.SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)
    except Exception as error:
        raise DecodeError(
            f"the container type {class_name(spec.type)} fails: {exception_text(error)}"
        ) from error


def is_flattened(container: Any) -> bool:
    """Whether torch flattens containers of this type, in this process."""
    from torch.utils import _pytree

    return container in _pytree.SUPPORTED_NODES


def registration_of(container: Any) -> Registration | None:
    """How a container type was registered with torch; None where it was not, or without a serialized name."""
    from torch.utils import _pytree

    found = _pytree.SUPPORTED_SERIALIZED_TYPES.get(container)
    if found is None or found.serialized_type_name == _pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        return None
    return _registration(container, found.serialized_type_name)


def registration_by_name(name: str) -> Registration | None:
    """The container type that somebody registered with torch under a name: a look-up in torch's table, no more.

    A class is also found by its module and qualified name, which 2.1 and 2.2 wrote where there was no other name.
    """
    from torch.utils import _pytree

    container = _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    if container is not None and (found := registration_of(container)) is not None and found.name == name:
        return found
    candidates = [each for each in list(_pytree.SUPPORTED_SERIALIZED_TYPES) if class_name(each) == name]
    return _registration(candidates[-1], name) if candidates else None


def is_serialized_name(name: str) -> bool:
    """Whether torch itself knows a container type by this name: in this process, and in every release of the schema."""
    from torch.utils import _pytree

    # 2.15 alone names these; a document requires the same wherever it is written.
    return name in _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE and not name.startswith("torch.return_types.")


def registration_by_fields(name: str, fields: Collection[str]) -> Registration | None:
    """The one dataclass or namedtuple of a bare class name and these fields, in whatever module, that somebody
    registered with torch; None where there are several.

    2.1 and 2.2 wrote where a class stood and not under which name it is registered, and classes move.
    """
    from torch.utils import _pytree

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
    """Whether `container` is a namedtuple class."""
    return isinstance(container, type) and issubclass(container, tuple) and hasattr(container, "_fields")


def field_names(container: Any) -> tuple[str, ...] | None:
    """The fields of a namedtuple class, or those that a dataclass is made with; None for another class."""
    if is_namedtuple(container):
        return tuple(container._fields)
    if isinstance(container, type) and dataclasses.is_dataclass(container):
        return tuple(each.name for each in dataclasses.fields(container) if each.init)
    return None


def nameless_fields(container: Any, context: Any) -> list[str] | None:
    """The names of the children of a namedtuple or dataclass that nobody registered a serialized name for; None for any
    other container.

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
    """A class's module and qualified name, joined by a dot."""
    return f"{container.__module__}.{container.__qualname__}"


def _registration(container: Any, name: str) -> Registration:
    from torch.utils import _pytree

    found = _pytree.SUPPORTED_SERIALIZED_TYPES[container]
    by_fields = found.to_dumpable_context is None and is_registered_by_fields(container)
    reads_names = getattr(found.from_dumpable_context, "__module__", "") == _pytree.__name__
    return Registration(
        name, container, found.to_dumpable_context, found.from_dumpable_context, by_fields, reads_names
    )


def is_registered_by_fields(container: Any) -> bool:
    """Whether torch flattens a class by the fields that it has as a dataclass."""
    from torch.utils import _pytree

    flatten = getattr(_pytree.SUPPORTED_NODES.get(container), "flatten_fn", None)
    return getattr(flatten, "__qualname__", "").startswith("register_dataclass.")
