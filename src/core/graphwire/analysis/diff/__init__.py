"""How do two programs differ? The differences as records and as readable text."""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.analysis.diff.facts import Labels, user_inputs, value_facts
    from graphwire.analysis.diff.program_diff import Diff, diff, without_not_held
    from graphwire.analysis.diff.text import diff_lines, markdown_lines, program_lines
    from graphwire.analysis.diff.weights import Compared, PayloadSide, compare_payloads, compared_text
else:
    __getattr__ = door(
        __name__,
        {
            ".facts": "Labels user_inputs value_facts",
            ".program_diff": "Diff diff without_not_held",
            ".text": "diff_lines markdown_lines program_lines",
            ".weights": "Compared PayloadSide compare_payloads compared_text",
        },
    )

__all__ = [
    "Compared",
    "Diff",
    "Labels",
    "PayloadSide",
    "compare_payloads",
    "compared_text",
    "diff",
    "diff_lines",
    "markdown_lines",
    "program_lines",
    "user_inputs",
    "value_facts",
    "without_not_held",
]
