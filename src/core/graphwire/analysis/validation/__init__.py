"""Does a document obey the rules of its schema?"""

from graphwire.analysis.validation.legal_names import is_value_name, spelled
from graphwire.analysis.validation.program_rules import check, check_payload_names, validate
from graphwire.analysis.validation.save_checks import UNREADABLE, check_written
from graphwire.analysis.validation.weight_checks import (
    Facts,
    difference,
    facts_of,
    held_problems,
    mismatches,
    missing_values,
    plain_differences,
)
