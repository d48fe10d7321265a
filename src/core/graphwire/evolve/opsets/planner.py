"""Opsets: the versions of operator namespaces, and the way of a program from the ones it has to the ones that are wanted.

A program says for each namespace the version it was written with. `plan` compares them with others, those installed as a
rule, finds the chain of upgraders (or downgraders) for each that differs, and runs it on the records to say which nodes each
step touches and what cannot be done; `apply` gives the program that comes out. An upgrader writes operators of other
namespaces as they are installed: ATen's steps come first on the way up, and last on the way down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from graphwire.errors import OpsetError, Problem, escaped
from graphwire.evolve.opsets.changes import EditNode
from graphwire.evolve.opsets.graph_names import requirements_after
from graphwire.evolve.opsets.upgrades import TouchedNode, rewrite_program
from graphwire.hooks import (
    OpsetUpgrader,
    Registry,
    is_older,
    remedy_for_name,
    remedy_for_requirements,
    remedy_for_unavailable_name,
    step_name,
)
from graphwire.schema import PluginRequirement, Program

UnknownOps: TypeAlias = Literal["error", "opaque"]
"""What becomes of operators that this installation has not, or not in this version: an error, or calls that are kept for
inspection and cannot be run."""

_FIRST = "aten"
"""The namespace that the others' upgraders write operators of."""


@dataclass(frozen=True)
class PlannedStep:
    """One step of one namespace, and what it does to the program."""

    namespace: str
    from_version: int
    to_version: int
    nodes: tuple[TouchedNode, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Nodes that the step refuses, each with its reason."""
    upgrades: Mapping[str, EditNode] = field(default_factory=dict, repr=False, compare=False)
    """What rewrites a node, by the operator's serialized name."""

    def __str__(self) -> str:
        return f"{self.namespace} {self.from_version} -> {self.to_version}"


@dataclass(frozen=True)
class Plan:
    """The steps that bring a program to other opsets. It can be printed, and is data but for the steps' functions."""

    steps: tuple[PlannedStep, ...] = ()
    opset_version: Mapping[str, int] = field(default_factory=dict)
    """The versions that the program has in the end."""
    opaque: tuple[str, ...] = ()
    """Namespaces whose operators cannot be had in this version, and are kept for inspection."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the steps refuse."""
        return tuple(problem for step in self.steps for problem in step.problems)

    def lines(self) -> list[str]:
        """The plan for a reader, a line for each step, and one for each node that it touches."""
        lines = []
        for step in self.steps:
            count = len(step.nodes)
            lines.append(f"{step}: {count} node{'s' if count != 1 else ''}")
            lines += [f"  {node.place} {node.name}: {node.target}" for node in step.nodes]
            lines += [f"  {problem}" for problem in step.problems]
        lines += [f"{namespace}: kept as it is, for inspection" for namespace in self.opaque]
        return lines or ["nothing to do"]

    def __str__(self) -> str:
        return "\n".join(map(escaped, self.lines()))

    def to_tree(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "opset_version": dict(self.opset_version),
            "opaque": list(self.opaque),
            "steps": [
                {
                    "namespace": step.namespace,
                    "from_version": step.from_version,
                    "to_version": step.to_version,
                    "nodes": [node._asdict() for node in step.nodes],
                    "problems": [problem._asdict() for problem in step.problems],
                }
                for step in self.steps
            ],
        }


# ----------------------------------------------------------------------------------------------------------- plan


class _Gap(NamedTuple):
    """A namespace that cannot be brought to the wanted version."""

    namespace: str
    kind: str
    message: str
    step: str = ""
    """The step that is missing, as plugins list it; empty where the namespace is unknown."""


def plan(
    program: Program,
    installed: Mapping[str, int],
    upgraders: Iterable[OpsetUpgrader],
    *,
    unknown: UnknownOps = "error",
    remedy_of: Callable[[_Gap], str] = lambda gap: "",
) -> Plan:
    """The steps from the opsets that a program has to others.

    Equal versions need nothing. From an older one upgraders lead up; from a newer one downgraders lead down, if there is one
    for each step. A version 0 on either side means that the namespace keeps no versions.

    Args:
        program: a valid program.
        installed: the versions that are wanted, by namespace.
        upgraders: the steps that there are, in any order; several may share one step, each with operators of its own.
        unknown: what becomes of a namespace that is not wanted, or cannot be reached.
        remedy_of: says what to do about a namespace that cannot be reached.

    Returns:
        The plan; what single nodes refuse stands in it.

    Raises:
        OpsetError: a step is missing, or nobody knows the namespace; all such problems together.
    """
    known = _steps(upgraders)
    chains: list[PlannedStep] = []
    gaps: list[_Gap] = []
    reached = dict(program.opset_version)
    for namespace, has in program.opset_version.items():
        wants = installed.get(namespace)
        if wants is None:
            message = (
                f"no installed plugin has operators of the namespace {namespace!r}, which the program uses"
            )
            gaps.append(_Gap(namespace, "unknown-namespace", message))
        elif has and wants and has != wants:
            chain, gap = _chain(known, namespace, has, wants)
            if gap is None:
                chains += chain
                reached[namespace] = wants
            else:
                gaps.append(gap)
    opaque = tuple(gap.namespace for gap in gaps)
    if gaps and unknown == "error":
        raise OpsetError(
            f"the program's operators of {', '.join(opaque)} are of a version that cannot be brought to the wanted one",
            problems=[Problem(f"opset_version[{gap.namespace!r}]", gap.kind, gap.message) for gap in gaps],
            remedy=". ".join(dict.fromkeys(filter(None, map(remedy_of, gaps)))),
        )
    chains.sort(key=_order)
    return Plan(tuple(_tried(program, chains)), reached, opaque)


def plan_for(
    program: Program,
    registry: Registry,
    *,
    wanted: Mapping[str, int] | None = None,
    unknown: UnknownOps = "error",
) -> Plan:
    """The plan that brings a program to the opsets of the installed operators.

    Args:
        wanted: versions to bring namespaces to instead; those that it does not name stay as they are.

    Raises:
        OpsetError: a step is missing, or nobody knows a namespace.
    """
    target = registry.opset_versions
    if wanted is not None:
        _check_versions(wanted)
        if strange := sorted(set(wanted) - set(target) - set(program.opset_version)):
            raise OpsetError(
                f"no installed plugin has operators of the namespace {', '.join(strange)}",
                remedy=f"There are {', '.join(name for name, version in target.items() if version)}",
            )
        if wrong := [f"{name}={version}" for name, version in wanted.items() if version < 1]:
            raise OpsetError(f"versions are counted from 1, and {', '.join(wrong)} is asked for")
        target = {**program.opset_version, **wanted}
    return plan(
        program, target, registry.opset_steps, unknown=unknown, remedy_of=partial(_remedy, program, registry)
    )


def _check_versions(wanted: Any) -> None:
    if not isinstance(wanted, Mapping) or any(type(version) is not int for version in wanted.values()):
        raise OpsetError(
            f"opset_version={wanted!r:.80} is no mapping of namespaces to versions",
            remedy='Such as opset_version={"aten": 9}',
        )


def _steps(upgraders: Iterable[OpsetUpgrader]) -> dict[tuple[str, int, int], dict[str, EditNode]]:
    """What each step rewrites, by namespace and versions."""
    steps: dict[tuple[str, int, int], dict[str, EditNode]] = {}
    for upgrader in upgraders:
        key = (upgrader.namespace, upgrader.from_version, upgrader.to_version)
        if abs(upgrader.to_version - upgrader.from_version) != 1:
            raise OpsetError(
                f"an upgrader of {upgrader.namespace} goes from {upgrader.from_version} to {upgrader.to_version}",
                remedy="An upgrader is one step: between versions one apart",
            )
        steps.setdefault(key, {}).update(upgrader.operators)
    return steps


def _chain(
    known: Mapping[tuple[str, int, int], Mapping[str, EditNode]], namespace: str, has: int, wants: int
) -> tuple[list[PlannedStep], _Gap | None]:
    """The steps between two versions; or the first that is missing."""
    direction = 1 if wants > has else -1
    chain = []
    for version in range(has, wants, direction):
        upgrades = known.get((namespace, version, version + direction))
        if upgrades is None:
            kind = "upgrader" if direction > 0 else "downgrader"
            ways = f"from version {has} to {wants} of {namespace}"
            message = f"there is no {kind} from {version} to {version + direction} on the way {ways}"
            missing = step_name(namespace, version, version + direction)
            return [], _Gap(namespace, "missing-step", message, missing)
        chain.append(PlannedStep(namespace, version, version + direction, upgrades=upgrades))
    return chain, None


def _order(step: PlannedStep) -> tuple[bool, bool, str]:
    up = step.to_version > step.from_version
    return not up, (step.namespace != _FIRST) is up, step.namespace


def _remedy(program: Program, registry: Registry, gap: _Gap) -> str:
    """What to do where the operators of a namespace cannot be brought to the wanted version."""
    namespace = gap.namespace
    has, wants = program.opset_version[namespace], registry.opset_versions.get(namespace)
    if gap.step and (fault := registry.fault_of("opset_upgrader", gap.step)):
        return remedy_for_unavailable_name(fault)
    if namespace == _FIRST:
        return _remedy_of_torch(program, registry, wants)
    if wants is not None and has < wants:
        owners = {
            registry.owner_of_handler(each) for each in registry.op_handlers if each.namespace == namespace
        }
        return f"Ask for the step where {', '.join(sorted(map(str, owners)))} comes from"
    for requirement in program.plugins:
        found = (each.partition(":") for each in requirement.provides)
        names = [name for kind, _, name in found if kind == "op_handler"]
        if any(_namespace_of(name, registry) == namespace for name in names):
            needs = [("op_handler", name) for name in names if registry.op_handler(name) is None]
            return remedy_for_requirements([(requirement, needs)], registry)
    if wants is None:
        fault = registry.fault_of("op_handler", f"torch.ops.{namespace}.")
        return "" if fault is None else remedy_for_unavailable_name(fault)
    return "The file is of a newer version than what is installed: update that"


def _remedy_of_torch(program: Program, registry: Registry, wants: int | None) -> str:
    if wants is None:
        return remedy_for_name(registry, "op_handler", "torch.ops.aten.", "")
    written = program.torch_version.partition("+")[0]
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        installed = ""
    if PluginRequirement("torch", written, []).has_version and (
        not installed or is_older(installed, written)
    ):
        return f"Install a newer torch: the file says that it was written with {written}"
    return "Install a newer graphwire, which may know the versions between"


def _namespace_of(name: str, registry: Registry) -> str:
    """The namespace of an operator that a plugin provided, by its handler or, without, by torch's own way of naming."""
    handler = registry.op_handler(name)
    if handler is not None and handler.namespace != _FIRST:
        return handler.namespace
    parts = name.split(".")
    return parts[2] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else ""


# ---------------------------------------------------------------------------------------------------------- apply


def apply(program: Program, plan: Plan) -> Program:
    """The program that a plan leads to; the very same one where there is nothing to do.

    Raises:
        OpsetError: an upgrader refuses a node, or fails; all such problems together.
    """
    if plan.problems:
        count = len(plan.problems)
        raise OpsetError(
            f"{count} node{'s' if count != 1 else ''} cannot be written in the wanted opset",
            problems=plan.problems,
        )
    changed = program
    for step in plan.steps:
        changed = rewrite_program(changed, step.upgrades).program
    if not plan.steps:
        return program
    return replace(
        changed, opset_version=dict(plan.opset_version), requires=requirements_after(program, changed)
    )


def _tried(program: Program, steps: Iterable[PlannedStep]) -> Iterable[PlannedStep]:
    """Each step with the nodes that it touches, found by doing it."""
    for step in steps:
        program, nodes, problems = rewrite_program(program, step.upgrades)
        yield dataclasses.replace(step, nodes=nodes, problems=problems)
