"""Determines the plugins that a program needs: reports missing ones and updates the list after a rewrite.

A document records which distribution provides each operator, container type and codec that it uses (`Program.plugins`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from graphwire.errors import MissingPluginError, OpsetError, Problem
from graphwire.evolve.plain_values import walk_nodes
from graphwire.registry import Registry, remedy_for_requirements
from graphwire.schema import PluginRequirement, Program
from graphwire.schema.texts.treespec import parse_treespec, split_version, treespec_nodes

_OWN = "graphwire"
_OPERATOR = "op_handler"
_TYPE = "treespec_serializer"
_WHAT = {
    _OPERATOR: "the operator",
    _TYPE: "the container type",
    "constant_codec": "the codec",
    "weight_store": "the weight store",
}


def check_plugins(
    program: Program,
    registry: Registry,
    *,
    operators: bool = True,
    stores: Sequence[PluginRequirement] = (),
) -> None:
    """Check that all plugins of a program are in force.

    Args:
        operators: whether to include plugins that provide only operators.
        stores: the plugins of the weight stores that the file refers to.

    Raises:
        MissingPluginError: plugins are missing. The message lists all of them, what each is needed for, at which nodes, and
            what to do.
    """
    missing = []
    for requirement in (*program.plugins, *stores):
        asked = (each for each in requirement.provides if operators or not each.startswith(_OPERATOR))
        if lacking := [each for each in asked if not _provided(each, requirement, registry)]:
            missing.append((requirement, lacking))
    if not missing:
        return
    listed = [(name, requirement) for requirement, names in missing for name in names]
    places = _places(program, {name for name, _ in listed})
    places |= {name: ["weights"] for each in stores for name in each.provides}
    needs = [(requirement, [_parts(name) for name in names]) for requirement, names in missing]
    remedies = [remedy_for_requirements(needs, registry)]
    if any(name.startswith(_OPERATOR) for name, _ in listed):
        remedies.append('Or pass unknown_ops="opaque" to look at the graph without running it')
    problems = [
        Problem(
            _shortened(places.get(name, ["plugins"])),
            "missing-plugin",
            f"{_label(name)} comes with {requirement.distribution} {requirement.version}",
        )
        for name, requirement in listed
    ]
    count = len({_normal(requirement.distribution) for requirement, _ in missing})
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
            kind, name = _parts(each)
            handler = registry.op_handler(name) if kind == _OPERATOR else None
            foreign = handler is not None and handler.namespace in namespaces
            if kind == _OPERATOR and (foreign or not _provided(each, requirement, registry)):
                names.append(each)
        if names:
            kept.append(PluginRequirement(requirement.distribution, requirement.version, names))
    return tuple(kept)


def with_requirements(program: Program, registry: Registry) -> Program:
    """Update the list of plugins of a program after its operators were rewritten."""
    needed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    recorded: dict[str, tuple[str, str]] = {}
    for requirement in program.plugins:
        for provided in requirement.provides:
            recorded[provided] = requirement.distribution, requirement.version
            if not provided.startswith(f"{_OPERATOR}:"):
                needed[recorded[provided]].add(provided)
    for name in {node.target for _, node in walk_nodes(program.graph_module.graph)}:
        owner = registry.owner_of(_OPERATOR, name)
        provided = f"{_OPERATOR}:{name}"
        if owner is not None and owner.distribution and _normal(owner.distribution) != _OWN:
            needed[owner.distribution, owner.version].add(provided)
        elif provided in recorded:
            needed[recorded[provided]].add(provided)
    plugins = [
        PluginRequirement(distribution, version, sorted(names))
        for (distribution, version), names in sorted(needed.items())
    ]
    return replace(program, plugins=plugins)


def _provided(provided: str, requirement: PluginRequirement, registry: Registry) -> bool:
    """Report whether a plugin in force provides something. A built-in part does not replace another distribution's operator."""
    kind, name = _parts(provided)
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

    def note(kind: str, name: str, place: str) -> None:
        if f"{kind}:{name}" in names:
            places.setdefault(f"{kind}:{name}", []).append(place)

    for place, node in walk_nodes(program.graph_module.graph):
        note(_OPERATOR, node.target, place)
    for key, value in program.encoded_values.items():
        note("constant_codec", value.codec, f"encoded_values[{key!r}]")
    if any(name.startswith(f"{_TYPE}:") for name in names):
        for index, call in enumerate(program.graph_module.module_call_graph):
            for side in ("in_spec", "out_spec") if call.signature is not None else ():
                spec = parse_treespec(getattr(call.signature, side))
                for name in sorted({node.type for _, node, _ in treespec_nodes(spec) if node.type}):
                    place = f"graph_module.module_call_graph[{index}].signature.{side}"
                    note(_TYPE, split_version(name)[0], place)
    return places


def _shortened(places: Sequence[str], most: int = 4) -> str:
    first = [places[0], *(place.removeprefix("graph_module.graph.") for place in places[1:most])]
    return ", ".join(first) + (f" and {len(places) - most} more" if len(places) > most else "")


def _label(provided: str) -> str:
    kind, name = _parts(provided)
    return f"{_WHAT.get(kind, kind)} {name}"


def _parts(provided: str) -> tuple[str, str]:
    kind, _, name = provided.partition(":")
    return kind, name


def _normal(name: str) -> str:
    """Normalize a name as packaging compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# ----------------------------------------------------- checks which results a stored program leaves to be found at load
# only those of operators that an upgrader declares.


def marked_operators(program: Program) -> frozenset[str]:
    """Return the operators of the nodes whose results are found at load (extension `propagate`), in subgraphs too."""
    if "propagate" not in program.requires:
        return frozenset()
    return frozenset(node.target for _, node in walk_nodes(program.graph_module.graph) if node.propagate)


def check_stored_marks(program: Program, registry: Registry) -> None:
    """Check that a program leaves only results of declared operators to be found at load.

    Args:
        program: a checked program, as a file has it or will have it.

    Raises:
        OpsetError: no installed upgrader declares an operator; the error names every such node.
    """
    strange = marked_operators(program)
    if strange:
        strange -= {name for step in registry.opset_steps for name in step.propagates}
    if not strange:
        return
    problems = [
        Problem(f"{place}.propagate", "undeclared", f"results of {node.target} are not described")
        for place, node in walk_nodes(program.graph_module.graph)
        if node.propagate and node.target in strange
    ]
    raise OpsetError(
        "no installed opset upgrader declares that it leaves results of "
        f"{', '.join(sorted(strange))[:400]} to be found at load",
        problems=problems,
        remedy="Install and allow the plugin whose upgrader wrote it; the upgrader must list the operator in `propagates`, or "
        "describe its results",
    )
