"""The registry: everything that plugins provide, by name. Built once, immutable; each use is a dict lookup."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from graphwire.errors import PluginConflictError, PluginError, UnknownFormatError, unless_interrupted, warn
from graphwire.registry.calls import BLOCK_VARIABLE
from graphwire.registry.discovery import (
    ALLOW_VARIABLE,
    GraphwirePluginWarning,
    LoadedPlugin,
    PluginInfo,
    StatedPlugin,
    UnavailableName,
    conflict_error,
    find_plugins,
    is_in_box,
    load_plugin,
    plugin_names,
    remedies_of_broken,
    remedy_for_plugin,
    settle_conflicts,
    warn_of,
)
from graphwire.registry.entry_points import modules_in_import, normal_name
from graphwire.registry.interfaces import (
    Command,
    ConstantCodec,
    MetadataKey,
    OpHandler,
    OpsetStep,
    OpsetUpgrader,
    TreespecSerializer,
    WeightStore,
    WireFormat,
)
from graphwire.registry.provisions import HOOKS, Provision, error_text

# ------------------------------- the container types that treespec serializers support, by serialized name and by class


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
        faults: why no plugin owns a name that a plugin registers.
    """

    def __init__(
        self,
        serializers: Mapping[str, TreespecSerializer],
        owners: Mapping[str, PluginInfo],
        faults: Mapping[str, UnavailableName],
    ) -> None:
        self.serializers = serializers
        self._owners = owners
        self._faults = faults
        self.further: Callable[[str], ContainerTypes] = lambda name: self
        """Returns the types after plugins are loaded that state a name, or any if it is empty."""
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
        types = self.further("").all
        if (reason := types.disputed.get(container)) is not None:
            raise conflict_error(reason)
        return types.by_container.get(container)

    def named(self, name: str) -> TreespecType | None:
        """Return the entry of a serialized name.

        Raises:
            PluginConflictError: two serializers support that name.
        """
        if (found := self.box.by_name.get(name)) is not None:
            return found
        types, family = self.further(name), name.rpartition(".")[0]
        fault = types._faults.get(name) or types._faults.get(family)
        if fault is not None and fault.refusal.is_conflict:
            raise conflict_error(fault.refusal.reason)
        if name not in types._owners and family not in types._owners:
            return None
        if (reason := types.all.disputed.get(name)) is not None:
            raise conflict_error(reason)
        return types.all.by_name.get(name)

    @property
    def box(self) -> TreespecTypes:
        """The types that ship with graphwire."""
        if self._box is None:
            with _unless_importing(self._lock):
                if self._box is None:
                    self._box = self._beside(None)
        return self._box

    @property
    def all(self) -> TreespecTypes:
        """The types of all serializers."""
        if self._all is None:
            with _unless_importing(self._lock):
                if self._all is None:
                    self._all = self._beside(self.box)
        return self._all

    def _beside(self, kept: TreespecTypes | None) -> TreespecTypes:
        """Return the types of the serializers that ship with graphwire; given these types, all."""
        in_box, owners = kept is None, self._owners
        chosen = {name: each for name, each in self.serializers.items() if is_in_box(owners[name]) is in_box}
        return _types_of_all(chosen, owners, kept or TreespecTypes({}, {}, {}, {}))


def _unless_importing(lock: Any) -> AbstractContextManager[Any]:
    """Return a lock; none where this thread imports a module, for which the thread that has the lock may wait."""
    return nullcontext() if modules_in_import() else lock


def _types_of_all(
    serializers: Mapping[str, TreespecSerializer], owners: Mapping[str, PluginInfo], kept: TreespecTypes
) -> TreespecTypes:
    """Ask serializers for their containers, which imports the containers' modules.

    A serializer that fails is omitted with a `GraphwirePluginWarning`. Of two that support one type, neither gets it,
    unless one is built in; using the type is then an error.

    Args:
        serializers: the serializers by name.
        owners: the plugin of each, by the serializer's name.
        kept: the types of the built-in serializers, which keep them.
    """
    by_name: dict[str, TreespecType] = dict(kept.by_name)
    by_container: dict[Any, TreespecType] = dict(kept.by_container)
    failures: dict[str, str] = dict(kept.failures)
    disputed: dict[Any, str] = {}

    for serializer_name, serializer in serializers.items():
        try:
            types = _types_of(serializer_name, serializer)
        except unless_interrupted(BaseException) as error:  # foreign code; the others continue
            failures[serializer_name] = error_text(error)
            named = f"the treespec serializer {serializer_name!r} of {owners[serializer_name]}"
            message = f"{named} is dropped: {failures[serializer_name]}"
            warn(message, GraphwirePluginWarning)
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
            one, two = owners[other.family], owners[each.family]
            reason = f"the container type {each.name!r} is registered by {one} and by {two}"
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


_SHARED = frozenset({"graphwire", "graphwire_plugins", "torch", "builtins", "tests"})
"""Packages that may contain modules of more than one plugin."""


class _Index(msgspec.Struct, frozen=True):
    """What the loaded plugins of a registry provide. The attributes of `Registry` describe it."""

    by_name: Mapping[str, Mapping[str, Any]]
    """The providers of each kind that have names."""
    wire_formats_by_suffix: Mapping[str, WireFormat]
    formats_in_box: tuple[WireFormat, ...]
    op_handlers: tuple[OpHandler, ...]
    handlers_in_box: int
    """The number of built-in handlers, which are the first ones."""
    opset_versions: Mapping[str, int]
    container_types: ContainerTypes
    opset_upgraders: tuple[OpsetUpgrader, ...]
    opset_steps: tuple[OpsetStep, ...]
    plugins: tuple[PluginInfo, ...]
    loaded: tuple[LoadedPlugin, ...]
    faults: Mapping[tuple[str, str], UnavailableName]
    handler_owners: Mapping[int, PluginInfo]
    owners: Mapping[tuple[str, str], PluginInfo]
    prefixes: Mapping[str, OpHandler | None]
    """None for a prefix that a plugin registers and no plugin owns."""
    longest_prefix: int
    overloads: dict[int | str, Any] = {}
    """What the bridge made of torch's operators whose handlers are built in, by the id of the operator, which it keeps alive, and
    of those of ATen by their names."""

    def prefix_of(self, name: str) -> str | None:
        """Return the longest prefix that covers an operator's name."""
        prefixes = self.prefixes
        if name in prefixes:
            return name
        # Only the longest prefix bounds the search, not the length of a name in a file.
        end = min(len(name), self.longest_prefix)
        while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
            if name[: end + 1] in prefixes:
                return name[: end + 1]
        return None


def _indexed(loaded: Iterable[LoadedPlugin]) -> _Index:
    """Index plugins.

    Raises:
        PluginConflictError: a plugin that is no distribution's registers a name that another one has.
    """
    loaded = tuple(loaded)
    found = settle_conflicts(loaded)
    for info in found.infos:
        if not info.distribution and any(each.is_conflict for each in info.refused):
            raise conflict_error(info.reason)
    provided: dict[str, list[Provision]] = {hook.kind: [] for hook in HOOKS}
    owners: dict[tuple[str, str], PluginInfo] = {}
    for info, provision in found.provisions:
        provided[provision.kind].append(provision)
        owners.update({(provision.kind, name): info for name in provision.names})
    formats = provided["wire_format"]
    # Built-in handlers name torch's own operators, and are asked first.
    handlers = provided["op_handler"]
    prefixes = {prefix: each.provider for each in handlers for prefix in each.names}
    lost = {name: None for kind, name in found.faults if kind == "op_handler"}
    # Built-in codecs own any value that can be taken apart, so more specific ones are asked first.
    provided["constant_codec"].sort(key=lambda each: is_in_box(owners[each.kind, each.facts["name"]]))
    by_name = {
        kind: MappingProxyType({row.facts["name"]: row.provider for row in rows if "name" in row.facts})
        for kind, rows in provided.items()
    }
    return _Index(
        by_name=by_name,
        wire_formats_by_suffix=MappingProxyType({each.facts["suffix"]: each.provider for each in formats}),
        formats_in_box=tuple(
            each.provider for each in formats if is_in_box(owners[each.kind, each.facts["name"]])
        ),
        op_handlers=tuple(each.provider for each in handlers),
        handlers_in_box=sum(is_in_box(owners[each.kind, each.names[0]]) for each in handlers),
        opset_versions=MappingProxyType(
            {each.facts["namespace"]: each.facts["opset_version"] for each in handlers}
        ),
        container_types=ContainerTypes(
            by_name["treespec_serializer"],
            {name: owner for (kind, name), owner in owners.items() if kind == "treespec_serializer"},
            {name: fault for (kind, name), fault in found.faults.items() if kind == "treespec_serializer"},
        ),
        opset_upgraders=tuple(each.provider for each in provided["opset_upgrader"]),
        opset_steps=tuple(OpsetStep(**each.facts) for each in provided["opset_upgrader"]),
        plugins=found.infos,
        loaded=loaded,
        owners=owners,
        faults=found.faults,
        handler_owners={id(each.provider): owners[each.kind, each.names[0]] for each in handlers},
        prefixes=lost | prefixes,
        longest_prefix=max(map(len, (*lost, *prefixes)), default=0),
    )


def _order(plugin: LoadedPlugin) -> tuple[bool, str, str]:
    info = plugin.info  # objects stand behind distributions, as they were added
    return (not info.distribution, normal_name(info.distribution), info.name if info.distribution else "")


class Registry:
    """Everything that a set of plugins provides. Immutable: any number of threads may use it.

    `Registry.discover()` has the installed plugins; `Registry.only(name, …)` and `Registry.without(name, …)` have some
    of them. `Registry.of(plugin, …)` and `registry.extended(plugin, …)` take objects. A plugin whose entry points state what it
    provides is imported when something of that is looked up.
    """

    __slots__ = ("_index", "_loading", "_lock", "_stated")

    _index: _Index
    _loading: set[tuple[int, int]]
    """The threads that load plugins, each with the id of the plugin."""
    _lock: Any
    _stated: tuple[StatedPlugin, ...]
    """The plugins that are not imported yet."""

    def __init__(self, loaded: Iterable[LoadedPlugin], stated: Iterable[StatedPlugin] = ()) -> None:
        """Index plugins that are already loaded.

        Args:
            stated: plugins to load when they are needed.

        Raises:
            PluginConflictError: a plugin that is no distribution's registers a name that another one has.
        """
        object.__setattr__(self, "_index", _indexed(loaded))
        object.__setattr__(self, "_stated", tuple(stated))
        object.__setattr__(self, "_loading", set())
        object.__setattr__(self, "_lock", threading.RLock())

    def _having(self, kind: str = "", name: str = "") -> _Index:
        """Return what plugins provide, after those are loaded that state a kind and a name of it; all of it if they are empty."""
        if not (wanted := self._stated and [each for each in self._stated if each.states(kind, name)]):
            return self._index
        thread = threading.get_ident()
        # A hook that looks into the registry does not find its own plugin.
        if not (wanted := [each for each in wanted if (thread, id(each)) not in self._loading]):
            return self._index
        marks = {(thread, id(each)) for each in wanted}
        self._loading.update(marks)
        try:
            # Threads may import one plugin at once, and the first has it. Under the lock, an import that looks something up in
            # another thread would wait for it, and it for that import.
            loaded = [each.loaded() for each in wanted]
        finally:
            self._loading.difference_update(marks)
        with self._lock:
            stated = self._stated
            loaded = [new for each, new in zip(wanted, loaded, strict=True) if each in stated]
            index = _indexed(sorted((*self._index.loaded, *loaded), key=_order)) if loaded else self._index
            object.__setattr__(self, "_index", index)
            # Others read both without the lock.
            object.__setattr__(self, "_stated", tuple(each for each in stated if each not in wanted))
        new = {(each.info.distribution, each.info.name) for each in loaded}
        for info in index.plugins:
            if (info.distribution, info.name) in new:
                warn_of(info)
        return index

    @property
    def wire_formats(self) -> Mapping[str, WireFormat]:
        """Wire formats by name."""
        return self._having("wire_format").by_name["wire_format"]

    @property
    def formats_in_box(self) -> tuple[WireFormat, ...]:
        """The wire formats that ship with graphwire."""
        return self._index.formats_in_box

    @property
    def op_handlers(self) -> tuple[OpHandler, ...]:
        """Operator handlers, the built-in ones first."""
        return self._having("op_handler").op_handlers

    @property
    def opset_versions(self) -> Mapping[str, int]:
        """The versions of the operator namespaces, as their handlers gave them at registration."""
        return self._having("op_handler").opset_versions

    @property
    def container_types(self) -> ContainerTypes:
        """The container types that treespec serializers serve."""
        types = self._index.container_types
        types.further = lambda name: self._having("treespec_serializer", name).container_types
        return types

    def handlers_in_turn(self) -> Iterator[OpHandler]:
        """Yield the operator handlers. Others than the built-in ones are imported if the caller wants more."""
        box = self._index.handlers_in_box
        yield from self._index.op_handlers[:box]
        yield from self.op_handlers[box:]

    def opset_versions_of(self, namespaces: Collection[str]) -> Mapping[str, int]:
        """Return `opset_versions`; only those of loaded plugins if these have all of some namespaces."""
        versions = self._index.opset_versions
        return versions if all(each in versions for each in namespaces) else self.opset_versions

    @property
    def metadata_key_names(self) -> tuple[str, ...]:
        """The names of `metadata_keys`, for which no plugin is imported."""
        index = self._having("metadata_key", " ")  # which nobody states
        stated = [name for each in self._stated for name in each.stated.get("metadata_key", ())]
        return tuple(dict.fromkeys((*index.by_name["metadata_key"], *stated)))

    @property
    def opset_upgraders(self) -> tuple[OpsetUpgrader, ...]:
        """Opset upgraders."""
        return self._having("opset_upgrader").opset_upgraders

    @property
    def opset_steps(self) -> tuple[OpsetStep, ...]:
        """The upgraders' steps, as they were at registration."""
        return self._having("opset_upgrader").opset_steps

    @property
    def metadata_keys(self) -> Mapping[str, MetadataKey]:
        """The keys of `node.meta` that plugins declare, by name."""
        return self._having("metadata_key").by_name["metadata_key"]

    @property
    def constant_codecs(self) -> Mapping[str, ConstantCodec]:
        """Constant codecs by name, the built-in ones last."""
        return self._having("constant_codec").by_name["constant_codec"]

    @property
    def weight_stores(self) -> Mapping[str, WeightStore]:
        """Weight stores by name, the built-in ones first."""
        return self._having("weight_store").by_name["weight_store"]

    @property
    def commands(self) -> Mapping[str, Command]:
        """Commands of plugins by name."""
        return self._having("command").by_name["command"]

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """Every plugin found, including blocked and broken ones, ordered by distribution and name."""
        return self._having().plugins

    @classmethod
    def _found(cls, found: Sequence[LoadedPlugin | StatedPlugin]) -> Registry:
        """Make a registry of installed plugins, which warns of plugins that are broken or in conflict."""
        registry = cls(
            (each for each in found if isinstance(each, LoadedPlugin)),
            (each for each in found if isinstance(each, StatedPlugin)),
        )
        for info in registry._index.plugins:
            warn_of(info)
        return registry

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Registry never changes: make another one with `extended` to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Registry never changes")

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(map(str, self.plugins)) or 'nothing'}>"

    @classmethod
    def discover(cls) -> Registry:
        """Discover the plugins that installed distributions register in the entry-point group `graphwire`, without a
        cache.

        Anything unusable is omitted with a `GraphwirePluginWarning`, and `plugins` keeps the reason. The same holds for
        names that two plugins register, except that built-in plugins keep theirs. The environment variables
        `GRAPHWIRE_PLUGINS` and `GRAPHWIRE_DISABLE_PLUGINS` select the plugins.
        """
        return cls._found(find_plugins())

    @classmethod
    def only(cls, *names: str) -> Registry:
        """Return the named installed plugins only. The others are not imported.

        Discovered once per process; the environment variables may exclude more.

        Args:
            names: names of plugins (entry points) or of distributions. `graphwire` is the built-in plugins.

        Raises:
            PluginError: no plugin has such a name.
        """
        return _discovered(plugin_names(names))

    @classmethod
    def without(cls, *names: str) -> Registry:
        """Return the installed plugins except the named ones, which are not imported.

        Discovered once per process; the environment variables may exclude more.

        Args:
            names: names of plugins (entry points) or of distributions, whether installed or not.

        Raises:
            PluginError: a name is not text.
        """
        return _discovered(without=plugin_names(names))

    @classmethod
    def of(cls, *plugins: Any) -> Registry:
        """Return a registry of exactly these plugins: modules or objects with `@hookimpl` functions.

        Raises:
            PluginError: one of them cannot be used.
            PluginConflictError: two of them register one name.
        """
        return cls(()).extended(*plugins)

    def extended(self, *plugins: Any) -> Registry:
        """Return a new registry with this one's plugins and these modules or objects with `@hookimpl` functions.

        Raises:
            PluginError: one of them cannot be used.
            PluginConflictError: two plugins register one name.
        """
        added = []
        for plugin in plugins:
            loaded = load_plugin(PluginInfo(_name_of(plugin)), partial(_itself, plugin))
            if loaded.info.status == "broken":
                raise PluginError(f"{loaded.info} cannot be used: {loaded.info.reason}")
            added.append(loaded)
        return Registry((*self._index.loaded, *added), self._stated)

    def wire_format(self, name: str) -> WireFormat:
        """Return the wire format of that name.

        Raises:
            UnknownFormatError: no active plugin provides it; the message lists those available, and why one may not be.
            PluginConflictError: two plugins register it.
        """
        if not isinstance(name, str):
            raise UnknownFormatError(
                f"a wire format is selected by its name, not by {name!r:.80}",
                remedy=f"Installed: {', '.join(sorted(self.wire_formats)) or 'none'}",
            ).about("format")
        try:
            found: WireFormat = self._having("wire_format", name).by_name["wire_format"][name]
        except KeyError:
            problem = f"no plugin provides the wire format {name!r}"
            raise self._unknown_format(problem, name).about("format") from None
        return found

    def wire_format_of_suffix(self, suffix: str) -> WireFormat:
        """Return the wire format whose program members end with `suffix`, such as `.json`.

        Raises:
            UnknownFormatError: no active plugin provides one.
        """
        try:
            return self._having("wire_format", suffix).wire_formats_by_suffix[suffix]
        except KeyError:
            problem = f"no plugin provides a wire format with the suffix {suffix!r}"
            raise self._unknown_format(problem, suffix.lstrip(".")) from None

    @property
    def overloads(self) -> dict[int | str, Any]:
        """What the bridge made of torch's operators that built-in handlers handle, by the id of the operator, and of those of
        ATen by their names. It depends on nothing but the plugins, so neither a save nor a load makes it again."""
        return self._index.overloads

    def op_handler(self, name: str) -> OpHandler | None:
        """Return the handler that owns a serialized operator name: the one with the longest matching prefix."""
        index = self._having("op_handler", name)
        prefix = index.prefix_of(name)
        return None if prefix is None else index.prefixes[prefix]

    def owner_of_handler(self, handler: OpHandler) -> PluginInfo | None:
        """Return the plugin that provides an operator handler."""
        return self._index.handler_owners.get(id(handler))

    def is_in_box(self, handler: OpHandler) -> bool:
        """Whether an operator handler ships with graphwire."""
        owner = self._index.handler_owners.get(id(handler))
        return owner is not None and is_in_box(owner)

    def is_built_in(self, kind: str, name: str) -> bool:
        """Whether the plugin that provides a name, as in `owner_of`, ships with graphwire."""
        owner = self.owner_of(kind, name)
        return owner is not None and is_in_box(owner)

    def fault_of(self, kind: str, name: str) -> UnavailableName | None:
        """Return why no plugin owns a name that a plugin registers; None if one does, or if no plugin registers it.

        Args:
            kind: as in `owner_of`; an opset step is named `NAMESPACE OLD->NEW`.
            name: as in `owner_of`.
        """
        index = self._having(kind, name)
        faults = index.faults
        if kind == "op_handler":
            name = index.prefix_of(name) or name
        if kind == "treespec_serializer" and (kind, name) not in faults:
            name = name.rpartition(".")[0]
        if (fault := faults.get((kind, name))) is None and kind == "opset_upgrader":
            steps = (of for of in faults if of[0] == kind and of[1].startswith(f"{name} "))
            fault = faults.get(next(steps, (kind, name)))
        return fault

    def plugin_of(self, module: str) -> PluginInfo | None:
        """Return the plugin that a module belongs to, as far as its providers tell; None for built-in and unknown
        modules."""
        package = module.partition(".")[0]
        for plugin in self._index.loaded:
            if is_in_box(plugin.info):
                continue
            for home in (str(getattr(each.provider, "__module__", "")) for each in plugin.provisions):
                if home == module or (package == home.partition(".")[0] and package not in _SHARED):
                    return plugin.info
        return None

    def owner_of(self, kind: str, name: str) -> PluginInfo | None:
        """Return the plugin that provides a name.

        Args:
            kind: `wire_format`, `op_handler`, `treespec_serializer`, `opset_upgrader`, `constant_codec`,
                `weight_store` or `command`.
            name: a name as the plugin registers it, or a longer one that a prefix (of an operator handler) or a family (of
                a treespec serializer) covers.
        """
        index = self._having(kind, name)
        owners = index.owners
        if (owner := owners.get((kind, name))) is not None:
            return owner
        if kind == "op_handler":
            prefix = index.prefix_of(name)
            return None if prefix is None else owners.get((kind, prefix))
        if kind == "treespec_serializer":
            family, _, _ = name.rpartition(".")
            return owners.get((kind, family))
        return None

    def _unknown_format(self, problem: str, name: str) -> UnknownFormatError | PluginConflictError:
        fault = self.fault_of("wire_format", name) or self.fault_of("wire_format", f".{name}")
        if fault is not None and fault.refusal.is_conflict:
            return conflict_error(fault.refusal.reason)
        meant = name.lower().lstrip(".").replace("-", "_")
        hint = f"Did you mean {meant!r}? " if meant != name and meant in self.wire_formats else ""
        remedies = [f"{hint}Installed: {', '.join(sorted(self.wire_formats)) or 'none'}"]
        off = [plugin for plugin in self.plugins if plugin.status != "active"]
        named = [fault.plugin] if fault else [each for each in off if name in (each.name, each.distribution)]
        remedies += map(remedy_for_plugin, named)
        if not named:
            remedies += remedies_of_broken(self, "wire_format")
            remedies.append(
                "Install a distribution that provides it (`graphwire plugins` lists the installed plugins)"
            )
        return UnknownFormatError(problem, remedy=". ".join(remedies))


_default_lock = threading.RLock()
_defaults: dict[tuple[str, str, frozenset[str] | None, frozenset[str]], Registry] = {}


def _discovered(only: frozenset[str] | None = None, without: frozenset[str] = frozenset()) -> Registry:
    """Return the registry of these plugins: one per process and setting of the two environment variables."""
    key = (os.environ.get(ALLOW_VARIABLE, ""), os.environ.get(BLOCK_VARIABLE, ""), only, without)
    registry = _defaults.get(key)
    if registry is None:
        with _unless_importing(_default_lock):
            registry = _defaults.get(key) or _defaults.setdefault(
                key, Registry._found(find_plugins(only, without))
            )
    return registry


def default_registry() -> Registry:
    """Return the registry of the installed plugins: one per process and setting of the two environment variables."""
    return _discovered()


def registry_or_installed(registry: Registry | None) -> Registry:
    """Return the given registry, or that of the installed plugins for None.

    Raises:
        PluginError: the argument is not a registry.
    """
    if registry is not None and not isinstance(registry, Registry):
        raise PluginError(
            f"registry= takes a Registry, not a {type(registry).__name__}",
            remedy="Registry.only(name, …) makes one of installed plugins, Registry.of(plugin, …) of objects",
        )
    return default_registry() if registry is None else registry


def _itself(plugin: Any) -> Any:
    return plugin


def _name_of(plugin: Any) -> str:
    name = getattr(plugin, "__name__", None)
    return name if isinstance(name, str) else type(plugin).__qualname__
