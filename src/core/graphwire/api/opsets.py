"""A checked program, brought to the opsets that are asked for or installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from graphwire.analysis.validation import check_valid
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
    """A checked program as the installed operators want it."""

    program: Program
    origin: OpaqueOrigin | None
    """What operators that cannot be had here are kept with."""
    rewritten: list[AppliedStep]
    """The operators that got the form of the installed torch."""
    propagates: frozenset[str]
    """The operators whose results were left to be found: by upgraders that ran just now, or as those that are installed
    declare."""


def at_installed_opsets(
    program: Program, registry: Registry, unknown_ops: UnknownOps
) -> ProgramAtInstalledOpsets:
    """A checked program at the installed opsets, with operators in the form of the installed torch."""
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
    """The program that a plan leads to, checked, to be stored.

    Raises:
        OpsetError: an upgrader refuses a node, makes an invalid program, or leaves results of an operator to be found that it
            does not declare.
    """
    changed = _applied(program, plan, registry)
    if changed is not program:
        check_stored_marks(changed, registry)
    return changed


def _applied(program: Program, plan: Plan, registry: Registry) -> Program:
    """The program that a plan leads to, checked: what upgraders make is no safer than what stands in a file."""
    changed = apply(program, plan)
    if changed is program:
        return program
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
        remedy="Report it to the authors of the plugins that brought them",
    )
