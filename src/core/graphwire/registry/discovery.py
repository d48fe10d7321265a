"""Discovery and loading of plugins, each in isolation: a broken plugin disables only itself; and which plugin owns which names.

Two plugins that want one name: nobody has it until one of them is disabled; everything else of both works. Built-in plugins
keep their names. A namespace, with its operators and its history, is one name, and belongs to one distribution.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from graphwire import errors
from graphwire.registry import interfaces
from graphwire.registry.calls import BLOCK_VARIABLE, isolated, remedy_of_broken, restored_process
from graphwire.registry.entry_points import entry_points, modules_in_import, normal_name
from graphwire.registry.provisions import Provision, error_text, provisions_of, shown
from graphwire.schema import PluginRequirement, install_advice

if TYPE_CHECKING:
    from graphwire.registry.registry import Registry


ALLOW_VARIABLE = "GRAPHWIRE_PLUGINS"
"""Environment variable: the only plugins to load, in the form of `BLOCK_VARIABLE`, which takes precedence."""
SLOW_SECONDS = 2.0
"""Loading a plugin for longer causes a warning: every start of graphwire waits for it."""
NOTABLE_SECONDS = 0.3
"""Loading a plugin for longer is told by the commands that list plugins, and so is a plugin that imports torch."""


REMEDY_OF_HEAVY = (
    "Its author imports slow modules inside the functions that need them, or states what it provides"
)
REMEDY_OF_CONFLICT = f"Uninstall one, or name it in {BLOCK_VARIABLE}"


class Refusal(msgspec.Struct, frozen=True):
    """Names that a plugin registers and does not have."""

    kind: str
    """The kind of provider, such as `wire_format`."""
    names: tuple[str, ...]
    reason: str
    """One sentence without a full stop."""
    is_conflict: bool = False
    """Whether another plugin registers them, too, so that one of the two has to be disabled."""


class GraphwirePluginWarning(UserWarning):
    """An installed plugin, or something that it provides, cannot be used; everything else works without it."""


class PluginInfo(msgspec.Struct, frozen=True):
    """A plugin's name, origin, status and provided names."""

    name: str
    """The entry point's name; for a plugin passed as an object, the object's name."""
    distribution: str = ""
    """The distribution that contains it; empty for a plugin passed as an object."""
    version: str = ""
    """The distribution's version."""
    hooks: tuple[str, ...] = ()
    """The hooks that it implements, such as `graphwire_wire_formats`."""
    names: Mapping[str, tuple[str, ...]] = {}
    """The names that it owns, by kind of provider (`wire_format`, `op_handler`, …)."""
    api_version: int = 1
    """The version of the plugin interface that it is written for (`interfaces.API_VERSION` is the current one)."""
    load_seconds: float = 0.0
    """The processor time that its import and its hooks took."""
    status: Literal["active", "partial", "blocked", "broken"] = "active"
    """`broken` if it breaks the contract, or has none of its names; `partial` if other plugins register some of its names."""
    reason: str = ""
    """Why it is not active, or not completely, one sentence without a full stop."""
    refused: tuple[Refusal, ...] = ()
    """The names that it registers and does not have, with the reasons."""
    heavy: str = ""
    """What makes its import slow, one sentence without a full stop; empty if nothing does."""
    ignored: str = ""
    """What its entry points state in vain, such as in a group whose name is mistyped, in the same form."""

    def __hash__(self) -> int:
        return hash((self.distribution, self.version, self.name))

    def __str__(self) -> str:
        origin = "==".join(filter(None, (self.distribution, self.version)))
        return f"plugin `{self.name}` of {origin}" if self.distribution else f"plugin `{self.name}`"


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin and its provisions, before conflicts between plugins are resolved."""

    info: PluginInfo
    provisions: tuple[Provision, ...]


class StatedPlugin(msgspec.Struct, frozen=True):
    """A plugin whose entry points state what it provides. It is imported when something of that is looked up. One that looks
    something up while its own module is imported is loaded later, too, whatever it states."""

    info: PluginInfo
    stated: Mapping[str, tuple[str, ...]]
    """The names, by kind of provider. That of an opset upgrader is its namespace. Empty if it states none."""
    load: Callable[[], Any]
    module: str

    def states(self, kind: str, name: str) -> bool:
        """Whether it may have a name of a kind, as far as these are given, and can be imported now."""
        names = self.stated.get(kind, ())
        if kind and self.stated and not any(not name or _is_stated(name, each) for each in names):
            return False
        return self.module not in modules_in_import()

    def loaded(self) -> LoadedPlugin:
        """Load it. It is broken if it provides something else than stated."""
        return load_plugin(self.info, self.load, self.stated or None)


def _is_stated(name: str, stated: str) -> bool:
    return name == stated or name.startswith(
        (stated,) if stated[-1] in ".:" else (f"{stated}.", f"{stated} ")
    )


def find_plugins(
    only: frozenset[str] | None = None, without: frozenset[str] = frozenset()
) -> tuple[LoadedPlugin | StatedPlugin, ...]:
    """Load every plugin that an installed distribution registers in the entry-point group `graphwire`, and states nothing of.

    `GRAPHWIRE_PLUGINS` lists the only ones to load, and `GRAPHWIRE_DISABLE_PLUGINS` those not to load, which takes
    precedence. The arguments select among the plugins that these variables allow.

    Args:
        only: names of the only plugins to load, from `plugin_names`; None loads all.
        without: names of plugins not to load, in the same form.

    Returns:
        The plugins ordered by distribution and entry-point name, including those that are blocked or broken.

    Raises:
        PluginError: `only` names a plugin that is not installed.
    """
    blocked = {BLOCK_VARIABLE: _names_in(BLOCK_VARIABLE), "`Registry.without`": without}
    allowed = {}
    if listed := _names_in(ALLOW_VARIABLE):
        allowed[ALLOW_VARIABLE] = listed
    if only is not None:
        allowed["`Registry.only`"] = only
    seen: set[str] = set()
    plugins: list[LoadedPlugin | StatedPlugin] = []
    for each in entry_points():
        info = PluginInfo(each.name, each.distribution, each.version, ignored=each.ignored)
        names = {normal_name(info.name), normal_name(info.distribution)}
        seen |= names
        if source := next((of for of in blocked if names & blocked[of]), None):
            plugins.append(_inactive(info, "blocked", f"it is named in {source}"))
        elif each.unreadable:
            plugins.append(_inactive(info, "broken", each.unreadable))
        elif source := next((of for of in allowed if not names & allowed[of]), None):
            plugins.append(_inactive(info, "blocked", f"it is not named in {source}"))
        elif not is_in_box(info) and (each.stated or each.module in modules_in_import()):
            plugins.append(StatedPlugin(info, each.stated, each.load, each.module))
        else:
            plugins.append(load_plugin(info, each.load))
    for source, listed in (*allowed.items(), (BLOCK_VARIABLE, blocked[BLOCK_VARIABLE])):
        if unknown := ", ".join(sorted(listed - seen)):
            problem = f"{source} names {unknown}, and no plugin or distribution of that name is installed"
            if source not in (ALLOW_VARIABLE, BLOCK_VARIABLE):
                raise errors.PluginError(problem, remedy="`graphwire plugins` lists the installed plugins")
            _warn(problem)
    return tuple(plugins)


def warn_of(info: PluginInfo) -> None:
    """Warn of a plugin that is broken, partly unusable, or slow to load."""
    remedy = REMEDY_OF_CONFLICT if any(each.is_conflict for each in info.refused) else remedy_of_broken(info)
    if info.status == "broken":
        _warn(f"{info} is dropped: {info.reason}. {remedy}")
    elif info.status == "partial":
        _warn(f"{info} is partly unusable: {info.reason}. {remedy}")
    if info.load_seconds > SLOW_SECONDS:
        _warn(
            f"{info} takes {info.load_seconds:.1f} s to load; {REMEDY_OF_HEAVY[0].lower()}{REMEDY_OF_HEAVY[1:]}"
        )


def load_plugin(
    info: PluginInfo, load: Callable[[], Any], stated: Mapping[str, tuple[str, ...]] | None = None
) -> LoadedPlugin:
    """Load one plugin and call its hooks. A plugin that breaks the contract is broken as a whole, and the reasons are kept.

    Args:
        info: what is known before loading: name, distribution, version.
        load: returns the module or object that has the hook implementations.
        stated: the names that its entry points state, by kind; None if they state nothing.
    """
    start = time.thread_time()
    had_torch = "torch" in sys.modules
    try:
        with restored_process():
            plugin = load()
            info = replace(info, api_version=_api_version(plugin))
            provided = provisions_of(plugin, trusted=is_in_box(info))
        if stated is not None:
            provided.problems.extend(_misstated(provided.registered, stated))
    # A plugin is foreign code: even one that exits the interpreter on import must not affect the others.
    except errors.unless_interrupted(BaseException) as error:
        return _inactive(info, "broken", _reason(error), time.thread_time() - start)
    seconds = time.thread_time() - start
    heavy = ["it imports torch at module level"] if not had_torch and "torch" in sys.modules else []
    if seconds > NOTABLE_SECONDS:
        heavy.append(f"it takes {seconds:.1f} s to load")
    info = replace(info, heavy=", and ".join(heavy))
    if not provided.problems:
        return LoadedPlugin(
            replace(info, hooks=tuple(dict.fromkeys(provided.hooks)), load_seconds=seconds),
            tuple(each if is_in_box(info) else isolated(each, info) for each in provided.accepted),
        )
    reason = "; ".join(dict.fromkeys(provided.problems))
    refused = tuple(Refusal(kind, names, reason) for kind, names in provided.registered.items())
    return _inactive(replace(info, refused=refused), "broken", reason, seconds)


def _misstated(
    registered: Mapping[str, tuple[str, ...]], stated: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield how what a plugin provides differs from what its entry points state."""
    for kind in dict.fromkeys((*stated, *registered)):
        of_kind = registered.get(kind, ())
        has = {name.partition(" ")[0] for name in of_kind} if kind == "opset_upgrader" else set(of_kind)
        if has != set(stated.get(kind, ())):
            listed = [", ".join(sorted(each)) or "nothing" for each in (stated.get(kind, ()), has)]
            yield f"its entry points `{interfaces.PROJECT}.{kind}` state {listed[0]}, and it provides {listed[1]}"


def _reason(error: BaseException) -> str:
    reason = error_text(error)
    if _lacks_library(error):
        return f"it needs a library that is not installed ({reason})"
    if isinstance(error, ImportError) and str(error.name or "").partition(".")[0] == interfaces.PROJECT:
        from graphwire.version import PRODUCER

        reason += f"; it may be written for another version than {PRODUCER}"
    return reason


def _lacks_library(error: BaseException) -> bool:
    """Whether a plugin that was found looked for a library that is not installed."""
    if not isinstance(error, ModuleNotFoundError) or type(error.name) is not str:
        return False
    from traceback import walk_tb

    looked = {
        str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)
    }
    return error.name.partition(".")[0] != interfaces.PROJECT and bool(
        looked - {interfaces.PROJECT, "importlib"}
    )


def _api_version(plugin: Any) -> int:
    """Return the interface version that a plugin is written for.

    Raises:
        PluginError: the version is invalid, or newer than this interface.
    """
    version = getattr(plugin, interfaces.API_ATTRIBUTE, 1)
    if type(version) is not int or version < 1:
        raise errors.PluginError(f"its {interfaces.API_ATTRIBUTE} is {shown(version)}, not a number from 1")
    if version > interfaces.API_VERSION:
        from graphwire.version import PRODUCER

        raise errors.PluginError(
            f"it is written for version {version} of the plugin interface, and {PRODUCER} has version "
            f"{interfaces.API_VERSION}: update graphwire"
        )
    return version


def _names_in(variable: str) -> frozenset[str]:
    # Somebody copies `NAME==VERSION` from a message, or separates names as another program wants it.
    text = re.sub(r"==[^\s,;]*|[\"'`]", "", os.environ.get(variable, ""))
    return plugin_names(re.split(r"[\s,;]+", text))


def plugin_names(names: Iterable[Any]) -> frozenset[str]:
    """Return names of plugins or distributions in the normal form for comparison.

    Raises:
        PluginError: a name is not text.
    """
    listed = list(names)
    if strange := [name for name in listed if not isinstance(name, str)]:
        raise errors.PluginError(f"a plugin is selected by its name, not by {strange[0]!r:.80}")
    return frozenset(normal_name(name) for name in listed if name.strip())


def is_in_box(info: PluginInfo) -> bool:
    """Whether a plugin ships with graphwire."""
    name = info.distribution
    return name == interfaces.PROJECT or (bool(name) and normal_name(name) == interfaces.PROJECT)


def _inactive(
    info: PluginInfo, status: Literal["blocked", "broken"], reason: str, load_seconds: float = 0.0
) -> LoadedPlugin:
    return LoadedPlugin(replace(info, load_seconds=load_seconds, status=status, reason=reason), ())


def _warn(message: str) -> None:
    errors.warn(message, GraphwirePluginWarning)


class UnavailableName(msgspec.Struct, frozen=True):
    """Why a name that a plugin registers is unavailable."""

    plugin: PluginInfo
    refusal: Refusal


class OwnedNames(msgspec.Struct, frozen=True):
    """Which plugin owns which names."""

    infos: tuple[PluginInfo, ...]
    """The plugins, each with the names that it owns and those that it lost."""
    provisions: tuple[tuple[PluginInfo, Provision], ...]
    """The usable provisions with the names that they own, built-in ones first."""
    faults: Mapping[tuple[str, str], UnavailableName]
    """Names that some plugin registers and no plugin owns, by kind and name."""


_Key = tuple[str, str]
"""A kind and a name; further kinds are `namespace`, its `history`, and `operator`, which an upgrader rewrites."""


def settle_conflicts(plugins: Sequence[LoadedPlugin]) -> OwnedNames:
    """Decide which names each plugin owns."""
    disputes = _disputes(plugins)
    infos, provisions = [], []
    for plugin in plugins:
        refused, kept = list(plugin.info.refused), []
        if is_in_box(plugin.info):
            disputed: Mapping[_Key, str] = {}
        else:
            # Without one of its operators or steps, a history would be another one.
            disputed = disputes | {
                ("history", each.facts["namespace"]): disputes[key]
                for each in plugin.provisions
                for key in _keys(each)
                if each.kind == "opset_upgrader" and key in disputes
            }
        for each in plugin.provisions:
            lost = {key: disputed[key] for key in _keys(each) if key in disputed}
            apart = each.kind == "op_handler" and all(kind == "op_handler" for kind, _ in lost)
            names = (
                tuple(name for name in each.names if (each.kind, name) not in lost)
                if apart or not lost
                else ()
            )
            if lost:
                gone = tuple(name for name in each.names if name not in names)
                refused.append(Refusal(each.kind, gone, next(iter(lost.values())), is_conflict=True))
            if names:
                kept.append(replace(each, names=names))
        info = _info(plugin.info, kept, refused)
        infos.append(info)
        provisions += [(info, each) for each in kept]
    provisions.sort(key=lambda row: not is_in_box(row[0]))
    return OwnedNames(tuple(infos), tuple(provisions), _faults(infos, provisions))


def _keys(provision: Provision) -> Iterator[_Key]:
    """Yield what a provision needs for itself. Any number of plugins may declare a metadata key."""
    if provision.kind != "metadata_key":
        yield from ((provision.kind, name) for name in provision.names)
    if "namespace" in provision.facts:
        yield "namespace", provision.facts["namespace"]
    if provision.kind == "opset_upgrader":
        yield from (("operator", name) for name in provision.facts["operators"])
        yield "history", provision.facts["namespace"]


def _disputes(plugins: Sequence[LoadedPlugin]) -> dict[_Key, str]:
    """Return what plugins lose, because a built-in plugin has it or another plugin wants it, with the description."""
    box = [(plugin.info, each) for plugin in plugins if is_in_box(plugin.info) for each in plugin.provisions]
    kept = {key: info for info, each in box for key in _keys(each)}
    in_box = {name: row for row in box if row[1].kind == "op_handler" for name in row[1].names}
    found: dict[_Key, str] = {}
    wanted: dict[_Key, dict[object, PluginInfo]] = defaultdict(dict)
    handlers: dict[str, list[PluginInfo]] = defaultdict(list)
    for index, plugin in enumerate(plugins):
        for each in () if is_in_box(plugin.info) else plugin.provisions:
            for key in _keys(each):
                owner, handler = in_box.get(_prefix_in(in_box, key), (None, None))
                if key in kept or (owner is not None and handler is not None and _keeps(handler, key[1])):
                    found.setdefault(key, _registered_twice(key, kept.get(key) or owner, plugin.info))
                    continue
                # Plugins of one distribution share their namespaces; so do plugins that are given as objects.
                shared = key[0] in ("namespace", "operator", "history")
                wanted[key].setdefault(plugin.info.distribution if shared else index, plugin.info)
                if key[0] == "op_handler":
                    handlers[key[1]].append(plugin.info)
    for key, owners in wanted.items():
        # An operator below the prefix of another distribution is wanted by both.
        distributions = {each.distribution for each in owners.values()}
        around = [
            info
            for info in handlers.get(_prefix_in(handlers, key), ())
            if info.distribution not in distributions
        ]
        if len(rivals := [*around, *owners.values()]) > 1:
            found[key] = _registered_twice(key, *rivals[:2])
    return found


def _registered_twice(key: _Key, first: PluginInfo | None, second: PluginInfo) -> str:
    return f"the {key[0].replace('_', ' ')} {key[1]!r} is registered by {first} and by {second}"


def _prefix_in(handlers: Mapping[str, object], key: _Key) -> str:
    """Return the longest prefix in a table that covers an operator or a prefix; empty if none does."""
    kind, name = key
    if kind == "operator" and name in handlers:
        return name
    around = _prefixes_of(name) if kind in ("op_handler", "operator") else ()
    return next((each for each in around if each in handlers), "")


def _prefixes_of(name: str) -> Iterator[str]:
    """Yield the prefixes of a name or prefix that may belong to operator handlers, the longest first."""
    end = len(name) - 1
    while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
        yield name[: end + 1]


def _keeps(handler: Provision, name: str) -> bool:
    """Whether a handler keeps a name, or a prefix of names, below its prefixes, and does not leave it to others."""
    kept = handler.facts.get("keeps")
    return kept is None or any(_covers(each, name) or _covers(name, each) for each in kept)


def _covers(start: str, name: str) -> bool:
    return name == start or (start[-1] in ".:" and name.startswith(start))


def _faults(
    infos: Iterable[PluginInfo], provisions: Iterable[tuple[PluginInfo, Provision]]
) -> dict[tuple[str, str], UnavailableName]:
    owned = {(each.kind, name): (info, each) for info, each in provisions for name in each.names}
    prefixes = {name: None for kind, name in owned if kind == "op_handler"}
    faults: dict[tuple[str, str], UnavailableName] = {}
    for info in infos:
        for refusal in info.refused:
            for name in refusal.names:
                taken = (refusal.kind, name) in owned
                if refusal.kind == "op_handler" and not taken:
                    owner, handler = owned.get(
                        ("op_handler", _prefix_in(prefixes, ("op_handler", name))), (None, None)
                    )
                    # A refused plugin takes no operators from one that is in force, and nobody takes them from a built-in one.
                    taken = owner is not None and (is_in_box(owner) or not refusal.is_conflict)
                    taken = taken and handler is not None and _keeps(handler, name)
                if not taken:
                    faults.setdefault((refusal.kind, name), UnavailableName(info, refusal))
    return faults


def _info(info: PluginInfo, kept: Sequence[Provision], refused: Sequence[Refusal]) -> PluginInfo:
    names: dict[str, tuple[str, ...]] = {}
    for each in kept:
        names[each.kind] = (*names.get(each.kind, ()), *each.names)
    if info.status != "active" or not refused:
        return replace(info, names=names)
    reason = "; ".join(dict.fromkeys(refusal.reason for refusal in refused))
    hooks = info.hooks if names else ()
    status = "partial" if names else "broken"
    return replace(info, status=status, reason=reason, refused=tuple(refused), hooks=hooks, names=names)


def conflict_error(problem: str) -> errors.PluginConflictError:
    """Return the error for using a name that two plugins register."""
    return errors.PluginConflictError(problem, remedy=REMEDY_OF_CONFLICT)


# ------------------------------------------------ advice in error messages: what to do about each problem with a plugin


def remedy_for_plugin(plugin: PluginInfo, refusal: Refusal | None = None) -> str:
    """Describe why an installed plugin is not in force, and what to do.

    Args:
        plugin: the plugin.
        refusal: the part of it that is needed; all that it lacks if None.
    """
    reason = refusal.reason if refusal else plugin.reason
    if plugin.status == "blocked":
        return f"The {plugin} is blocked: {reason}. Allow it there"
    if any(each.is_conflict for each in ([refusal] if refusal else plugin.refused)):
        return f"The {plugin} is not in force: {reason}. {REMEDY_OF_CONFLICT}"
    return f"The {plugin} is broken: {reason}" + (
        "" if "update graphwire" in reason else f". {remedy_of_broken(plugin)}"
    )


_OF_BOX = {
    "op_handler": "ops",
    "treespec_serializer": "treespecs",
    "opset_upgrader": "opsets",
    "constant_codec": "constants",
    "weight_store": "stores",
}
"""The plugins that ship with graphwire, by the kind of what they provide."""


def remedy_for_name(registry: Registry, kind: str, name: str, otherwise: str) -> str:
    """Return what to do if no plugin provides a name, or, if the name is empty, if none has what is searched for.

    The advice concerns a plugin that registers the name, or a built-in plugin that is disabled.

    Args:
        otherwise: the advice if neither applies.
    """
    if not name:
        otherwise = ". ".join((otherwise, *remedies_of_broken(registry, kind)))
    elif fault := registry.fault_of(kind, name):
        return remedy_for_unavailable_name(fault)
    box = next((each for each in registry.plugins if is_in_box(each) and each.name == _OF_BOX[kind]), None)
    if box is None:
        return f"The registry lacks the plugin `{_OF_BOX[kind]}` of graphwire: `Registry.discover()` has it"
    return otherwise if box.status == "active" else remedy_for_plugin(box)


def remedies_of_broken(registry: Registry, kind: str) -> list[str]:
    """Return why each plugin that might have what nobody has is not in force, and what to do.

    Args:
        kind: what is searched for. A plugin of which nothing is known, since it cannot be imported, may provide anything.
    """
    found: dict[str, None] = {}
    for each in registry.plugins:
        known = [refusal for refusal in each.refused if refusal.kind == kind]
        if each.status == "broken" and not each.refused:
            found[remedy_for_plugin(each)] = None
        found |= {remedy_for_plugin(each, refusal): None for refusal in known}
    return [*found]


def remedy_for_unavailable_name(fault: UnavailableName) -> str:
    """Describe why a name that a plugin registers is unavailable, and what to do."""
    return remedy_for_plugin(fault.plugin, fault.refusal)


def unavailable_error(
    fault: UnavailableName, what: str, kind: type[errors.GraphwireError]
) -> errors.GraphwireError:
    """Return the error for using a name that a plugin registers and no plugin owns.

    Args:
        fault: why no plugin owns it.
        what: what needs it, such as `the operator torch.ops.acme.scale.default`.
        kind: the class of the error if the plugin is broken; a conflict is a `PluginConflictError`.
    """
    if fault.refusal.is_conflict:
        return conflict_error(f"{what} is not in force: {fault.refusal.reason}")
    return kind(f"{what} is not in force", remedy=remedy_for_unavailable_name(fault))


# -------------------------------------------- what a file needs of plugins, which of it is missing here, and what to do


OPERATOR = "op_handler"
_WHAT = {
    OPERATOR: "the operator",
    "treespec_serializer": "the container type",
    "constant_codec": "the codec",
    "weight_store": "the weight store",
    "wire_format": "the wire format",
}

E = TypeVar("E", bound=errors.MissingPluginError)
Missing: TypeAlias = list[tuple[PluginRequirement, list[str]]]
"""Distributions, and what is missing of what each provides, as `op_handler:NAME`."""


def missing_of(
    requirements: Iterable[PluginRequirement], registry: Registry, *, operators: bool = True
) -> Missing:
    """Return what plugins in force do not provide. Keys of metadata are kept without their plugin.

    Args:
        operators: whether to look at operators, too.
    """
    missing = []
    for requirement in requirements:
        asked = [each for each in requirement.provides if not each.startswith("metadata_key:")]
        asked = [each for each in asked if operators or not each.startswith(OPERATOR)]
        if lacking := [each for each in asked if not is_provided(each, requirement, registry)]:
            missing.append((requirement, lacking))
    return missing


def missing_error(
    missing: Missing,
    registry: Registry,
    places: Mapping[str, Sequence[str]],
    kind: type[E],
) -> E:
    """Return the error that lists everything that is missing, where it is needed, and what to do.

    Args:
        places: where each is needed, as far as that is known.
    """
    needs = [(requirement, [parts_of(name) for name in names]) for requirement, names in missing]
    remedies = [remedy_for_requirements(needs, registry)]
    if (
        any(name.startswith(OPERATOR) for _, names in missing for name in names)
        and kind is errors.MissingPluginError
    ):
        remedies.append('Or pass unknown_ops="opaque" to look at the graph without running it')
    problems = [
        errors.Problem(
            _shortened(places.get(name, ["plugins"])),
            "missing-plugin",
            f"{_label(name)} comes with {requirement.distribution} {requirement.version}",
        )
        for requirement, names in missing
        for name in names
    ]
    count = len({normal_name(requirement.distribution) for requirement, _ in missing})
    return kind(
        f"the program needs {count} plugin{'s that are' if count != 1 else ' that is'} not in force here",
        problems=problems,
        remedy=". ".join(remedies),
    )


def is_provided(provided: str, requirement: PluginRequirement, registry: Registry) -> bool:
    """Whether a plugin in force provides something. A built-in part does not replace another distribution's operator."""
    kind, name = parts_of(provided)
    owner = registry.owner_of(kind, name)
    if owner is None:
        return False
    # The built-in plugins have a handler for every operator's name, which finds those that somebody else registered with torch.
    return (
        kind != OPERATOR
        or not is_in_box(owner)
        or normal_name(requirement.distribution) == interfaces.PROJECT
    )


def parts_of(provided: str) -> tuple[str, str]:
    """Return the kind and the name of something that a plugin provides."""
    kind, _, name = provided.partition(":")
    return kind, name


def _label(provided: str) -> str:
    kind, name = parts_of(provided)
    return f"{_WHAT.get(kind, kind)} {name}"


def _shortened(places: Sequence[str]) -> str:
    most = 4
    first = [places[0], *(place.removeprefix("graph_module.graph.") for place in places[1:most])]
    return ", ".join(first) + (f" and {len(places) - most} more" if len(places) > most else "")


def remedy_for_requirements(
    wanted: Sequence[tuple[PluginRequirement, Sequence[tuple[str, str]]]], registry: Registry
) -> str:
    """Return what to do if distributions that a file names do not provide what the file needs.

    Args:
        wanted: the distributions, each with the kinds and names that are unavailable, as in `Registry.owner_of`.
        registry: the available plugins.
    """
    missing: list[PluginRequirement] = []
    remedies: list[str] = []
    for requirement, needs in wanted:
        remedy = _of_installed(requirement, needs, registry)
        if remedy is None:
            missing.append(requirement)
        else:
            remedies.append(remedy)
    if missing:
        remedies.insert(0, install_advice(missing))
    return ". ".join(dict.fromkeys(remedies))


def _of_installed(
    requirement: PluginRequirement, needs: Sequence[tuple[str, str]], registry: Registry
) -> str | None:
    """Return what to do about an installed distribution that lacks something; None if it is not installed."""
    faults = [fault for kind, name in needs if (fault := registry.fault_of(kind, name)) is not None]
    if faults:
        return ". ".join(dict.fromkeys(map(remedy_for_unavailable_name, faults)))
    wanted = normal_name(requirement.distribution)
    plugins = [each for each in registry.plugins if normal_name(each.distribution) == wanted]
    if not plugins:
        return None
    if off := [remedy_for_plugin(each) for each in plugins if each.status in ("blocked", "broken")]:
        return ". ".join(dict.fromkeys(off))
    name, has, version = plugins[0].distribution, plugins[0].version, requirement.version
    if is_older(has, version):
        return f"Update {name} ({has} is installed): the file says that it was written with {version}"
    lacking = ", ".join(sorted({name for _, name in needs})) or "this"
    return (
        f"{name} {has} is installed, which no longer has {lacking}; the file was written with {version}. Ask the authors of "
        f"{name}, or load it with that version"
    )


def is_older(version: str, than: str) -> bool | None:
    """Whether a version precedes another one; None if that cannot be determined."""
    one, other = (re.match(r"\d+(?:\.\d+)*", each) for each in (version, than))
    if one is None or other is None:
        return None
    numbers = [[int(number) for number in found[0].split(".")] for found in (one, other)]
    longest = max(map(len, numbers))
    first, second = (each + [0] * (longest - len(each)) for each in numbers)
    if first == second:  # a pre-release precedes the release; a local build does not
        return re.match(r"[.-]?(a|b|rc|dev)", version[one.end() :]) is not None and version != than
    return first < second
