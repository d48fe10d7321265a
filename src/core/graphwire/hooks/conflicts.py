"""Conflicts between plugins: who has a name that several claim. A dispute costs the disputed name alone, on both sides; what
ships in the box keeps its names, namespaces and operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from graphwire.errors import PluginConflictError
from graphwire.hooks.discovery import BLOCK_VARIABLE, LoadedPlugin, PluginInfo, is_in_box
from graphwire.hooks.provisions import Provision, Refusal, step_name


class UnavailableName(NamedTuple):
    """Why a name that a plugin claims is not in force."""

    plugin: PluginInfo
    refusal: Refusal


class OwnedNames(NamedTuple):
    """Plugins, and who has what."""

    infos: tuple[PluginInfo, ...]
    """The plugins, with what each has, and what not."""
    provisions: tuple[tuple[PluginInfo, Provision], ...]
    """What is in force, those in the box first, with the names that it has."""
    faults: Mapping[tuple[str, str], UnavailableName]
    """Names that some plugin would have and none has, by kind and name."""
    disputes: tuple[tuple[frozenset[int], str], ...]
    """Each dispute: the plugins in it, by position, and what it is about."""


def conflict_of(what: str, first: PluginInfo | None, second: PluginInfo | None) -> str:
    """What is wrong where two plugins claim one thing."""
    return f"the {what} is claimed by {first} and by {second}"


def conflict_error(problem: str) -> PluginConflictError:
    """The error for whoever needs what two plugins claim."""
    return PluginConflictError(problem, remedy=f"Uninstall one, or name it in {BLOCK_VARIABLE}")


class _Claim:
    """A provision while it is decided what it has."""

    def __init__(self, owner: int, provision: Provision, *, box: bool) -> None:
        self.owner = owner
        self.provision = provision
        self.box = box
        self.lost: dict[str, str] = {}
        """Names that it does not have, with the reasons."""
        self.rivals = False
        """Whether it lost one to a plugin that lost it, too."""

    @property
    def kind(self) -> str:
        return self.provision.kind

    @property
    def names(self) -> list[str]:
        return [name for name in self.provision.names if name not in self.lost]

    def lose(self, reason: str, name: str | None = None) -> None:
        """Lose a name; all of them where it is None, or where a provider is of use with all its names only."""
        whole = name is None or self.kind != "op_handler"
        for each in self.provision.names if whole else [str(name)]:
            self.lost.setdefault(each, reason)


def settle_conflicts(plugins: Sequence[LoadedPlugin]) -> OwnedNames:
    """Decide what each of some plugins has."""
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

    # What is alike is decided in turn: a claim that is lost already takes nothing from anybody.
    _settle_namespaces(claims, dispute)
    _settle_names(claims, dispute)
    _settle_prefixes(claims, dispute, [info.distribution for info in infos])
    _settle_steps(plugins, claims)
    return _settled(plugins, claims, tuple(disputes))


_Dispute = Callable[..., None]
"""What notes a dispute: what it is about, who has it all the same, who loses it, and the name."""


def _settle_namespaces(claims: Sequence[_Claim], dispute: _Dispute) -> None:
    """A namespace of the box is the box's; the handlers of any other agree on its version."""
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
    """A name that several claim is the box's, or nobody's."""
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
    """Nobody takes operators from another by a longer prefix of their names."""
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
    """The prefixes of a name, or of a longer prefix, the longest first."""
    end = len(name) - 1
    while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
        if found := table.get(name[: end + 1]):
            yield name[: end + 1], found


def _kept_by(table: Mapping[str, _Claim], name: str) -> _Claim | None:
    """Who keeps a name, or a start of names, from all others: the handler that has it, unless it leaves it to anybody."""
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
    """A step of which a part is lost is lost: without the part it would be another step, and nobody would see it."""
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
    """Steps up that no plugin has, between two that some have: nobody knows what changed there. By plugin."""
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
        (infos[claim.owner], claim.provision._replace(names=tuple(claim.names)))
        for claim in order
        if claim.names
    )
    had = {(provision.kind, name) for _, provision in provisions for name in provision.names}
    kept = {name: claim for claim in claims if claim.kind == "op_handler" for name in claim.names}
    faults: dict[tuple[str, str], UnavailableName] = {}
    for info in infos:
        for refusal in info.refused:
            for name in refusal.names:
                # A name of somebody else's is not lost because another one wants it.
                if (refusal.kind, name) in had or (refusal.kind == "op_handler" and _kept_by(kept, name)):
                    continue
                faults.setdefault((refusal.kind, name), UnavailableName(info, refusal))
    return OwnedNames(tuple(infos), provisions, MappingProxyType(faults), disputes)


def _info(info: PluginInfo, claims: Sequence[_Claim]) -> PluginInfo:
    """What is known of a plugin when it is decided what it has."""
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
