"""What does a file need of plugins, which of it is missing here, and what is to be done about it?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from graphwire.errors import MissingPluginError, Problem
from graphwire.registry.discovery import (
    is_in_box,
    remedy_for_plugin,
    remedy_for_unavailable_name,
)
from graphwire.registry.entry_points import normal_name
from graphwire.registry.interfaces import PROJECT
from graphwire.registry.registry import Registry
from graphwire.schema import PluginRequirement, install_advice

OPERATOR = "op_handler"
_WHAT = {
    OPERATOR: "the operator",
    "treespec_serializer": "the container type",
    "constant_codec": "the codec",
    "weight_store": "the weight store",
    "wire_format": "the wire format",
}

E = TypeVar("E", bound=MissingPluginError)
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
        and kind is MissingPluginError
    ):
        remedies.append('Or pass unknown_ops="opaque" to look at the graph without running it')
    problems = [
        Problem(
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
    return kind != OPERATOR or not is_in_box(owner) or normal_name(requirement.distribution) == PROJECT


def parts_of(provided: str) -> tuple[str, str]:
    """Return the kind and the name of something that a plugin provides."""
    kind, _, name = provided.partition(":")
    return kind, name


def _label(provided: str) -> str:
    kind, name = parts_of(provided)
    return f"{_WHAT.get(kind, kind)} {name}"


def _shortened(places: Sequence[str], most: int = 4) -> str:
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
