"""Apply opset upgrades to validated programs: to the installed versions, or along a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from graphwire.analysis.validation import check_valid
from graphwire.api.error_boundary import LOG
from graphwire.errors import OpsetError, Problem, ValidationError
from graphwire.evolve.documents import AppliedStep
from graphwire.evolve.operators import forms_of_parameters, with_forms
from graphwire.evolve.opsets import (
    Plan,
    UnknownOps,
    apply,
    check_plugins,
    check_stored_marks,
    kept_requirements,
    marked_operators,
    plan_for,
    with_requirements,
)
from graphwire.hooks import Registry
from graphwire.schema import Program

if TYPE_CHECKING:
    from graphwire.bridge.context import OpaqueOrigin


class ProgramAtInstalledOpsets(NamedTuple):
    """A validated program at the installed opsets."""

    program: Program
    origin: OpaqueOrigin | None
    """The versions and requirements to keep for opaque operators; None if no operator is opaque."""
    rewritten: list[AppliedStep]
    """The operators that were rewritten to the form of the installed torch."""
    propagates: frozenset[str]
    """The operators whose result metadata `load` computes with fake kernels: marked by upgraders of this load or, in the
    file, declared by installed upgraders."""


def at_installed_opsets(
    program: Program, registry: Registry, unknown_ops: UnknownOps
) -> ProgramAtInstalledOpsets:
    """Bring a validated program to the installed opsets, and its operators to the form of the installed torch."""
    from graphwire.bridge.context import OpaqueOrigin
    from graphwire.bridge.program import signature_mismatches
    from graphwire.bridge.torch_compat import parameters_of

    check_plugins(program, registry, operators=unknown_ops == "error")
    check_stored_marks(program, registry)
    plan = plan_for(program, registry, unknown=unknown_ops)
    origin = None
    if unknown_ops == "opaque":
        kept = kept_requirements(program, registry, plan.opaque)
        versions = {namespace: program.opset_version[namespace] for namespace in plan.opaque}
        origin = OpaqueOrigin(versions, kept, own_forms="calls" in program.requires)
    rewritten: list[AppliedStep] = []
    changed = _applied(program, plan, registry)
    formed = with_forms(changed, lambda: forms_of_parameters(parameters_of), rewritten)
    if changed is not program and (problems := signature_mismatches(program, formed, registry)):
        raise _invalid(plan, problems)
    return ProgramAtInstalledOpsets(formed, origin, rewritten, marked_operators(formed))


def program_after_plan(program: Program, plan: Plan, registry: Registry) -> Program:
    """Apply a plan to a program that will be stored, and validate the result.

    Raises:
        OpsetError: an upgrader rejects a node, makes an invalid program, or leaves result metadata to be computed for an
            operator that it does not declare.
    """
    changed = _applied(program, plan, registry)
    if changed is not program:
        check_stored_marks(changed, registry)
    return changed


def _applied(program: Program, plan: Plan, registry: Registry) -> Program:
    """Apply a plan and validate the result: programs of upgraders are as untrusted as those of files."""
    changed = apply(program, plan)
    if changed is program:
        return program
    for step in plan.steps:
        LOG.info("upgraded opset %s, %d nodes", step, len(step.nodes))
    changed = with_requirements(changed, registry)
    try:
        check_valid(changed)
    except ValidationError as error:
        raise _invalid(plan, error.problems) from None
    return changed


def _invalid(plan: Plan, problems: Sequence[Problem]) -> OpsetError:
    names = ", ".join(str(step) for step in plan.steps if step.nodes)
    return OpsetError(
        f"upgraders made a program that is not valid ({names})",
        problems=problems,
        remedy="Report it to the authors of the plugins that provide them",
    )
