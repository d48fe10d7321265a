"""Whether the records of a program that is saved are such that a reader takes them: told while nothing is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from graphwire.analysis.validation.legal_names import are_attribute_paths
from graphwire.analysis.validation.program_rules import payload_name_problems, validate
from graphwire.analysis.validation.weight_checks import missing_values
from graphwire.errors import EncodeError, Problem
from graphwire.schema import PayloadMeta, Program

_SHOWN: Final = 5
_NODE = re.compile(r"graph_module\.graph\.nodes\[(\d+)\]")
UNREADABLE = (
    "Something in the program, or in what a plugin writes of it, has no place in a file; where it is neither, it is a "
    "fault of graphwire: please report it"
)
"""What to do where records could not be read, and nobody knows why they are so."""


def check_saved_program(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> None:
    """Do nothing for records and payloads that a load takes.

    Raises:
        EncodeError: a load would refuse them; the error says what is wrong, and at which node.
    """
    try:
        problems = [*validate(program), *_payload_problems(program, weights, constants)]
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        # Records of another type than they should be, which no reader makes.
        raise EncodeError(
            f"a handler of operators gives records that are none: {type(error).__name__}: {error}",
            remedy=UNREADABLE,
        ) from error
    if problems:
        more = len(problems) - _SHOWN
        told = "; ".join(_told(program, each) for each in problems[:_SHOWN])
        rest = f"; and {more} more" if more > 0 else ""
        raise EncodeError(f"what would be written could not be loaded: {told}{rest}", remedy=UNREADABLE)


def _payload_problems(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> list[Problem]:
    problems = missing_values(program, weights, constants)
    given = [*weights, *constants]
    return problems if are_attribute_paths(given) else problems + payload_name_problems(given)


def _told(program: Program, problem: Problem) -> str:
    found = _NODE.match(problem.place)
    if found is None:
        return str(problem)
    node = program.graph_module.graph.nodes[int(found[1])]
    return f"{problem} (node {node.name or '?'}, {node.target})"
