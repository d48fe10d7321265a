"""The registry: what is installed, by name. Built once, never changed; the hot path is dict lookups."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from graphwire.errors import PluginConflictError, PluginError, UnknownFormatError
from graphwire.hooks.discovery import (
    ALLOW_VARIABLE,
    BLOCK_VARIABLE,
    HOOKS,
    GraphwirePluginWarning,
    LoadedPlugin,
    PluginInfo,
    conflict_error,
    conflict_of,
    discover_plugins,
    is_named,
    load_plugin,
    named_plugins,
)
from graphwire.hooks.hookspecs import PROJECT
from graphwire.hooks.interfaces import (
    ConstantCodec,
    MetadataKey,
    OpHandler,
    OpsetUpgrader,
    TreespecSerializer,
    WireFormat,
)
from graphwire.hooks.treespec_types import TreespecType, TreespecTypes, index_treespec_types

__all__ = ["GraphwirePluginWarning", "PluginInfo", "Registry", "default_registry", "in_force"]


class Registry:
    """What a set of plugins provides. Immutable: any number of threads may use it.

    Make one with `Registry.discover()`, `Registry.of(plugin, …)` or `registry.extended(plugin, …)`.
    """

    __slots__ = (
        "_longest_prefix",
        "_owners",
        "_plugins",
        "_prefixes",
        "_treespec_lock",
        "_treespec_types",
        "_treespec_types_in_box",
        "constant_codecs",
        "metadata_keys",
        "op_handlers",
        "opset_upgraders",
        "plugins",
        "treespec_serializers",
        "wire_formats",
        "wire_formats_by_suffix",
    )

    wire_formats: Mapping[str, WireFormat]
    """Wire formats by name."""
    wire_formats_by_suffix: Mapping[str, WireFormat]
    """Wire formats by the suffix of the program's member, such as `.json`."""
    op_handlers: tuple[OpHandler, ...]
    treespec_serializers: Mapping[str, TreespecSerializer]
    """Treespec serializers by name."""
    opset_upgraders: tuple[OpsetUpgrader, ...]
    metadata_keys: Mapping[str, MetadataKey]
    """The keys of `node.meta` that plugins declare, by name."""
    constant_codecs: Mapping[str, ConstantCodec]
    """Constant codecs by name, those in the box behind the others."""
    plugins: tuple[PluginInfo, ...]
    """Every plugin that was found, also the blocked and the broken ones, in order of distribution and name."""

    _plugins: tuple[LoadedPlugin, ...]
    _owners: Mapping[tuple[str, str], PluginInfo]
    _prefixes: Mapping[str, OpHandler]
    _longest_prefix: int
    _treespec_lock: threading.RLock
    _treespec_types: TreespecTypes | None
    _treespec_types_in_box: TreespecTypes | None

    def __init__(self, loaded: Iterable[LoadedPlugin]) -> None:
        """Index plugins that are loaded already.

        Raises:
            PluginConflictError: two of them claim one name.
        """
        plugins = tuple(loaded)
        owners: dict[tuple[str, str], PluginInfo] = {}
        for info in (plugin.info for plugin in plugins if plugin.info.status == "active"):
            for kind, names in info.names.items():
                for name in names:
                    if (other := owners.setdefault((kind, name), info)) is not info:
                        raise conflict_error(conflict_of(kind, name, other, info))
        provided = {
            hook.kind: [provider for plugin in plugins for provider in plugin.providers.get(hook.kind, ())]
            for hook in HOOKS
        }
        formats: list[WireFormat] = provided["wire_format"]
        # Those in the box name what everybody's operators are called by torch, and are asked first.
        handlers: list[OpHandler] = [
            handler
            for plugin in sorted(plugins, key=lambda plugin: plugin.info.distribution != PROJECT)
            for handler in plugin.providers.get("op_handler", ())
        ]
        serializers: list[TreespecSerializer] = provided["treespec_serializer"]
        codecs: list[ConstantCodec] = [
            codec
            # Those in the box own whatever can be taken apart: who knows a class better is asked first.
            for plugin in sorted(plugins, key=lambda plugin: plugin.info.distribution == PROJECT)
            for codec in plugin.providers.get("constant_codec", ())
        ]
        state: dict[str, Any] = {
            "wire_formats": MappingProxyType({each.name: each for each in formats}),
            "wire_formats_by_suffix": MappingProxyType({each.suffix: each for each in formats}),
            "op_handlers": tuple(handlers),
            "treespec_serializers": MappingProxyType({each.name: each for each in serializers}),
            "opset_upgraders": tuple(provided["opset_upgrader"]),
            "constant_codecs": MappingProxyType({each.name: each for each in codecs}),
            "metadata_keys": MappingProxyType({each.name: each for each in provided["metadata_key"]}),
            "plugins": tuple(plugin.info for plugin in plugins),
            "_plugins": plugins,
            "_owners": owners,
            "_prefixes": {prefix: handler for handler in handlers for prefix in handler.prefixes},
            "_longest_prefix": max(
                (len(each) for handler in handlers for each in handler.prefixes), default=0
            ),
            "_treespec_lock": threading.RLock(),
            "_treespec_types": None,
            "_treespec_types_in_box": None,
        }
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Registry never changes: make another one with `extended` to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Registry never changes")

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(map(str, self.plugins)) or 'nothing'}>"

    @classmethod
    def discover(cls, *, allow: Iterable[str] | None = None, block: Iterable[str] | None = None) -> Registry:
        """The plugins that installed distributions register in the entry-point group `graphwire`.

        A plugin that cannot be used is left out with a `GraphwirePluginWarning`, and its reason kept in `plugins`; so are
        two that claim one name, unless it is the box's, which keeps it.

        Args:
            allow: entry-point or distribution names of the only plugins to load; None asks `GRAPHWIRE_PLUGINS`.
            block: names of plugins not to load; None asks `GRAPHWIRE_DISABLE_PLUGINS`. It wins over `allow`.
        """
        return cls(discover_plugins(allow, block))

    @classmethod
    def of(cls, *plugins: Any) -> Registry:
        """Exactly these plugins: modules or objects with `@hookimpl` functions.

        Raises:
            PluginError: one of them cannot be used.
            PluginConflictError: two of them claim one name.
        """
        return cls(()).extended(*plugins)

    def extended(self, *plugins: Any) -> Registry:
        """A new registry: this one's plugins, and these modules or objects with `@hookimpl` functions.

        Raises:
            PluginError: one of them cannot be used.
            PluginConflictError: two plugins claim one name.
        """
        added = []
        for plugin in plugins:
            loaded = load_plugin(PluginInfo(_name_of(plugin)), partial(_itself, plugin))
            if loaded.info.status == "broken":
                raise PluginError(f"{loaded.info} cannot be used: {loaded.info.reason}")
            added.append(loaded)
        return Registry((*self._plugins, *added))

    def only(self, names: Iterable[str]) -> Registry:
        """A new registry of the plugins that are named, by themselves or by their distribution, and no others.

        Raises:
            PluginError: there is none of that name.
        """
        wanted = named_plugins(names)
        strange = wanted - {
            each for info in self.plugins for each in named_plugins((info.name, info.distribution))
        }
        if strange:
            raise PluginError(
                f"`plugins=` names {', '.join(sorted(strange))}, and the registry has no plugin of that name",
                remedy=f"It has {', '.join(info.name for info in self.plugins)}",
            )
        kept = []
        for plugin in self._plugins:
            info = plugin.info
            if info.status == "active" and not is_named(info, wanted):
                info = replace(info, status="blocked", reason="it is not named in `plugins=`")
                plugin = LoadedPlugin(info, {})  # noqa: PLW2901
            kept.append(plugin)
        return Registry(kept)

    def wire_format(self, name: str) -> WireFormat:
        """The wire format of that name.

        Raises:
            UnknownFormatError: no active plugin provides it; the message says what does, and why one may not.
            PluginConflictError: two plugins claim it.
        """
        if not isinstance(name, str):
            raise UnknownFormatError(
                f"a wire format is asked for by its name, not by {name!r:.80}",
                remedy=f"Installed: {', '.join(sorted(self.wire_formats)) or 'none'}",
            )
        try:
            return self.wire_formats[name]
        except KeyError:
            raise self._unknown_format(f"no plugin provides the wire format {name!r}", name) from None

    def wire_format_of_suffix(self, suffix: str) -> WireFormat:
        """The wire format whose program members end with `suffix`, such as `.json`.

        Raises:
            UnknownFormatError: no active plugin provides one.
        """
        try:
            return self.wire_formats_by_suffix[suffix]
        except KeyError:
            problem = f"no plugin provides a wire format with the suffix {suffix!r}"
            raise self._unknown_format(problem, suffix.lstrip(".")) from None

    def op_handler(self, name: str) -> OpHandler | None:
        """The handler that owns a serialized operator name: the one with the longest prefix of it."""
        prefix = self._prefix_of(name)
        return None if prefix is None else self._prefixes[prefix]

    def treespec_serializer_of(self, container_type: Any) -> TreespecSerializer | None:
        """The serializer of a container type, as `TreeSpec.type` has it."""
        found = self.treespec_type_of(container_type)
        return None if found is None else found.serializer

    def treespec_type_of(self, container_type: Any) -> TreespecType | None:
        """What serves a container type. Containers of plugins are imported only for a type that none in the box is.

        Raises:
            PluginConflictError: two serializers serve one name or one class.
        """
        found = self._treespec_types_of_box().by_container.get(container_type)
        return self.treespec_types_by_container().get(container_type) if found is None else found

    def treespec_type_named(self, name: str) -> TreespecType | None:
        """What serves a serialized name. Containers of plugins are imported only for a name that one of them covers.

        Raises:
            PluginConflictError: two serializers serve one name or one class.
        """
        found = self._treespec_types_of_box().by_name.get(name)
        if found is None and self.owner_of("treespec_serializer", name) is not None:
            return self.treespec_types_by_name().get(name)
        return found

    def treespec_types_by_name(self) -> Mapping[str, TreespecType]:
        """Container types by serialized name, those of families included. The first call imports the containers.

        A serializer that fails to say its containers is left out with a `GraphwirePluginWarning`.

        Raises:
            PluginConflictError: two serializers serve one name or one class.
        """
        return self._all_treespec_types().by_name

    def treespec_types_by_container(self) -> Mapping[Any, TreespecType]:
        """Container types by class. Raises as `treespec_types_by_name` does."""
        return self._all_treespec_types().by_container

    def treespec_failures(self) -> Mapping[str, str]:
        """Why each treespec serializer that is left out could not say its containers, by its name."""
        return self._all_treespec_types().failures

    def owner_of(self, kind: str, name: str) -> PluginInfo | None:
        """The plugin that provides a name.

        Args:
            kind: `wire_format`, `op_handler`, `treespec_serializer`, `opset_upgrader` or `constant_codec`.
            name: a name as the plugin claims it, or a longer one that a prefix (of an operator handler) or a family (of
                a treespec serializer) covers.
        """
        owners = self._owners
        if (owner := owners.get((kind, name))) is not None:
            return owner
        if kind == "op_handler":
            prefix = self._prefix_of(name)
            return None if prefix is None else owners[kind, prefix]
        if kind == "treespec_serializer":
            family, _, _ = name.rpartition(".")
            return owners.get((kind, family))
        return None

    def _prefix_of(self, name: str) -> str | None:
        prefixes = self._prefixes
        if name in prefixes:
            return name
        # Longer starts than the longest prefix cannot be one, however long a name a file gives.
        end = min(len(name), self._longest_prefix)
        while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
            if name[: end + 1] in prefixes:
                return name[: end + 1]
        return None

    def _all_treespec_types(self) -> TreespecTypes:
        if (types := self._treespec_types) is not None:
            return types
        with self._treespec_lock:
            if self._treespec_types is None:
                # The one late write: the containers' classes are imported only when a treespec is met.
                types = index_treespec_types(self.treespec_serializers.values(), self.owner_of)
                object.__setattr__(self, "_treespec_types", types)
            assert self._treespec_types is not None
            return self._treespec_types

    def _treespec_types_of_box(self) -> TreespecTypes:
        if (types := self._treespec_types_in_box) is not None:
            return types
        with self._treespec_lock:
            if self._treespec_types_in_box is None:
                box = (plugin.providers for plugin in self._plugins if plugin.info.distribution == PROJECT)
                serializers = (each for providers in box for each in providers.get("treespec_serializer", ()))
                types = index_treespec_types(serializers, self.owner_of)
                object.__setattr__(self, "_treespec_types_in_box", types)
            assert self._treespec_types_in_box is not None
            return self._treespec_types_in_box

    def _unknown_format(self, problem: str, name: str) -> UnknownFormatError | PluginConflictError:
        off = [plugin for plugin in self.plugins if plugin.status != "active"]
        claimants = [each for each in off if {name, f".{name}"} & set(each.names.get("wire_format", ()))]
        # A broken plugin whose names are known is one that another plugin has a name in common with.
        if conflict := next((each for each in claimants if each.status == "broken"), None):
            return conflict_error(conflict.reason)
        named = [each for each in off if each in claimants or name in (each.name, each.distribution)]
        meant = name.lower().lstrip(".")
        hint = f"Did you mean {meant!r}? " if meant != name and meant in self.wire_formats else ""
        remedies = [f"{hint}Installed: {', '.join(sorted(self.wire_formats)) or 'none'}"]
        for plugin in named or [plugin for plugin in off if plugin.status == "broken"]:
            what = "Repair or update it" if plugin.status == "broken" else "Let it in there"
            remedies.append(f"The {plugin} is {plugin.status}: {plugin.reason}. {what}")
        if not named:
            remedies.append(
                "Install a distribution that provides it (`graphwire plugins` lists what is there)"
            )
        return UnknownFormatError(problem, remedy=". ".join(remedies))


_default_lock = threading.RLock()
_defaults: dict[tuple[str, str, frozenset[str] | None], Registry] = {}


def default_registry(plugins: Iterable[str] | None = None) -> Registry:
    """The registry of what is installed: discovered once per process and setting of the two environment variables.

    Args:
        plugins: names of plugins or distributions beside which none is loaded; None for all that the variables let in.

    Raises:
        PluginError: a plugin is named that is not installed.
    """
    only = None if plugins is None else named_plugins(plugins)
    key = (os.environ.get(ALLOW_VARIABLE, ""), os.environ.get(BLOCK_VARIABLE, ""), only)
    registry = _defaults.get(key)
    if registry is None:
        with _default_lock:
            registry = _defaults.get(key)
            if registry is None:
                registry = _defaults[key] = Registry(discover_plugins(only=only))
    return registry


def in_force(registry: Registry | None, plugins: Iterable[str] | None) -> Registry:
    """The plugins in force for one call: those of a registry, or those installed; of them only the named ones, if any are.

    Raises:
        PluginError: a plugin is named that is not there, or the registry is none.
    """
    if registry is not None and not isinstance(registry, Registry):
        raise PluginError(
            f"registry= takes a Registry, not a {type(registry).__name__}",
            remedy="Registry.of(plugin, …) makes one of plugins, Registry.discover() of what is installed",
        )
    if registry is None:
        return default_registry(plugins)
    return registry if plugins is None else registry.only(plugins)


def _itself(plugin: Any) -> Any:
    return plugin


def _name_of(plugin: Any) -> str:
    name = getattr(plugin, "__name__", None)
    return name if isinstance(name, str) else type(plugin).__qualname__
