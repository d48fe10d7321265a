"""Build the `LoadReport` of a program that was read from an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from graphwire.analysis.load_report import LoadReport, Omission, StepReport
from graphwire.errors import OpsetError, Problem
from graphwire.evolve.plain_values import walk_nodes
from graphwire.evolve.planner import Plan, plan_for
from graphwire.evolve.step import release_of, releases_with
from graphwire.evolve.targets import first_reader_of
from graphwire.registry import Registry
from graphwire.schema import SCHEMA_VERSION, Program, Version
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    from graphwire.evolve.step import AppliedStep


class Origin(msgspec.Struct, frozen=True):
    """How a program was stored in its file, before schema steps and renames."""

    version: Version
    taken: list[AppliedStep]
    payloads: Payloads
    renamed: list[tuple[str, str]] = []
    """The renamed weights: the name in the file, and the new name."""
    is_of_torch: bool = True
    """Whether torch's own writer may have made the file."""


def plan_or_problems(program: Program, registry: Registry) -> Plan | tuple[Problem, ...]:
    """Return the plan to the installed opsets, or the problems that prevent one."""
    try:
        return plan_for(program, registry)
    except OpsetError as error:
        return tuple(error.problems)


def build_load_report(
    program: Program,
    origin: Origin,
    plan: Plan | tuple[Problem, ...],
    *,
    method: str,
    layout: str,
    format: str,
) -> LoadReport:
    """Return the load report of a program.

    Args:
        program: the program at the current schema and the opsets of the file.
        origin: how it was stored.
        plan: the plan to the installed opsets, or the problems that prevent one.
        method: the name of the program.
        layout: the title of the archive layout.
        format: the name of the wire format.
    """
    schema_steps = [each.schema for each in origin.taken if each.schema is not None]
    steps = [StepReport(each.what, list(each.nodes)) for each in origin.taken]
    if isinstance(plan, Plan):
        for step in plan.steps:
            name = f"opset {step.namespace} {step.from_version} → {step.to_version}"
            steps.append(StepReport(name, [node.name or node.target for node in step.nodes]))
    else:
        steps += [StepReport(f"opset: {problem.message}") for problem in plan]
    derived = [text for step in schema_steps for text in step.derived]
    derived += [f"the name {new!r} of the weight {old!r}" for old, new in origin.renamed]
    unstated = [node for _, node in walk_nodes(program.graph_module.graph) if node.propagate]
    derived += [f"what {node.name or node.target} makes, by running it on metadata" for node in unstated]
    dropped = [Omission(what, why) for step in schema_steps for what, why in step.dropped]
    dropped += [Omission(name, why) for name, why in origin.payloads.unread.items()]
    dropped += [Omission("example inputs", why) for why in origin.payloads.warnings]
    absent = [text for step in schema_steps for text in step.absent]
    if program.example_inputs is None and not origin.payloads.warnings:
        absent.append("example inputs")
    return LoadReport(
        method=method,
        producer=program.producer or _producer(program, origin),
        schema_version=str(origin.version),
        layout=layout,
        format=format,
        readable_from=first_reader_of(origin.version, program),
        steps=steps,
        derived=derived,
        absent=absent,
        dropped=dropped,
    )


def _producer(program: Program, origin: Origin) -> str:
    """Return what wrote a document that does not record it: torch, or graphwire for the releases of torch that read it."""
    readers = releases_with(origin.version)
    if not origin.is_of_torch and readers and origin.version < Version(*SCHEMA_VERSION):
        return f"graphwire, for torch {' to '.join(dict.fromkeys((readers[0], readers[-1])))}"
    return f"torch {release_of(origin.version) or program.torch_version}"
