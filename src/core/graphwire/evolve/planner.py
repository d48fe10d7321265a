"""How is a program converted to the opset versions that are installed or requested, and which plugins does it need?

A document records which distribution provides each operator, container type and codec that it uses (`Program.plugins`). The list
is updated after a rewrite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from graphwire.errors import GraphwireError, MissingPluginError, OpsetError, Problem, count_text, escaped
from graphwire.evolve.plain_values import requirements_after, uses_operator, walk_nodes
from graphwire.evolve.step import RELEASES, AppliedStep
from graphwire.registry.calls import blamed
from graphwire.registry.discovery import (
    is_older,
    is_provided,
    missing_error,
    missing_of,
    parts_of,
    remedies_of_broken,
    remedy_for_name,
    remedy_for_requirements,
    remedy_for_unavailable_name,
)
from graphwire.registry.entry_points import normal_name
from graphwire.registry.interfaces import PROJECT, OpsetStep, OpsetUpgrader
from graphwire.registry.provisions import step_name
from graphwire.registry.registry import Registry
from graphwire.schema import PluginRequirement, Program
from graphwire.schema.texts.treespec import parse_treespec, split_version, treespec_nodes

if TYPE_CHECKING:
    from graphwire.evolve.node_editor import NodeEditor, TouchedNode

E = TypeVar("E", bound=GraphwireError)


# ------------------------------------------------------------------- describes changes of operators: one row per change
# `operator_forms.SCHEMA_CHANGES` has the rows of torch's releases that introduced a version of the schema,
# `RELEASE_CHANGES` those of later releases, and an opset upgrader those of its namespace. The functions of a row
# edit one node. They receive a `FormEditor` between two versions of the schema, and a `NodeEditor` on records of the current one.
# Methods that both editors have share their names.


EditNode: TypeAlias = Callable[[Any], None]
"""Edits one node."""


class Change(msgspec.Struct, frozen=True):
    """One change of one operator."""

    since: str | int
    """What first has the newer form: a release of torch (`2.14`), or a version of the operator's opset."""
    target: str
    """The serialized name of the operator in the older form."""
    up: EditNode | None = None
    """Converts a node to the newer form; None where the older one stays."""
    down: EditNode | None = None
    """Converts a node to the older form, or refuses it; None where the newer one stays."""
    becomes: str = ""
    """The serialized name in the newer form, if it differs."""
    older: str = ""
    """A parameter of `target` that only the older form has, where nothing else in a document distinguishes the forms."""
    newer: str = ""
    """A parameter of `newer_target` that only the newer form has, likewise."""

    @property
    def newer_target(self) -> str:
        """The serialized name in the newer form."""
        return self.becomes or self.target


def renamed_operator(since: str | int, target: str, becomes: str) -> Change:
    """Return the change of an operator's name."""
    return Change(
        since, target, lambda edit: edit.retarget(becomes), lambda edit: edit.retarget(target), becomes
    )


def renamed_parameter(since: str | int, target: str, older: str, newer: str) -> Change:
    """Return the change of a parameter's name."""
    return Change(
        since,
        target,
        lambda edit: edit.rename(older, newer),
        lambda edit: edit.rename(newer, older),
        older=older,
        newer=newer,
    )


def opset_steps(namespace: str, newest: int, changes: Iterable[Change]) -> tuple[OpsetStep, ...]:
    """Return the steps of a namespace from version 1 to `newest` and back, each with its changes."""
    ways: dict[tuple[int, int], dict[str, EditNode]] = {}
    for older in range(1, newest):
        ways |= {(older, older + 1): {}, (older + 1, older): {}}
    for row in changes:
        newer = int(row.since)
        if row.up is not None:
            ways[newer - 1, newer][row.target] = row.up
        if row.down is not None:
            ways[newer, newer - 1][row.newer_target] = row.down
    return tuple(OpsetStep(namespace, *way, operators) for way, operators in ways.items())


# ---- ATen operators that changed between releases with the same schema version, so the version does not determine their form
#     operator                        change                                            older → newer torch
#     cholesky, qr                    → linalg_cholesky, linalg_qr                      2.13 → 2.14
#     _pdist_backward                 parameter `grad` → `grad_output`                  2.13 → 2.14
#     _cdist_backward                 the same                                          2.13 → 2.14
#
# At load a program gets the forms of the installed torch; when written for a target, those of the target's release. A form
# that fits stays. The list comes from comparing the operator tables of the releases, 2.1 to 2.15.


_ATEN = "torch.ops.aten."
_LINALG_CHOLESKY, _LINALG_QR = f"{_ATEN}linalg_cholesky.default", f"{_ATEN}linalg_qr.default"


def _linalg_cholesky(edit: NodeEditor) -> None:
    options = {"upper": edit.value("upper")} if edit.has("upper") else {}
    matrix = edit.value("self")
    edit.retarget(_LINALG_CHOLESKY, {"self": matrix})
    for name, value in options.items():
        edit.set(name, value, keyword=True)


def _linalg_qr(edit: NodeEditor) -> None:
    if edit.has("some"):
        edit.set("some", "reduced" if edit.value("some") else "complete")
    edit.rename("some", "mode")
    edit.rename("self", "A")
    edit.retarget(_LINALG_QR)


RELEASE_CHANGES: Final[tuple[Change, ...]] = (
    Change(
        "2.14", f"{_ATEN}cholesky.default", _linalg_cholesky, None, _LINALG_CHOLESKY, "self", newer="self"
    ),
    Change("2.14", f"{_ATEN}qr.default", _linalg_qr, None, _LINALG_QR, "self", newer="A"),
    renamed_parameter("2.14", f"{_ATEN}_pdist_backward.default", "grad", "grad_output"),
    renamed_parameter("2.14", f"{_ATEN}_cdist_backward.default", "grad", "grad_output"),
)
"""Every change, oldest first."""

CHANGED: Final = frozenset(
    [row.target for row in RELEASE_CHANGES if row.up]
    + [row.newer_target for row in RELEASE_CHANGES if row.down]
)
_AGE: Final = {release: index for index, release in enumerate(RELEASES)}


class Rewrite(msgspec.Struct, frozen=True):
    """The conversion of an operator to another form."""

    parameter: str
    """A parameter that identifies the form to convert: a node with an argument of that name has it."""
    apply: EditNode


def forms_of_release(release: str) -> dict[str, Rewrite]:
    """Return the conversions to the forms of a release of torch, such as `2.12`, by the operators' serialized names."""
    age = _AGE.get(release, -1)
    return _rewrites(
        lambda change: age >= _AGE[str(change.since)], lambda change: age < _AGE[str(change.since)]
    )


def forms_of_parameters(parameters: Callable[[str], Collection[str]]) -> dict[str, Rewrite]:
    """Return the conversions to the forms of an installed torch, by the operators' serialized names.

    Operators that exist there in both forms, or in neither, stay.

    Args:
        parameters: returns the names of an operator's parameters in that torch; none where it does not exist.
    """

    def has_newer(change: Change) -> bool:
        return change.newer in parameters(change.newer_target)

    def has_older(change: Change) -> bool:
        return change.older in parameters(change.target)

    return _rewrites(
        lambda change: has_newer(change) and not has_older(change),
        lambda change: has_older(change) and not has_newer(change),
    )


def _rewrites(goes_up: Callable[[Change], bool], goes_down: Callable[[Change], bool]) -> dict[str, Rewrite]:
    found = {}
    for change in RELEASE_CHANGES:
        if change.up is not None and goes_up(change):
            found[change.target] = Rewrite(change.older, change.up)
        elif change.down is not None and goes_down(change):
            found[change.newer_target] = Rewrite(change.newer, change.down)
    return found


def with_forms(
    program: Program, forms: Callable[[], Mapping[str, Rewrite]], done: list[AppliedStep] | None = None
) -> Program:
    """Convert a program's operators to the given forms; return the very same program if none of them changed.

    Args:
        forms: called only for a program with operators that changed.
        done: receives the conversions that were made.

    Raises:
        OpsetError: a node does not match its operator's parameters.
    """
    if not uses_operator(program.graph_module.graph, CHANGED):
        return program
    rewrites = forms()
    touched: dict[str, list[str]] = {}
    for _, node in walk_nodes(program.graph_module.graph):
        form = rewrites.get(node.target)
        if form is not None and any(named.name == form.parameter for named in node.inputs):
            touched.setdefault(node.target, []).append(node.name or node.target)
    from graphwire.evolve.node_editor import rewrite_program

    rewritten = rewrite_program(program, {target: form.apply for target, form in rewrites.items()})
    if rewritten.problems:
        raise OpsetError(
            "operators cannot be converted to the form of the requested torch", problems=rewritten.problems
        )
    if done is not None:
        done += [
            AppliedStep(
                f"operator {target.removeprefix('torch.ops.')} in the form of this torch", tuple(names)
            )
            for target, names in touched.items()
        ]
    return rewritten.program if touched else program


# ------------------ plans opset upgrades: the chain of steps from the opset versions of a program to the requested ones
# A program records the version of each operator namespace that it uses. `plan` compares them with the requested versions, by
# default the installed ones. For each namespace that differs it finds the chain of upgraders (or downgraders), and runs it on
# the records to list the nodes that each step touches and the problems. `apply` returns the resulting program. An upgrader
# writes operators of other namespaces in their installed versions, so ATen's steps come first on the way up and last on the
# way down.


UnknownOps: TypeAlias = Literal["error", "opaque"]
"""The treatment of operators that are not installed in the required version: an error, or calls that are kept for inspection and
cannot be run."""

_FIRST = "aten"
"""The namespace whose operators upgraders of other namespaces write."""


class PlannedStep(msgspec.Struct, frozen=True):
    """One step of one namespace and its effect on the program."""

    namespace: str
    from_version: int
    to_version: int
    nodes: tuple[TouchedNode, ...] = ()
    problems: tuple[Problem, ...] = ()
    """The nodes that the step refuses, each with its reason."""
    upgrades: Mapping[str, EditNode] = {}
    """The functions that rewrite nodes, by the operator's serialized name."""

    @property
    def origin(self) -> str:
        """The step, and the plugins that provide it, if they are not built in."""
        owners = {
            str(owner) for each in self.upgrades.values() if (owner := getattr(each, "owning_plugin", None))
        }
        return f"{self} of {', '.join(sorted(owners))}" if owners else str(self)

    def __repr__(self) -> str:
        return f"<PlannedStep: {self}, nodes: {len(self.nodes)}>"

    def __str__(self) -> str:
        return f"{self.namespace} {self.from_version} -> {self.to_version}"


class Plan(msgspec.Struct, frozen=True):
    """The steps that convert a program to other opsets. Printable, and plain data except for the steps' functions."""

    steps: tuple[PlannedStep, ...] = ()
    """The steps in the order in which they are applied, each with the nodes that it touches."""
    opset_version: Mapping[str, int] = {}
    """The program's versions after all steps."""
    opaque: tuple[str, ...] = ()
    """Namespaces whose operators are not available in this version and are kept for inspection."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The refusals of all steps."""
        return tuple(problem for step in self.steps for problem in step.problems)

    def lines(self) -> list[str]:
        """Return the plan as text lines: one for each step, and one for each node that it touches."""
        lines = []
        for step in self.steps:
            lines.append(f"{step}: {count_text(len(step.nodes), 'node')}")
            lines += [f"  {node.place} {node.name}: {node.target}" for node in step.nodes]
            lines += [f"  {problem}" for problem in step.problems]
        lines += [f"{namespace}: kept as it is, for inspection" for namespace in self.opaque]
        return lines or ["nothing to do"]

    def __repr__(self) -> str:
        return f"<Plan: {', '.join(map(str, self.steps))[:400] or 'nothing to do'}>"

    def __str__(self) -> str:
        return "\n".join(map(escaped, self.lines()))

    def to_tree(self) -> dict[str, Any]:
        """Return the plan as plain data."""
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


class _Gap(msgspec.Struct, frozen=True):
    """A namespace that cannot be converted to the requested version."""

    namespace: str
    kind: str
    message: str
    step: str = ""
    """The missing step, as plugins list it; empty where the namespace is unknown."""


def plan(
    program: Program,
    installed: Mapping[str, int],
    upgraders: Iterable[OpsetUpgrader],
    *,
    unknown: UnknownOps = "error",
    remedy_of: Callable[[_Gap], str] = lambda gap: "",
    assumed: Mapping[str, int] = MappingProxyType({}),
) -> Plan:
    """Plan the steps from a program's opset versions to others.

    Equal versions need no step. From an older one upgraders lead up; from a newer one downgraders lead down, if there is one
    for each step. A version 0 on either side means that the namespace has no versions.

    Args:
        program: a valid program.
        installed: the requested versions, by namespace.
        upgraders: the available steps, in any order; several may share one step, each with operators of its own.
        unknown: the treatment of a namespace that is not in `installed`, or cannot be converted.
        remedy_of: returns the remedy for a namespace that cannot be converted.
        assumed: the versions of namespaces that the program lacks, and of which steps may write operators.

    Returns:
        The plan, with the refusals of single nodes.

    Raises:
        OpsetError: steps are missing, or namespaces are unknown; one error lists all such problems.
    """
    known: dict[tuple[str, int, int], dict[str, EditNode]] | None = None
    chains: list[PlannedStep] = []
    gaps: list[_Gap] = []
    reached = dict(program.opset_version)
    for namespace, has in {**program.opset_version, **assumed}.items():
        wants = installed.get(namespace)
        if wants is None:
            message = f"no installed plugin provides operators of the namespace {namespace!r}, which the program uses"
            gaps.append(_Gap(namespace, "unknown-namespace", message))
        elif has and wants and has != wants:
            known = known or _steps(upgraders)
            chain, gap = _chain(known, namespace, has, wants)
            if gap is None:
                chains += chain
                reached[namespace] = wants
            elif namespace not in assumed:
                gaps.append(gap)
    opaque = tuple(gap.namespace for gap in gaps)
    if gaps and unknown == "error":
        raise OpsetError(
            f"the program's operators of {', '.join(opaque)} have a version that cannot be converted to the requested one",
            problems=[Problem(f"opset_version[{gap.namespace!r}]", gap.kind, gap.message) for gap in gaps],
            remedy=". ".join(dict.fromkeys(filter(None, map(remedy_of, gaps)))),
        )
    if not chains:  # as nearly always
        return Plan((), reached, opaque)
    chains.sort(key=partial(_order, assumed))
    tried = _tried(program, chains)
    return Plan(tuple(each for each in tried if each.nodes or each.namespace not in assumed), reached, opaque)


def plan_for(
    program: Program,
    registry: Registry,
    *,
    wanted: Mapping[str, int] | None = None,
    unknown: UnknownOps = "error",
) -> Plan:
    """Plan the steps that convert a program to the opset versions of the installed operators.

    Args:
        wanted: versions to convert namespaces to instead; namespaces that it does not list stay unchanged.

    Raises:
        OpsetError: a step is missing, or a namespace is unknown.
    """
    target = registry.opset_versions_of(program.opset_version)
    assumed: dict[str, int] = {}
    if wanted is not None:
        _check_versions(wanted)
        target = registry.opset_versions_of(wanted)
        if strange := sorted(set(wanted) - set(target) - set(program.opset_version)):
            raise OpsetError(
                f"no installed plugin provides operators of the namespace {', '.join(strange)}",
                remedy=". ".join(
                    (
                        f"The installed namespaces are {', '.join(name for name, version in target.items() if version)}",
                        *remedies_of_broken(registry, "op_handler"),
                    )
                ),
            )
        if wrong := [f"{name}={version}" for name, version in wanted.items() if version < 1]:
            raise OpsetError(f"versions are counted from 1, but {', '.join(wrong)} was requested")
        assumed = {
            name: target[name] for name in wanted.keys() & target.keys() - program.opset_version.keys()
        }
        target = {**program.opset_version, **wanted}
    versions = {**program.opset_version, **assumed}.items()
    is_same = all(target.get(name, version) == version for name, version in versions)
    steps = () if is_same else registry.opset_steps
    remedy_of = partial(_remedy, program, registry)
    return plan(program, target, steps, unknown=unknown, remedy_of=remedy_of, assumed=assumed)


def _check_versions(wanted: Any) -> None:
    if not isinstance(wanted, Mapping) or any(type(version) is not int for version in wanted.values()):
        raise OpsetError(
            f"opset_version={wanted!r:.80} is not a mapping of namespaces to versions",
            remedy='Such as opset_version={"aten": 9}',
        )


def _steps(upgraders: Iterable[OpsetUpgrader]) -> dict[tuple[str, int, int], dict[str, EditNode]]:
    """Return the functions of each step, by namespace and versions."""
    steps: dict[tuple[str, int, int], dict[str, EditNode]] = {}
    for upgrader in upgraders:
        key = (upgrader.namespace, upgrader.from_version, upgrader.to_version)
        steps.setdefault(key, {}).update(upgrader.operators)
    return steps


def _chain(
    known: Mapping[tuple[str, int, int], Mapping[str, EditNode]], namespace: str, has: int, wants: int
) -> tuple[list[PlannedStep], _Gap | None]:
    """Return the steps between two versions, or the first that is missing."""
    direction = 1 if wants > has else -1
    chain = []
    for version in range(has, wants, direction):
        upgrades = known.get((namespace, version, version + direction))
        if upgrades is None:
            kind = "upgrader" if direction > 0 else "downgrader"
            ways = f"from version {has} to {wants} of {namespace}"
            message = f"there is no {kind} from {version} to {version + direction}, which the conversion {ways} needs"
            missing = step_name(namespace, version, version + direction)
            return [], _Gap(namespace, "missing-step", message, missing)
        chain.append(PlannedStep(namespace, version, version + direction, upgrades=upgrades))
    return chain, None


def _order(assumed: Collection[str], step: PlannedStep) -> tuple[bool, bool, bool, str]:
    """Sort what other steps may write behind them: where the program has none of it, and ATen on the way down."""
    up = step.to_version > step.from_version
    return not up, (step.namespace != _FIRST) is up, step.namespace in assumed, step.namespace


def _remedy(program: Program, registry: Registry, gap: _Gap) -> str:
    """Return the remedy where the operators of a namespace cannot be converted to the requested version."""
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
        return f"Ask the maintainers of {', '.join(sorted(map(str, owners)))} for the step"
    for requirement in program.plugins:
        found = (each.partition(":") for each in requirement.provides)
        names = [name for kind, _, name in found if kind == "op_handler"]
        if any(_namespace_of(name, registry) == namespace for name in names):
            needs = [("op_handler", name) for name in names if registry.op_handler(name) is None]
            return remedy_for_requirements([(requirement, needs)], registry)
    if wants is None:
        fault = registry.fault_of("op_handler", f"torch.ops.{namespace}.")
        return "" if fault is None else remedy_for_unavailable_name(fault)
    return "The file has a newer version than the installed plugin: update the plugin"


def _remedy_of_torch(program: Program, registry: Registry, wants: int | None) -> str:
    if wants is None:
        return remedy_for_name(registry, "op_handler", "torch.ops.aten.", "")
    written = program.torch_version.partition("+")[0]
    from importlib import metadata  # here: it takes long to import

    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        installed = ""
    if PluginRequirement("torch", written, []).has_version and (
        not installed or is_older(installed, written)
    ):
        return f"Install a newer torch: the file was written with {written}"
    return "Install a newer graphwire, which may support the versions between"


def _namespace_of(name: str, registry: Registry) -> str:
    """Return the namespace of an operator that a plugin provided: its handler's, else that in torch's form of names."""
    handler = registry.op_handler(name)
    if handler is not None and handler.namespace != _FIRST:
        return handler.namespace
    parts = name.split(".")
    return parts[2] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else ""


# ---------------------------------------------------------------------------------------------------------- apply


def apply(program: Program, plan: Plan) -> Program:
    """Apply a plan to a program; return the very same one where there is nothing to do.

    Raises:
        OpsetError: upgraders refuse nodes or fail; one error lists all such problems.
    """
    if not plan.steps:
        return program
    if plan.problems:
        nodes = count_text(len(plan.problems), "node")
        error = OpsetError(f"{nodes} cannot be written in the requested opset", problems=plan.problems)
        raise blamed_on(error, plan, lambda step: any(each.kind == "removed" for each in step.problems))
    changed = program
    from graphwire.evolve.node_editor import rewrite_program

    for step in plan.steps:
        changed = rewrite_program(changed, step.upgrades).program
    return replace(
        changed, opset_version=dict(plan.opset_version), requires=requirements_after(program, changed)
    )


def _tried(program: Program, steps: Iterable[PlannedStep]) -> Iterable[PlannedStep]:
    """Return each step with the nodes that it touches, found by running it."""
    lowered: dict[str, PlannedStep] = {}  # by the operators whose later forms are gone
    for step in steps:
        from graphwire.evolve.node_editor import rewrite_program

        had = {id(node) for _, node in walk_nodes(program.graph_module.graph)} if lowered else ()
        program, nodes, problems = rewrite_program(program, step.upgrades)
        for place, node in walk_nodes(program.graph_module.graph) if lowered and nodes else ():
            before = lowered.get(node.target)
            if before is not None and before.namespace != step.namespace and id(node) not in had:
                message = (
                    f"{node.target} is written in its installed form, after the step {before}. Write version "
                )
                message += f"{step.to_version} of {step.namespace} to a file first, and then that of {before.namespace}"
                problems += (Problem(place, "late-operator", message),)
        if step.to_version < step.from_version:
            lowered |= dict.fromkeys(step.upgrades, step)
        if step.origin != str(step):
            problems = tuple(
                each if each.kind == "failed" else each._replace(message=f"{each.message} ({step.origin})")
                for each in problems
            )
        yield replace(step, nodes=nodes, problems=problems)


def blamed_on(error: E, plan: Plan, at_fault: Callable[[PlannedStep], object] = lambda step: step.nodes) -> E:
    """Name the plugins of steps, and what to do, in an error of what the steps made of a program.

    Args:
        at_fault: whether a step may be at fault; by default those that touched nodes.
    """
    for step in filter(at_fault, plan.steps):
        for function in step.upgrades.values():
            blamed(error, function)
    return error


_OPERATOR = "op_handler"
_TYPE = "treespec_serializer"


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
    wanted = (*program.plugins, *stores)
    if not wanted or not (missing := missing_of(wanted, registry, operators=operators)):
        return
    places = _places(program, {name for _, names in missing for name in names})
    places |= {name: ["weights"] for each in stores for name in each.provides}
    raise missing_error(missing, registry, places, MissingPluginError)


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
            kind, name = parts_of(each)
            handler = registry.op_handler(name) if kind == _OPERATOR else None
            foreign = handler is not None and handler.namespace in namespaces
            if kind == _OPERATOR and (foreign or not is_provided(each, requirement, registry)):
                names.append(each)
        if names:
            kept.append(PluginRequirement(requirement.distribution, requirement.version, names))
    return tuple(kept)


def with_requirements(program: Program, registry: Registry, had: Collection[str]) -> Program:
    """Update the plugins and opset versions of a program after its operators were rewritten.

    Args:
        had: the namespaces that it had versions of before.
    """
    needed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    recorded: dict[str, tuple[str, str]] = {}
    for requirement in program.plugins:
        for provided in requirement.provides:
            recorded[provided] = requirement.distribution, requirement.version
            if not provided.startswith(f"{_OPERATOR}:"):
                needed[recorded[provided]].add(provided)
    versions = {name: version for name, version in program.opset_version.items() if name in had}
    for name in {node.target for _, node in walk_nodes(program.graph_module.graph)}:
        handler = registry.op_handler(name)
        if handler is not None and handler.opset_version and handler.namespace not in had:
            written = program.opset_version.get(handler.namespace, handler.opset_version)
            versions[handler.namespace] = written
        owner = registry.owner_of(_OPERATOR, name)
        provided = f"{_OPERATOR}:{name}"
        if owner is not None and owner.distribution and normal_name(owner.distribution) != PROJECT:
            needed[owner.distribution, owner.version].add(provided)
        elif provided in recorded:
            needed[recorded[provided]].add(provided)
    plugins = [
        PluginRequirement(distribution, version, sorted(names))
        for (distribution, version), names in sorted(needed.items())
    ]
    return replace(program, plugins=plugins, opset_version=versions)


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


# ----------------------------------------------------- checks which results a stored program leaves to be found at load
# only those of operators that an upgrader declares.


def marked_operators(program: Program) -> frozenset[str]:
    """Return the operators of the nodes whose results are found at load (extension `propagate`), in subgraphs too."""
    if "propagate" not in program.requires:
        return frozenset()
    return frozenset(node.target for _, node in walk_nodes(program.graph_module.graph) if node.propagate)


def check_stored_marks(program: Program, registry: Registry, lowered: Collection[str] = ()) -> None:
    """Check that a program leaves only results of declared operators to be found at load.

    Args:
        program: a checked program, as a file has it or will have it.
        lowered: the namespaces that were brought to an earlier version. Its readers have the plugin of that version, which has no
            later steps.

    Raises:
        OpsetError: no upgrader that a reader has declares an operator; the error names every such node.
    """
    strange = marked_operators(program)
    if not strange:
        return
    strange -= {
        name
        for step in registry.opset_steps
        if step.namespace not in lowered
        or max(step.from_version, step.to_version) <= program.opset_version.get(step.namespace, 0)
        for name in step.propagates
    }
    if not strange:
        return
    problems = [
        Problem(f"{place}.propagate", "undeclared", f"results of {node.target} are not described")
        for place, node in walk_nodes(program.graph_module.graph)
        if node.propagate and node.target in strange
    ]
    raise OpsetError(
        f"no {'earlier' if lowered else 'installed'} opset upgrader declares that it leaves results of "
        f"{', '.join(sorted(strange))[:400]} to be found at load",
        problems=problems,
        remedy="The upgrader must describe the results (`edit.declare`, `like=`): plugins of the earlier version cannot find them"
        if lowered
        else "Install and allow the plugin whose upgrader wrote it; the upgrader must list the operator in `propagates`, or "
        "describe its results",
    )
