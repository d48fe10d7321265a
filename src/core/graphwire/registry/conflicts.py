"""Which plugin owns which names.

Two plugins that want one name: nobody has it until one of them is disabled; everything else of both works. Built-in plugins
keep their names. A namespace, with its operators and its history, is one name, and belongs to one distribution.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from graphwire.errors import GraphwireError, PluginConflictError
from graphwire.registry.discovery import (
    REMEDY_OF_BROKEN,
    REMEDY_OF_CONFLICT,
    LoadedPlugin,
    PluginInfo,
    Refusal,
    is_in_box,
    normal_name,
)
from graphwire.registry.provisions import Provision, error_text
from graphwire.schema import PluginRequirement, install_advice

if TYPE_CHECKING:
    from graphwire.registry.registry import Registry


class UnavailableName(NamedTuple):
    """Why a name that a plugin claims is unavailable."""

    plugin: PluginInfo
    refusal: Refusal


class OwnedNames(NamedTuple):
    """Which plugin owns which names."""

    infos: tuple[PluginInfo, ...]
    """The plugins, each with the names that it owns and those that it lost."""
    provisions: tuple[tuple[PluginInfo, Provision], ...]
    """The usable provisions with the names that they own, built-in ones first."""
    faults: Mapping[tuple[str, str], UnavailableName]
    """Names that some plugin claims and no plugin owns, by kind and name."""


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
                    found.setdefault(key, _claimed(key, kept.get(key) or owner, plugin.info))
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
            found[key] = _claimed(key, *rivals[:2])
    return found


def _claimed(key: _Key, first: PluginInfo | None, second: PluginInfo) -> str:
    return f"the {key[0].replace('_', ' ')} {key[1]!r} is claimed by {first} and by {second}"


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


def conflict_error(problem: str) -> PluginConflictError:
    """Return the error for using a name that two plugins claim."""
    return PluginConflictError(problem, remedy=REMEDY_OF_CONFLICT)


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
        "" if "update graphwire" in reason else f". {REMEDY_OF_BROKEN}"
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
    """Return what to do if no plugin provides a name.

    The advice concerns a plugin that claims the name, or a built-in plugin that is disabled.

    Args:
        otherwise: the advice if neither applies.
    """
    if fault := registry.fault_of(kind, name):
        return remedy_for_unavailable_name(fault)
    box = next((each for each in registry.plugins if is_in_box(each) and each.name == _OF_BOX[kind]), None)
    if box is None:
        return f"The registry lacks the plugin `{_OF_BOX[kind]}` of graphwire: `Registry.discover()` has it"
    return otherwise if box.status == "active" else remedy_for_plugin(box)


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


@contextmanager
def calling(
    owner: PluginInfo | None, what: str, kind: type[GraphwireError], *passing: type[Exception]
) -> Iterator[None]:
    """Name the plugin, and what to do, in what the block raises, which calls a provider of the plugin.

    Args:
        owner: the plugin. What a built-in one raises passes unchanged.
        what: what is called, such as ``"`find` of the weight store 'zarr'"``.
        kind: the class that foreign exceptions become.
        passing: exceptions that pass unchanged, besides each `GraphwireError`.
    """
    try:
        yield
    except Exception as error:
        if owner is None or is_in_box(owner) or isinstance(error, (GraphwireError, *passing)):
            raise
        raise kind(f"{what} of {owner} fails: {error_text(error)}", remedy=REMEDY_OF_BROKEN) from error


def remedy_for_unavailable_name(fault: UnavailableName) -> str:
    """Describe why a name that a plugin claims is unavailable, and what to do."""
    return remedy_for_plugin(fault.plugin, fault.refusal)


def unavailable_error(fault: UnavailableName, what: str, kind: type[GraphwireError]) -> GraphwireError:
    """Return the error for using a name that a plugin claims and no plugin owns.

    Args:
        fault: why no plugin owns it.
        what: what needs it, such as `the operator torch.ops.acme.scale.default`.
        kind: the class of the error if the plugin is broken; a conflict is a `PluginConflictError`.
    """
    if fault.refusal.is_conflict:
        return conflict_error(f"{what} is not in force: {fault.refusal.reason}")
    return kind(f"{what} is not in force", remedy=remedy_for_unavailable_name(fault))
