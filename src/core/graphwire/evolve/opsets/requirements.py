"""Determines the plugins that a program needs: reports missing ones and updates the list after a rewrite.

A document records which distribution provides each operator, container type and codec that it uses (`Program.plugins`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from graphwire.errors import MissingPluginError, Problem
from graphwire.evolve.opsets.graph_names import walk_nodes
from graphwire.hooks import Registry, remedy_for_requirements
from graphwire.schema import PluginRequirement, Program
from graphwire.schema.texts import parse_treespec, split_version, treespec_nodes

_OWN = "graphwire"
_OPERATOR = "op_handler"
_TYPE = "treespec_serializer"
_WHAT = {
    _OPERATOR: "the operator",
    _TYPE: "the container type",
    "constant_codec": "the codec",
}


class MissingPlugin(NamedTuple):
    """A distribution that a program needs and whose plugin is not in force here."""

    requirement: PluginRequirement
    provides: tuple[str, ...]
    """What is missing from it: `KIND:NAME`."""

    @property
    def needs(self) -> list[tuple[str, str]]:
        """What is missing from it, as pairs of kind and name."""
        return [(kind, name) for kind, _, name in (each.partition(":") for each in self.provides)]


def missing_plugins(program: Program, registry: Registry, *, operators: bool = True) -> list[MissingPlugin]:
    """Return the plugins that a program needs and that are not in force.

    Args:
        operators: whether to include plugins that provide only operators.
    """
    missing = []
    for requirement in program.plugins:
        lacking = tuple(
            each
            for each in requirement.provides
            if (operators or not each.startswith(_OPERATOR)) and not _provided(each, requirement, registry)
        )
        if lacking:
            missing.append(MissingPlugin(requirement, lacking))
    return missing


def check_plugins(program: Program, registry: Registry, *, operators: bool = True) -> None:
    """Check that all plugins of a program are in force.

    Args:
        operators: whether to include plugins that provide only operators.

    Raises:
        MissingPluginError: plugins are missing. The message lists all of them, what each is needed for, at which nodes, and
            what to do.
    """
    missing = missing_plugins(program, registry, operators=operators)
    if not missing:
        return
    places = _places(program, {name for each in missing for name in each.provides})
    remedies = [remedy_for_requirements([(each.requirement, each.needs) for each in missing], registry)]
    if any(name.startswith(_OPERATOR) for each in missing for name in each.provides):
        remedies.append('Or pass unknown_ops="opaque" to look at the graph without running it')
    problems = [
        Problem(
            _shortened(places.get(name, ["plugins"])),
            "missing-plugin",
            f"{_label(name)} comes with {each.requirement.distribution} {each.requirement.version}",
        )
        for each in missing
        for name in each.provides
    ]
    count = len(missing)
    raise MissingPluginError(
        f"the program needs {count} plugin{'s that are' if count != 1 else ' that is'} not in force here",
        problems=problems,
        remedy=". ".join(remedies),
    )


def kept_requirements(
    program: Program, registry: Registry, namespaces: Collection[str]
) -> tuple[PluginRequirement, ...]:
    """Return what a program needs for operators that are only kept here.

    Args:
        namespaces: namespaces whose operators are kept although a plugin here provides them in another version.
    """
    kept = []
    for requirement in program.plugins:
        names = []
        for each in requirement.provides:
            kind, _, name = each.partition(":")
            handler = registry.op_handler(name) if kind == _OPERATOR else None
            foreign = handler is not None and handler.namespace in namespaces
            if kind == _OPERATOR and (foreign or not _provided(each, requirement, registry)):
                names.append(each)
        if names:
            kept.append(PluginRequirement(requirement.distribution, requirement.version, names))
    return tuple(kept)


def with_requirements(program: Program, registry: Registry) -> Program:
    """Update the list of plugins of a program after its operators were rewritten."""
    needed: dict[tuple[str, str], set[str]] = {}
    for requirement in program.plugins:
        kept = {each for each in requirement.provides if not each.startswith(f"{_OPERATOR}:")}
        if kept:
            needed.setdefault((requirement.distribution, requirement.version), set()).update(kept)
    recorded = {each: requirement for requirement in program.plugins for each in requirement.provides}
    for name in {node.target for _, node in walk_nodes(program.graph_module.graph)}:
        owner = registry.owner_of(_OPERATOR, name)
        provided = f"{_OPERATOR}:{name}"
        if owner is not None and owner.distribution and _normal(owner.distribution) != _OWN:
            needed.setdefault((owner.distribution, owner.version), set()).add(provided)
        elif provided in recorded:
            requirement = recorded[provided]
            needed.setdefault((requirement.distribution, requirement.version), set()).add(provided)
    plugins = [
        PluginRequirement(distribution, version, sorted(names))
        for (distribution, version), names in sorted(needed.items())
    ]
    return replace(program, plugins=plugins)


def _provided(provided: str, requirement: PluginRequirement, registry: Registry) -> bool:
    """Report whether a plugin in force provides something. A built-in part does not replace another distribution's operator."""
    kind, _, name = provided.partition(":")
    owner = registry.owner_of(kind, name)
    if owner is None:
        return False
    # The built-in plugins have a handler for every operator's name, which finds those that somebody else registered with torch.
    return (
        kind != _OPERATOR or _normal(owner.distribution) != _OWN or _normal(requirement.distribution) == _OWN
    )


def _places(program: Program, names: set[str]) -> dict[str, list[str]]:
    """Return the places where each of some names is used, as far as the graph shows them."""
    places: dict[str, list[str]] = {}
    for place, node in walk_nodes(program.graph_module.graph):
        if (name := f"{_OPERATOR}:{node.target}") in names:
            places.setdefault(name, []).append(place)
    for key, value in program.encoded_values.items():
        if (name := f"constant_codec:{value.codec}") in names:
            places.setdefault(name, []).append(f"encoded_values[{key!r}]")
    if any(name.startswith(f"{_TYPE}:") for name in names):
        for place, text in _treespecs(program):
            for each in sorted(
                {node.type for _, node, _ in treespec_nodes(parse_treespec(text)) if node.type}
            ):
                if (name := f"{_TYPE}:{split_version(each)[0]}") in names:
                    places.setdefault(name, []).append(place)
    return places


def _treespecs(program: Program) -> Iterator[tuple[str, str]]:
    for index, call in enumerate(program.graph_module.module_call_graph):
        if call.signature is not None:
            place = f"graph_module.module_call_graph[{index}].signature"
            yield f"{place}.in_spec", call.signature.in_spec
            yield f"{place}.out_spec", call.signature.out_spec


def _shortened(places: Sequence[str], most: int = 4) -> str:
    first = [places[0], *(place.removeprefix("graph_module.graph.") for place in places[1:most])]
    return ", ".join(first) + (f" and {len(places) - most} more" if len(places) > most else "")


def _label(provided: str) -> str:
    kind, _, name = provided.partition(":")
    return f"{_WHAT.get(kind, kind)} {name}"


def _normal(name: str) -> str:
    """Normalize a name as packaging compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
