"""What releases of torch cannot do that tests need: failures that are expected there, so that a row that is wrong fails.

Each row says on which releases, why, and which tests cannot pass.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Lack(NamedTuple):
    """Something that keeps tests from passing on releases of torch."""

    first: tuple[int, int]
    last: tuple[int, int]
    """The releases, both included."""
    why: str
    """What is said of torch."""
    tests: str
    """A pattern of the identifiers of the tests."""


LACKS: tuple[Lack, ...] = (
    Lack((2, 8), (2, 8), "has no guards of programs", r"test_every_guard_that_torch_export_writes"),
    Lack(
        (2, 8),
        (2, 8),
        "has no functions before dispatch",
        r"TestPredispatchFunctions::test_(every_program|a_name_resolves|programs|the_file|threads|whatever)",
    ),
    Lack((2, 8), (2, 8), "defers no guards to run time", r"[\[-]guards\b"),
    Lack(
        (2, 8),
        (2, 8),
        "does not decompose a program that changes a parameter",
        r"mutated_parameter_decomposed|test_a_loaded_program_can_be_decomposed\[mutated_parameter",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "saves no complex numbers",
        r"test_torch_interop\.py::(?!test_only_what).*\[arguments_of_every_kind",
    ),
    Lack(
        (2, 8),
        (2, 9),
        "saves no results that nothing reads",
        r"test_(we_read_)?what_torch_wrote.*\[custom_operator_decomposed",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "does not export this scan",
        r"test_an_operator_that_came_later_within_a_schema_version",
    ),
    Lack((2, 8), (2, 9), "has no BitwiseFn_bitwise_xor", r"test_every_operation_of_the_grammar_can_be_built"),
    Lack((2, 8), (2, 9), "has no torch.fx.traceback.annotate", r"[\[-]annotated\b"),
    Lack(
        (2, 8), (2, 12), "counts an operator with names as changed", r"test_the_overloads_and_their_versions"
    ),
    Lack(
        (2, 15),
        (2, 15),
        "names and reads what operators return",
        r"test_what_torch_cannot_say_is_refused_by_torch_cleanly\[topk\]"
        r"|test_without_the_plugin_plain_containers"
        r"|test_torch_reads_what_requires_no_extension\[(containers|annotated)\]"
        r"|test_we_save_what_torch_does_not\[(containers|annotated)\]",
    ),
)


def lack_of(test: str, release: tuple[int, int]) -> str | None:
    """Why a test cannot pass on a release of torch; None where it can.

    Args:
        test: the identifier that pytest gives it, `tests/FOLDER/FILE.py::NAME[PARAMETERS]`.
    """
    for lack in LACKS:
        if lack.first <= release <= lack.last and re.search(lack.tests, test):
            return f"torch {release[0]}.{release[1]} {lack.why}"
    return None
