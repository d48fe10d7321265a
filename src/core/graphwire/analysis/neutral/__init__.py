"""What does a reader print about a file? Programs and payloads as neutral JSON (`docs/spec/neutral.md`)."""

from graphwire.analysis.neutral.elements import digest_of_elements, row_major_parts
from graphwire.analysis.neutral.records import GRAMMARS, OPTIONAL, neutral_record
from graphwire.analysis.neutral.tagged_trees import canonical_json, hex_float, pairs, tagged

__all__ = [
    "GRAMMARS",
    "OPTIONAL",
    "canonical_json",
    "digest_of_elements",
    "hex_float",
    "neutral_record",
    "pairs",
    "row_major_parts",
    "tagged",
]
