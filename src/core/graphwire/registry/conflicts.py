"""Resolution of conflicts between plugins that claim the same name.

A conflict disables only the disputed name, on both sides. Built-in plugins keep their names, namespaces and operators.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from graphwire.errors import GraphwireError, PluginConflictError
from graphwire.registry.discovery import BLOCK_VARIABLE, LoadedPlugin, PluginInfo, is_in_box, normal_name
from graphwire.registry.provisions import Provision, Refusal, step_name
from graphwire.schema import PluginRequirement, install_advice

if TYPE_CHECKING:
    from graphwire.registry.registry import Registry


class UnavailableName(msgspec.Struct, frozen=True):
    """Why a name that a plugin claims is unavailable."""

    plugin: PluginInfo
    refusal: Refusal


class OwnedNames(msgspec.Struct, frozen=True):
    """The result of conflict resolution: which plugin owns which names."""

    infos: tuple[PluginInfo, ...]
    """The plugins, each with the names that it owns and those that it lost."""
    provisions: tuple[tuple[PluginInfo, Provision], ...]
    """The usable provisions with the names that they own, built-in ones first."""
    faults: Mapping[tuple[str, str], UnavailableName]
    """Names that some plugin claims and no plugin owns, by kind and name."""
    disputes: tuple[tuple[frozenset[int], str], ...]
    """Each conflict: the positions of the plugins involved, and its description."""


def conflict_of(what: str, first: PluginInfo | None, second: PluginInfo | None) -> str:
    """Return the description of a conflict: two plugins claim one thing."""
    return f"the {what} is claimed by {first} and by {second}"


def conflict_error(problem: str) -> PluginConflictError:
    """Return the error for using a name that two plugins claim."""
    return PluginConflictError(problem, remedy=f"Uninstall one, or name it in {BLOCK_VARIABLE}")


class _Claim:
    """A provision during conflict resolution, with the names that it has lost so far."""

    def __init__(self, owner: int, provision: Provision, *, box: bool) -> None:
        self.owner = owner
        self.provision = provision
        self.box = box
        self.lost: dict[str, str] = {}
        """The names that it lost, with the reasons."""
        self.rivals = False
        """Whether it lost a name to a plugin that lost that name, too."""

    @property
    def kind(self) -> str:
        return self.provision.kind

    @property
    def names(self) -> list[str]:
        return [name for name in self.provision.names if name not in self.lost]

    def lose(self, reason: str, name: str | None = None) -> None:
        """Lose a name; all names if it is None, or if the provider is only useful with all its names."""
        whole = name is None or self.kind != "op_handler"
        for each in self.provision.names if whole else [str(name)]:
            self.lost.setdefault(each, reason)


def settle_conflicts(plugins: Sequence[LoadedPlugin]) -> OwnedNames:
    """Decide which names each plugin owns."""
    claims = [
        _Claim(index, provision, box=is_in_box(plugin.info))
        for index, plugin in enumerate(plugins)
        for provision in plugin.provisions
    ]
    infos = [plugin.info for plugin in plugins]
    disputes: list[tuple[frozenset[int], str]] = []

    def dispute(
        what: str, winners: Iterable[_Claim], losers: Sequence[_Claim], name: str | None = None
    ) -> None:
        first, second = (*winners, *losers)[:2]
        reason = conflict_of(what, infos[first.owner], infos[second.owner])
        disputes.append((frozenset({first.owner, *(each.owner for each in losers)}), reason))
        for loser in losers:
            loser.lose(reason, name)
            loser.rivals = loser.rivals or first in losers

    # The order matters: a claim that is already lost takes no names from other claims.
    _settle_namespaces(claims, dispute)
    _settle_names(claims, dispute)
    _settle_prefixes(claims, dispute, [info.distribution for info in infos])
    _settle_steps(plugins, claims)
    return _settled(plugins, claims, tuple(disputes))


_Dispute = Callable[..., None]
"""Records a conflict. Takes its description, the claims that keep the name, those that lose it, and the name."""


def _settle_namespaces(claims: Sequence[_Claim], dispute: _Dispute) -> None:
    """Settle namespaces: built-in plugins own theirs; the handlers of any other must agree on its version."""
    box: dict[str, _Claim] = {}
    handlers: dict[str, list[_Claim]] = defaultdict(list)
    kept: dict[str, _Claim] = {}
    for claim in claims:
        if claim.box and claim.kind in ("op_handler", "opset_upgrader"):
            box.setdefault(claim.provision.facts["namespace"], claim)
        if claim.box and claim.kind == "op_handler":
            kept.update(dict.fromkeys(claim.names, claim))
    for claim in claims:
        if claim.box or claim.kind not in ("op_handler", "opset_upgrader"):
            continue
        facts = claim.provision.facts
        if owner := box.get(facts["namespace"]):
            dispute(f"namespace {facts['namespace']!r}", [owner], [claim])
        elif taken := next((each for each in facts.get("operators", ()) if _kept_by(kept, each)), None):
            dispute(f"operator {taken!r}", [_kept_by(kept, taken)], [claim])
        elif claim.kind == "op_handler":
            handlers[facts["namespace"]].append(claim)
    for namespace, rivals in handlers.items():
        versions = {claim.provision.facts["opset_version"]: claim for claim in reversed(rivals)}
        if len(versions) > 1:
            one, other = sorted(versions)[:2]
            pair = [versions[one], versions[other]]
            what = f"namespace {namespace!r}, in the versions {one} and {other},"
            dispute(what, (), [*pair, *(claim for claim in rivals if claim not in pair)])


def _settle_names(claims: Sequence[_Claim], dispute: _Dispute) -> None:
    """Settle names with several claims: the built-in plugin owns the name, otherwise no plugin does."""
    claimants: dict[tuple[str, str], list[_Claim]] = defaultdict(list)
    for claim in claims:
        if claim.kind != "metadata_key":  # any number of plugins may declare one
            for name in claim.names:
                claimants[claim.kind, name].append(claim)
    for (kind, name), rivals in claimants.items():
        if len(rivals) > 1:
            box = [claim for claim in rivals if claim.box]
            what = f"{kind.replace('_', ' ')} {name!r}"
            dispute(what, box, [claim for claim in rivals if not claim.box] if box else rivals, name)


def _settle_prefixes(claims: Sequence[_Claim], dispute: _Dispute, distributions: Sequence[str]) -> None:
    """Settle prefixes: no plugin takes operators from another by claiming a longer prefix of their names."""
    table = {name: claim for claim in claims if claim.kind == "op_handler" for name in claim.names}
    for prefix, claim in sorted(table.items(), key=lambda row: len(row[0])):
        others = {
            outer: other
            for outer, other in _around(table, prefix)
            if outer not in other.lost
            and other.owner != claim.owner
            and not (distributions[other.owner] and distributions[other.owner] == distributions[claim.owner])
        }
        if not claim.box and (owner := _kept_by(others, prefix)):
            dispute(f"op handler {prefix!r}", [owner], [claim], prefix)


def _around(table: Mapping[str, _Claim], name: str) -> Iterable[tuple[str, _Claim]]:
    """Yield the table's prefixes of a name or prefix, the longest first."""
    end = len(name) - 1
    while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
        if found := table.get(name[: end + 1]):
            yield name[: end + 1], found


def _kept_by(table: Mapping[str, _Claim], name: str) -> _Claim | None:
    """Return the handler that owns a name or prefix exclusively; None if there is none, or if it leaves the name to
    others."""
    if found := table.get(name):
        return found
    for _, found in _around(table, name):
        kept = found.provision.facts.get("keeps")
        if kept is None or any(_covers(each, name) or _covers(name, each) for each in kept):
            return found
        return None
    return None


def _covers(start: str, name: str) -> bool:
    return name == start or (start[-1] in ".:" and name.startswith(start))


def _settle_steps(plugins: Sequence[LoadedPlugin], claims: Sequence[_Claim]) -> None:
    """Settle opset steps: a step that lost a part is lost, since without that part it would be a different step."""
    lost: dict[tuple[int, str], str] = {}
    for index, plugin in enumerate(plugins):
        for refusal in plugin.info.refused:
            if refusal.kind == "opset_upgrader" and refusal.names:
                lost[index, _step_of(refusal.names[0])] = refusal.reason
    disputed: dict[str, str] = {}
    steps = [claim for claim in claims if claim.kind == "opset_upgrader"]
    for claim in steps:
        step = _step_of(claim.provision.names[0])
        if claim.lost and claim.rivals:
            disputed.setdefault(step, next(iter(claim.lost.values())))
        elif claim.lost:
            lost.setdefault((claim.owner, step), next(iter(claim.lost.values())))
    for claim in steps:
        step = _step_of(claim.provision.names[0])
        if not claim.box and (reason := disputed.get(step) or lost.get((claim.owner, step))):
            claim.lose(reason)


def _gaps(plugins: Sequence[LoadedPlugin], claims: Sequence[_Claim]) -> dict[int, list[Refusal]]:
    """Return missing upgrade steps between two that exist, by plugin. Nobody knows what changed there."""
    owners: dict[tuple[str, int], list[int]] = defaultdict(list)
    for claim in claims:
        facts = claim.provision.facts
        if claim.kind == "opset_upgrader" and facts["to_version"] > facts["from_version"]:
            owners[facts["namespace"], facts["from_version"]].append(claim.owner)
    told = {
        name for plugin in plugins for refusal in plugin.info.refused for name in map(_step_of, refusal.names)
    }
    found: dict[int, list[Refusal]] = defaultdict(list)
    for namespace in {namespace for namespace, _ in owners}:
        known = sorted(version for each, version in owners if each == namespace)
        for version in range(known[0], known[-1]):
            name = step_name(namespace, version, version + 1)
            if (namespace, version) in owners or name in told:
                continue
            last = max(each for each in known if each < version)
            reason = f"the history of {namespace!r} has no step from {version} to {version + 1}"
            for owner in set(owners[namespace, last]):
                found[owner].append(Refusal("opset_upgrader", (name,), reason))
            break
    return found


def _step_of(name: str) -> str:
    return " ".join(name.split(" ")[:2])


def _settled(
    plugins: Sequence[LoadedPlugin],
    claims: Sequence[_Claim],
    disputes: tuple[tuple[frozenset[int], str], ...],
) -> OwnedNames:
    infos = []
    gaps = _gaps(plugins, claims)
    for index, plugin in enumerate(plugins):
        own = [claim for claim in claims if claim.owner == index]
        info = replace(plugin.info, refused=(*plugin.info.refused, *gaps.get(index, ())))
        infos.append(_info(info, own) if plugin.info.status == "active" else plugin.info)
    order = sorted(claims, key=lambda claim: not claim.box)
    provisions = tuple(
        (infos[claim.owner], replace(claim.provision, names=tuple(claim.names)))
        for claim in order
        if claim.names
    )
    had = {(provision.kind, name) for _, provision in provisions for name in provision.names}
    kept = {name: claim for claim in claims if claim.kind == "op_handler" for name in claim.names}
    faults: dict[tuple[str, str], UnavailableName] = {}
    for info in infos:
        for refusal in info.refused:
            for name in refusal.names:
                # A name owned by one plugin is not unavailable because another claims it.
                if (refusal.kind, name) in had or (refusal.kind == "op_handler" and _kept_by(kept, name)):
                    continue
                faults.setdefault((refusal.kind, name), UnavailableName(info, refusal))
    return OwnedNames(tuple(infos), provisions, MappingProxyType(faults), disputes)


def _info(info: PluginInfo, claims: Sequence[_Claim]) -> PluginInfo:
    """Return a plugin's info after conflict resolution."""
    refused = list(info.refused)
    for claim in claims:
        for reason in dict.fromkeys(claim.lost.values()):
            names = tuple(name for name in claim.provision.names if claim.lost.get(name) == reason)
            refused.append(Refusal(claim.kind, names, reason, is_conflict=True))
    had: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        if claim.names:
            had[claim.kind] = (*had.get(claim.kind, ()), *claim.names)
    if not refused:
        return replace(info, names=had)
    reason = "; ".join(dict.fromkeys(refusal.reason for refusal in refused))
    if not had:
        return replace(info, status="broken", reason=reason, refused=tuple(refused), hooks=(), names={})
    return replace(info, status="partial", reason=reason, refused=tuple(refused), names=had)


# ------------------------------------------------ advice in error messages: what to do about each problem with a plugin


def remedy_for_plugin(plugin: PluginInfo, what: str = "") -> str:
    """Describe the problem of an installed plugin that is not fully usable, and what to do.

    Args:
        plugin: the plugin.
        what: a name that is needed from it; other problems of the plugin are omitted.
    """
    refused = [each for each in plugin.refused if not what or what in each.names] or list(plugin.refused)
    reason = "; ".join(dict.fromkeys(map(str, refused))) or plugin.reason
    if plugin.status == "blocked":
        return f"The {plugin} is blocked: {reason}. Allow it there"
    if any(each.is_conflict for each in refused):
        return f"The {plugin} is not in force: {reason}. Uninstall one, or name it in {BLOCK_VARIABLE}"
    if "update graphwire" in reason:
        return f"The {plugin} is broken: {reason}"
    state = "broken" if plugin.status == "broken" else "partly unusable"
    return f"The {plugin} is {state}: {reason}. Repair or update it"


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


def remedy_for_unavailable_name(fault: UnavailableName) -> str:
    """Describe why a name that a plugin claims is unavailable, and what to do."""
    return remedy_for_plugin(fault.plugin, fault.refusal.names[0])


def unavailable_error(fault: UnavailableName, what: str, kind: type[GraphwireError]) -> GraphwireError:
    """Return the error for using a name that a plugin claims and no plugin owns.

    Args:
        fault: why no plugin owns it.
        what: what needs it, such as `the operator torch.ops.acme.scale.default`.
        kind: the class of the error if the plugin is broken; a conflict is a `PluginConflictError`.
    """
    if fault.refusal.is_conflict:
        remedy = f"Uninstall one, or name it in {BLOCK_VARIABLE}"
        return PluginConflictError(f"{what} is not in force: {fault.refusal.reason}", remedy=remedy)
    return kind(f"{what} is not in force", remedy=remedy_for_unavailable_name(fault))
