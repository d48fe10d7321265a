"""The container types that treespec serializers support, by serialized name and by class."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from graphwire.errors import PluginError
from graphwire.hooks.conflicts import UnavailableName, conflict_error, conflict_of
from graphwire.hooks.discovery import GraphwirePluginWarning, PluginInfo, is_in_box
from graphwire.hooks.interfaces import TreespecSerializer
from graphwire.hooks.provisions import error_text


class TreespecType(msgspec.Struct, frozen=True):
    """A container type, and the plugin's treespec serializer that supports it."""

    name: str
    """Its serialized name."""
    container: Any
    """Its class, or what `torch.utils._pytree` uses for it, such as `collections.namedtuple`."""
    serializer: TreespecSerializer
    """The serializer that supports it."""
    family: str
    """The serializer's own name."""


class TreespecTypes(msgspec.Struct, frozen=True):
    """The container types of a set of treespec serializers."""

    by_name: Mapping[str, TreespecType]
    """The types by serialized name, including those of families."""
    by_container: Mapping[Any, TreespecType]
    """The types by class."""
    failures: Mapping[str, str]
    """By serializer name: why the serializer is omitted, or which type it shares with another one."""
    disputed: Mapping[Any, str]
    """By serialized name and by class: the types that two serializers support, each with a description of the conflict."""


class ContainerTypes:
    """The container types of a registry.

    A serializer's classes are imported when they are first needed: those of built-in serializers for any treespec,
    those of plugins for a type that no built-in one supports. A serializer that fails to return its classes is omitted
    with a `GraphwirePluginWarning`; a type that two serializers support is omitted without a warning.

    Args:
        serializers: the serializers by name.
        owners: the plugin of each.
        faults: why no plugin owns a name that a plugin claims.
    """

    def __init__(
        self,
        serializers: dict[str, TreespecSerializer],
        owners: Mapping[str, PluginInfo],
        faults: Mapping[str, UnavailableName],
    ) -> None:
        self.serializers = MappingProxyType(serializers)
        self._owners = owners
        self._faults = faults
        self._lock = threading.RLock()
        self._box: TreespecTypes | None = None
        self._all: TreespecTypes | None = None

    def of(self, container: Any) -> TreespecType | None:
        """Return the entry of a container type, given as `TreeSpec.type`.

        Raises:
            PluginConflictError: two serializers support that class.
        """
        if (found := self.box.by_container.get(container)) is not None:
            return found
        if (reason := self.all.disputed.get(container)) is not None:
            raise conflict_error(reason)
        return self.all.by_container.get(container)

    def named(self, name: str) -> TreespecType | None:
        """Return the entry of a serialized name.

        Raises:
            PluginConflictError: two serializers support that name.
        """
        if (found := self.box.by_name.get(name)) is not None:
            return found
        family = name.rpartition(".")[0]
        fault = self._faults.get(name) or self._faults.get(family)
        if fault is not None and fault.refusal.is_conflict:
            raise conflict_error(fault.refusal.reason)
        if name not in self._owners and family not in self._owners:
            return None
        if (reason := self.all.disputed.get(name)) is not None:
            raise conflict_error(reason)
        return self.all.by_name.get(name)

    @property
    def box(self) -> TreespecTypes:
        """The types that ship with graphwire."""
        if self._box is None:
            with self._lock:
                if self._box is None:
                    self._box = self._indexed(in_box=True)
        return self._box

    @property
    def all(self) -> TreespecTypes:
        """The types of all serializers."""
        if self._all is None:
            with self._lock:
                if self._all is None:
                    self._all = self._indexed(in_box=False, box=self.box)
        return self._all

    def _indexed(self, *, in_box: bool, box: TreespecTypes | None = None) -> TreespecTypes:
        owners = self._owners
        chosen = {name: each for name, each in self.serializers.items() if is_in_box(owners[name]) is in_box}
        return _types_of_all(chosen, owners, box)


def _types_of_all(
    serializers: Mapping[str, TreespecSerializer],
    owners: Mapping[str, PluginInfo],
    box: TreespecTypes | None = None,
) -> TreespecTypes:
    """Ask serializers for their containers, which imports the containers' modules.

    A serializer that fails is omitted with a `GraphwirePluginWarning`. Of two that support one type, neither gets it,
    unless one is built in; using the type is then an error.

    Args:
        serializers: the serializers by name.
        owners: the plugin of each, by the serializer's name.
        box: the types of the built-in serializers, which keep them.
    """
    kept = TreespecTypes({}, {}, {}, {}) if box is None else box
    by_name: dict[str, TreespecType] = dict(kept.by_name)
    by_container: dict[Any, TreespecType] = dict(kept.by_container)
    failures: dict[str, str] = dict(kept.failures)
    disputed: dict[Any, str] = {}

    for serializer_name, serializer in serializers.items():
        try:
            types = _types_of(serializer_name, serializer)
        except Exception as error:  # noqa: BLE001 foreign code; the others continue
            failures[serializer_name] = error_text(error)
            named = f"the treespec serializer {serializer_name!r} of {owners[serializer_name]}"
            message = f"{named} is left out: {failures[serializer_name]}"
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
            reason = conflict_of(f"container type {each.name!r}", owners[other.family], owners[each.family])
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
            raise PluginError(f"its container {name} is {each!r:.80}, not a class")
    if len(set(types.values())) < len(types):
        raise PluginError("one class has two names in its family")
    return [TreespecType(name, each, serializer, serializer_name) for name, each in types.items()]
