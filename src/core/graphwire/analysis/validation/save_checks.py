"""Check before a save that a load would accept the records of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwire.analysis.validation.program_rules import payload_name_problems, validate
from graphwire.analysis.validation.weight_checks import missing_values
from graphwire.errors import EncodeError, Problem
from graphwire.lazy import pattern
from graphwire.schema import PayloadMeta, Program

_SHOWN: Final = 5
_NODE = pattern(r"graph_module\.graph\.nodes\[(\d+)\]")
UNREADABLE = (
    "A file cannot represent something in the program, or in what a plugin writes of it. If neither is the cause, this is a "
    "bug in graphwire: please report it"
)
"""The remedy for records that cannot be read for an unknown reason."""


def check_saved_program(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> None:
    """Check that a load would accept the records and payloads.

    Raises:
        EncodeError: a load would reject them; the error lists the problems and their nodes.
    """
    try:
        names = payload_name_problems([*weights, *constants])
        problems = [*validate(program), *missing_values(program, weights, constants), *names]
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        # Records of a wrong type. No reader makes such records.
        raise EncodeError(
            f"an operator handler returned invalid records: {type(error).__name__}: {error}",
            remedy=UNREADABLE,
        ) from error
    if problems:
        more = len(problems) - _SHOWN
        shown = "; ".join(_problem_text(program, each) for each in problems[:_SHOWN])
        rest = f"; and {more} more" if more > 0 else ""
        raise EncodeError(f"the file could not be loaded again: {shown}{rest}", remedy=UNREADABLE)


def _problem_text(program: Program, problem: Problem) -> str:
    found = _NODE.match(problem.place)
    if found is None:
        return str(problem)
    node = program.graph_module.graph.nodes[int(found[1])]
    return f"{problem} (node {node.name or '?'}, {node.target})"
