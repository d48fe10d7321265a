"""Advice in error messages: what to do about each problem with a plugin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphwire.errors import GraphwireError, PluginConflictError
from graphwire.hooks.conflicts import UnavailableName
from graphwire.hooks.discovery import BLOCK_VARIABLE, PluginInfo, is_in_box, normal_name
from graphwire.schema import PluginRequirement, install_advice

if TYPE_CHECKING:
    from graphwire.hooks.registry import Registry


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
