"""Plugins, found and loaded: each in isolation, so that a broken one costs its own names and nothing else."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pluggy

from graphwire.errors import PluginConflictError, PluginError
from graphwire.hooks import hookspecs
from graphwire.hooks.interfaces import (
    ConstantCodec,
    MetadataKey,
    OpHandler,
    OpsetUpgrader,
    TreespecSerializer,
    WireFormat,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ALLOW_VARIABLE",
    "BLOCK_VARIABLE",
    "HOOKS",
    "GraphwirePluginWarning",
    "Hook",
    "LoadedPlugin",
    "PluginInfo",
    "conflict_error",
    "conflict_of",
    "discover_plugins",
    "is_named",
    "load_plugin",
    "named_plugins",
]

ALLOW_VARIABLE = "GRAPHWIRE_PLUGINS"
"""Environment variable: the only plugins to load, by entry-point or distribution name, separated by commas."""
BLOCK_VARIABLE = "GRAPHWIRE_DISABLE_PLUGINS"
"""Environment variable: plugins not to load, written likewise. It wins over the one above."""
SLOW_SECONDS = 2.0
"""A plugin that takes longer to load is told of: everybody who starts graphwire waits for it."""


class GraphwirePluginWarning(UserWarning):
    """An installed plugin cannot be used; everything else goes on without it."""


class Hook(NamedTuple):
    """One of the six things that a plugin provides."""

    kind: str
    """The kind of provider, such as `wire_format`."""
    name: str
    """The hook's name in `hookspecs`."""
    protocol: type
    names_of: Callable[[Any], Iterable[str]]
    """The names that a provider claims; no two plugins may claim the same one."""


def _upgrader_names(upgrader: OpsetUpgrader) -> list[str]:
    step = f"{upgrader.namespace} {upgrader.from_version}->{upgrader.to_version}"
    return [f"{step} {operator}" for operator in upgrader.operators] or [step]


HOOKS: tuple[Hook, ...] = (
    Hook("wire_format", "graphwire_wire_formats", WireFormat, lambda p: (p.name, p.suffix)),
    Hook("op_handler", "graphwire_op_handlers", OpHandler, lambda p: p.prefixes),
    Hook("treespec_serializer", "graphwire_treespec_serializers", TreespecSerializer, lambda p: (p.name,)),
    Hook("opset_upgrader", "graphwire_opset_upgraders", OpsetUpgrader, _upgrader_names),
    Hook("constant_codec", "graphwire_constant_codecs", ConstantCodec, lambda p: (p.name,)),
    Hook("metadata_key", "graphwire_metadata_keys", MetadataKey, lambda p: ()),
)


@dataclass(frozen=True)
class PluginInfo:
    """What is known of one plugin."""

    name: str
    """The entry point's name; of a plugin that was passed as an object, the object's name."""
    distribution: str = ""
    """The distribution that brought it; empty for a plugin that was passed as an object."""
    version: str = ""
    """The distribution's version."""
    hooks: tuple[str, ...] = ()
    """The hooks that it implements, such as `graphwire_wire_formats`."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The names that it owns, by kind of provider (`wire_format`, `op_handler`, …)."""
    api_version: int = 1
    """The version of the plugin interface that it is written for (`hookspecs.API_VERSION` is ours)."""
    load_seconds: float = 0.0
    """How long importing it and calling its hooks took."""
    status: Literal["active", "blocked", "broken"] = "active"
    reason: str = ""
    """Why it is not active, one sentence without a full stop."""

    def __str__(self) -> str:
        origin = f" of {self.distribution}=={self.version}" if self.distribution else ""
        return f"plugin `{self.name}`{origin}"


class LoadedPlugin(NamedTuple):
    """A plugin and what it provides; nothing where it is not active."""

    info: PluginInfo
    providers: Mapping[str, tuple[Any, ...]]
    """Providers by kind."""


def discover_plugins(
    allow: Iterable[str] | None = None,
    block: Iterable[str] | None = None,
    only: Iterable[str] | None = None,
) -> tuple[LoadedPlugin, ...]:
    """Every plugin that an installed distribution registers in the entry-point group `graphwire`.

    Args:
        allow: entry-point or distribution names of the only plugins to load; None asks the environment variable
            `GRAPHWIRE_PLUGINS`, and where that is unset or empty all are loaded.
        block: names of plugins not to load; None asks `GRAPHWIRE_DISABLE_PLUGINS`.
        only: names of plugins beside which none is loaded, of those that the first two let in.

    Returns:
        The plugins in order of distribution and entry-point name, also those that are blocked or broken. Of two that claim
        one name neither is active; but nobody takes a name from the box.
    """
    allowed, allow_source = _filter(allow, ALLOW_VARIABLE, "allow=")
    blocked, block_source = _filter(block, BLOCK_VARIABLE, "block=")
    wanted = None if only is None else named_plugins(only)
    seen: set[str] = set()
    plugins = []
    for distribution, version, entry_point in _entry_points():
        names = {_normal(entry_point.name), _normal(distribution)}
        seen |= names
        info = PluginInfo(entry_point.name, distribution, version)
        if blocked is not None and names & blocked:
            plugins.append(_inactive(info, "blocked", f"it is named in {block_source}"))
        elif allowed is not None and not names & allowed:
            plugins.append(_inactive(info, "blocked", f"it is not named in {allow_source}"))
        elif wanted is not None and not names & wanted:
            plugins.append(_inactive(info, "blocked", "it is not named in `plugins=`"))
        else:
            plugins.append(load_plugin(info, entry_point.load))
    if unknown := sorted((wanted or frozenset()) - seen):
        raise PluginError(
            f"`plugins=` names {', '.join(unknown)}, and no plugin or distribution of that name is installed",
            remedy="`graphwire plugins` lists what is there",
        )
    plugins = _without_conflicts(plugins)
    for plugin in plugins:
        if plugin.info.status == "broken":
            _warn(f"{plugin.info} is left out: {plugin.info.reason}")
        elif plugin.info.load_seconds > SLOW_SECONDS:
            _warn(
                f"{plugin.info} takes {plugin.info.load_seconds:.1f} s to load; what is slow to import belongs inside the "
                "functions that need it"
            )
    for name in sorted((allowed or frozenset()) - seen):
        _warn(f"{allow_source} names {name!r}, and no plugin or distribution of that name is installed")
    return tuple(plugins)


def load_plugin(info: PluginInfo, load: Callable[[], Any]) -> LoadedPlugin:
    """Load one plugin and ask its hooks. Whatever goes wrong in there makes it broken, with the reason, and no more.

    Args:
        info: what is known before: name, distribution, version.
        load: makes the module or object that carries the hook implementations.
    """
    start = time.perf_counter()
    try:
        plugin = load()
        info = replace(info, api_version=_api_version(plugin))
        hooks, providers, names = _ask(plugin)
    # A plugin is a stranger's code: even one that exits the interpreter on import must not take the others with it.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _inactive(info, "broken", _reason(error), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    return LoadedPlugin(replace(info, hooks=hooks, names=names, load_seconds=seconds), providers)


def _reason(error: BaseException) -> str:
    if isinstance(error, PluginError):
        return error.problem
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == hookspecs.PROJECT:
        from graphwire.version import PRODUCER

        reason += f"; it may be written for another version than {PRODUCER}"
    return reason


def _api_version(plugin: Any) -> int:
    """The version of the interface that a plugin is written for, one that we have.

    Raises:
        PluginError: it is none, or a newer one.
    """
    version = getattr(plugin, hookspecs.API_ATTRIBUTE, 1)
    if type(version) is not int or version < 1:
        raise PluginError(f"its {hookspecs.API_ATTRIBUTE} is {version!r:.80}, not a number from 1")
    if version > hookspecs.API_VERSION:
        from graphwire.version import PRODUCER

        raise PluginError(
            f"it is written for version {version} of the plugin interface, and {PRODUCER} has version "
            f"{hookspecs.API_VERSION}: update graphwire"
        )
    return version


def _without_conflicts(plugins: Sequence[LoadedPlugin]) -> list[LoadedPlugin]:
    """The plugins, those that claim a name which another one claims made inactive. The box keeps its names."""
    claimants: dict[tuple[str, str], list[PluginInfo]] = defaultdict(list)
    for info, _ in plugins:
        for kind, names in info.names.items():
            for name in names:
                claimants[kind, name].append(info)
    reasons: dict[PluginInfo, str] = {}
    for (kind, name), infos in claimants.items():
        if len(infos) > 1:
            for info in infos:
                if _normal(info.distribution) != hookspecs.PROJECT:
                    reasons.setdefault(info, conflict_of(kind, name, infos[0], infos[1]))
    return [
        LoadedPlugin(replace(plugin.info, status="broken", reason=reasons[plugin.info]), {})
        if plugin.info in reasons
        else plugin
        for plugin in plugins
    ]


def conflict_of(kind: str, name: str, first: PluginInfo | None, second: PluginInfo | None) -> str:
    """What is wrong where two plugins claim one name."""
    return f"the {kind.replace('_', ' ')} {name!r} is claimed by {first} and by {second}"


def conflict_error(problem: str) -> PluginConflictError:
    """The error for whoever needs a name that two plugins claim."""
    return PluginConflictError(problem, remedy=f"Uninstall one, or name it in {BLOCK_VARIABLE}")


def _ask(plugin: Any) -> tuple[tuple[str, ...], dict[str, tuple[Any, ...]], dict[str, tuple[str, ...]]]:
    """The hooks a plugin implements, and its providers and their names by kind."""
    # A pluggy manager of its own: it checks each implementation against its spec, and what it returns is this plugin's.
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if manager.register(plugin) is None:
        raise PluginError("pluggy refuses to register it")
    manager.check_pending()
    hooks: list[str] = []
    providers: dict[str, tuple[Any, ...]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for hook in HOOKS:
        caller = getattr(manager.hook, hook.name)
        if not caller.get_hookimpls():
            continue
        hooks.append(hook.name)
        provided = [provider for result in caller() for provider in _provided(hook, result)]
        if provided:
            claimed = [name for provider in provided for name in hook.names_of(provider)]
            if twice := sorted({name for name in claimed if claimed.count(name) > 1}):
                raise PluginError(f"{hook.name} provides {', '.join(twice)} twice")
            providers[hook.kind], names[hook.kind] = tuple(provided), tuple(claimed)
    if not hooks:
        raise PluginError(
            "it implements none of the hooks; are its functions marked with `@graphwire.hookimpl`?"
        )
    return tuple(hooks), providers, names


def _provided(hook: Hook, result: object) -> list[Any]:
    """The providers that one hook implementation returned, each checked against its Protocol."""
    if isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable):
        raise PluginError(f"{hook.name} returns {_named(result)}, not a list of {hook.protocol.__name__}")
    providers = list(result)
    for provider in providers:
        if wrong := _violations(provider, hook.protocol):
            raise PluginError(
                f"{hook.name} provides {_named(provider)}, no {hook.protocol.__name__}: {'; '.join(wrong)}"
            )
    return providers


_CHECKS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str) and value != ""),
    "int": ("an int", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "Sequence[str]": (
        "a sequence of text",
        lambda value: (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(isinstance(item, str) and item for item in value)
        ),
    ),
    "Mapping[str, Callable[..., None]]": (
        "a mapping from names to functions",
        lambda value: isinstance(value, Mapping) and all(map(callable, value.values())),
    ),
}
"""What an attribute of a Protocol must be, by its annotation."""
_PATTERNS = {
    ("WireFormat", "suffix"): (r"\.[a-z0-9]+", "a dot and then lower-case letters and digits"),
    ("OpHandler", "convention"): ("schema|symbolic|generic", "schema, symbolic or generic"),
}
"""What text in an attribute of a Protocol must look like."""


def _violations(provider: object, protocol: type) -> list[str]:
    """What a provider lacks of its Protocol: attributes by their annotations, and methods."""
    if isinstance(provider, type):
        return ["it is a class; provide an instance"]
    wrong = []
    for name, annotation in _attributes(protocol).items():
        value = getattr(provider, name, None)
        what, holds = _CHECKS.get(annotation, ("there", lambda value: value is not None))
        if value is None:
            wrong.append(f"it has no `{name}`")
        elif not holds(value):
            wrong.append(f"`{name}` is {value!r:.80}, not {what}")
        elif (protocol.__name__, name) in _PATTERNS:
            pattern, what = _PATTERNS[protocol.__name__, name]
            if not re.fullmatch(pattern, value):
                wrong.append(f"`{name}` is {value!r:.80}, not {what}")
    for name, member in vars(protocol).items():
        if callable(member) and not name.startswith("_") and not callable(getattr(provider, name, None)):
            wrong.append(f"it has no method `{name}`")
    return wrong


def _attributes(protocol: type) -> dict[str, str]:
    """The attributes of a Protocol, which it states as properties, and the annotation of each."""
    return {
        name: member.fget.__annotations__["return"]
        for each in reversed(protocol.__mro__)
        for name, member in vars(each).items()
        if isinstance(member, property) and member.fget is not None
    }


def _entry_points() -> list[tuple[str, str, EntryPoint]]:
    """The entry points of our group with their distribution's name and version, sorted."""
    # Imported here: it costs more than all the rest, and a registry of given plugins needs none of it.
    from importlib.metadata import distribution as distribution_named
    from importlib.metadata import distributions

    # Asking each distribution for its text first, rather than `entry_points()`, keeps a stranger's malformed file from
    # ending the search, and parses only the metadata of distributions that have plugins.
    owners = set()
    for found in distributions():
        text = found.read_text("entry_points.txt")
        if text and re.search(rf"^\s*\[\s*{hookspecs.PROJECT}\s*\]", text, re.MULTILINE) and found.name:
            owners.add(_normal(found.name))
    entry_points = []
    for owner in sorted(owners):
        # By name again: of two copies on `sys.path`, the first is the one that Python imports.
        distribution = distribution_named(owner)
        try:
            chosen = distribution.entry_points.select(group=hookspecs.PROJECT)
        except Exception as error:  # noqa: BLE001 a stranger's file, in whatever shape
            _warn(
                f"{distribution.name}=={distribution.version} is left out: its entry points are malformed ({error})"
            )
            continue
        entry_points += [(distribution.name, distribution.version, entry_point) for entry_point in chosen]
    return sorted(entry_points, key=lambda row: (_normal(row[0]), row[2].name))


def _filter(names: Iterable[str] | None, variable: str, argument: str) -> tuple[frozenset[str] | None, str]:
    """The normalized names of a filter and where it was set; None where it is not set."""
    if names is not None:
        listed, source = names.split(",") if isinstance(names, str) else list(names), f"`{argument}`"
    else:
        listed, source = os.environ.get(variable, "").split(","), variable
        if not any(map(str.strip, listed)):
            return None, source
    return frozenset(_normal(name) for name in listed if name.strip()), source


def named_plugins(names: Iterable[str]) -> frozenset[str]:
    """Names of plugins or distributions as they are compared; text has commas between them.

    Raises:
        PluginError: one is no text.
    """
    each: list[Any] = names.split(",") if isinstance(names, str) else list(names)
    if strange := [name for name in each if not isinstance(name, str)]:
        raise PluginError(f"a plugin is given by its name, not by {strange[0]!r:.80}")
    return frozenset(_normal(name) for name in each if name.strip())


def is_named(info: PluginInfo, names: frozenset[str]) -> bool:
    """Whether a plugin is named, by itself or by its distribution."""
    return bool(names & {_normal(info.name), _normal(info.distribution)})


def _inactive(
    info: PluginInfo, status: Literal["blocked", "broken"], reason: str, load_seconds: float = 0.0
) -> LoadedPlugin:
    return LoadedPlugin(replace(info, load_seconds=load_seconds, status=status, reason=reason), {})


def _normal(name: str) -> str:
    """A name as packaging compares it: lower case, runs of `-`, `_` and `.` as one dash."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _named(value: object) -> str:
    kind = type(value).__qualname__
    return f"{kind} {value!r:.60}" if isinstance(value, (str, bytes, int, type(None), type)) else f"a {kind}"


def _warn(message: str) -> None:
    warnings.warn(message, GraphwirePluginWarning, stacklevel=2)
