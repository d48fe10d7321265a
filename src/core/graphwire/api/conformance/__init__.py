"""Does a reader keep the rules of the format? What graphwire finds in a file, and the suite that other readers run."""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.api.conformance.comparison import PARTS, first_difference
    from graphwire.api.conformance.reading import neutral
    from graphwire.api.conformance.suite import (
        CaseResult,
        SuiteCase,
        failures,
        rule_counts,
        run_suite,
        suite_cases,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".comparison": "PARTS first_difference",
            ".reading": "neutral",
            ".suite": "CaseResult SuiteCase failures rule_counts run_suite suite_cases",
        },
    )

__all__ = [
    "PARTS",
    "CaseResult",
    "SuiteCase",
    "failures",
    "first_difference",
    "neutral",
    "rule_counts",
    "run_suite",
    "suite_cases",
]
