"""The container types that treespec serializers serve, by serialized name and by class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from graphwire.errors import PluginError
from graphwire.hooks.conflicts import conflict_of
from graphwire.hooks.discovery import GraphwirePluginWarning, PluginInfo
from graphwire.hooks.interfaces import TreespecSerializer
from graphwire.hooks.provisions import error_text

__all__ = ["TreespecType", "TreespecTypes", "index_treespec_types"]


class TreespecType(NamedTuple):
    """A container type that a treespec serializer of a plugin serves."""

    name: str
    """Its serialized name."""
    container: Any
    """Its class (or what `torch.utils._pytree` uses for one, as `collections.namedtuple`)."""
    serializer: TreespecSerializer
    family: str
    """The serializer's own name."""


@dataclass(frozen=True)
class TreespecTypes:
    """What a set of treespec serializers serves."""

    by_name: Mapping[str, TreespecType]
    """The types by serialized name, those of families included."""
    by_container: Mapping[Any, TreespecType]
    """The types by class."""
    failures: Mapping[str, str]
    """Why each serializer that is left out could not say its containers, or has one that another one has, by its name."""
    disputed: Mapping[Any, str]
    """Types that two serializers serve, by serialized name and by class, and what is said of it."""


def index_treespec_types(
    serializers: Mapping[str, TreespecSerializer],
    owner_of: Callable[[str, str], PluginInfo | None],
    box: TreespecTypes | None = None,
) -> TreespecTypes:
    """Ask serializers for their containers, which imports these.

    A serializer that fails is left out with a `GraphwirePluginWarning`. Of two that serve one type neither has it, unless one
    ships in the box; whoever needs the type gets an error.

    Args:
        serializers: the serializers by name.
        owner_of: the plugin that provides a name of a kind, as `Registry.owner_of` says.
        box: what those in the box serve, which stays theirs.
    """
    kept = TreespecTypes({}, {}, {}, {}) if box is None else box
    by_name: dict[str, TreespecType] = dict(kept.by_name)
    by_container: dict[Any, TreespecType] = dict(kept.by_container)
    failures: dict[str, str] = dict(kept.failures)
    disputed: dict[Any, str] = {}

    for serializer_name, serializer in serializers.items():
        try:
            types = _types_of(serializer_name, serializer)
        except Exception as error:  # noqa: BLE001 a stranger's code; the others go on
            failures[serializer_name] = error_text(error)
            owner = owner_of("treespec_serializer", serializer_name)
            message = f"the treespec serializer {serializer_name!r} of {owner} is left out: {failures[serializer_name]}"
            warnings.warn(message, GraphwirePluginWarning, stacklevel=3)
            continue
        for each in types:
            others = {
                id(other): other
                for other in (by_name.get(each.name), by_container.get(each.container))
                if other
            }
            if not others:
                by_name[each.name] = by_container[each.container] = each
                continue
            other = next(iter(others.values()))
            first, second = (owner_of("treespec_serializer", claimant.family) for claimant in (other, each))
            reason = conflict_of(f"container type {each.name!r}", first, second)
            for rival in (each, *others.values()):
                if rival.name not in kept.by_name and rival.container not in kept.by_container:
                    disputed[rival.name] = disputed[rival.container] = failures[rival.family] = reason
    return TreespecTypes(
        MappingProxyType({name: each for name, each in by_name.items() if name not in disputed}),
        MappingProxyType(
            {container: each for container, each in by_container.items() if container not in disputed}
        ),
        MappingProxyType(failures),
        MappingProxyType(disputed),
    )


def _types_of(serializer_name: str, serializer: TreespecSerializer) -> list[TreespecType]:
    container = serializer.container()
    types = dict(container) if isinstance(container, Mapping) else {serializer_name: container}
    for name, each in types.items():
        if isinstance(container, Mapping) and not (
            type(name) is str and name.startswith(f"{serializer_name}.")
        ):
            raise PluginError(f"its family has a member {name!r}, whose name does not start with its own")
        if not callable(each):
            raise PluginError(f"its container {name} is {each!r:.80}, no class")
    if len(set(types.values())) < len(types):
        raise PluginError("one class stands in its family under two names")
    return [TreespecType(name, each, serializer, serializer_name) for name, each in types.items()]
