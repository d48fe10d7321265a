"""The container types that treespec serializers serve, by serialized name and by class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from graphwire.errors import PluginError
from graphwire.hooks.discovery import GraphwirePluginWarning, PluginInfo, conflict_error, conflict_of
from graphwire.hooks.interfaces import TreespecSerializer

__all__ = ["TreespecType", "TreespecTypes", "index_treespec_types"]


class TreespecType(NamedTuple):
    """A container type that a treespec serializer of a plugin serves."""

    name: str
    """Its serialized name."""
    container: Any
    """Its class (or what `torch.utils._pytree` uses for one, as `collections.namedtuple`)."""
    serializer: TreespecSerializer


@dataclass(frozen=True)
class TreespecTypes:
    """What a set of treespec serializers serves."""

    by_name: Mapping[str, TreespecType]
    """The types by serialized name, those of families included."""
    by_container: Mapping[Any, TreespecType]
    """The types by class."""
    failures: Mapping[str, str]
    """Why each serializer that is left out could not say its containers, by its name."""


def index_treespec_types(
    serializers: Iterable[TreespecSerializer], owner_of: Callable[[str, str], PluginInfo | None]
) -> TreespecTypes:
    """Ask serializers for their containers, which imports these.

    A serializer that fails is left out with a `GraphwirePluginWarning`.

    Args:
        serializers: the serializers.
        owner_of: the plugin that provides a name of a kind, as `Registry.owner_of` says.

    Raises:
        PluginConflictError: two serializers serve one name or one class.
    """
    by_name: dict[str, TreespecType] = {}
    by_container: dict[Any, TreespecType] = {}
    failures: dict[str, str] = {}
    for serializer in serializers:
        try:
            types = _types_of(serializer)
        except Exception as error:  # noqa: BLE001 a stranger's code; the others go on
            reason = error.problem if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
            failures[serializer.name] = reason
            owner = owner_of("treespec_serializer", serializer.name)
            message = f"the treespec serializer {serializer.name!r} of {owner} is left out: {reason}"
            warnings.warn(message, GraphwirePluginWarning, stacklevel=3)
            continue
        for each in types:
            other = by_name.setdefault(each.name, each)
            if other is each:
                other = by_container.setdefault(each.container, each)
            if other is not each:
                first, second = (
                    owner_of("treespec_serializer", claimant.name)
                    for claimant in (other.serializer, serializer)
                )
                raise conflict_error(conflict_of("container type", each.name, first, second))
    return TreespecTypes(
        MappingProxyType(by_name), MappingProxyType(by_container), MappingProxyType(failures)
    )


def _types_of(serializer: TreespecSerializer) -> list[TreespecType]:
    container = serializer.container()
    types = dict(container) if isinstance(container, Mapping) else {serializer.name: container}
    for name, each in types.items():
        if isinstance(container, Mapping) and not str(name).startswith(f"{serializer.name}."):
            raise PluginError(f"its family has a member {name!r}, whose name does not start with its own")
        if not callable(each):
            raise PluginError(f"its container {name} is {each!r:.80}, no class")
    if len(set(types.values())) < len(types):
        raise PluginError("one class stands in its family under two names")
    return [TreespecType(name, each, serializer) for name, each in types.items()]
