"""Does a document obey the rules of its schema?"""

from graphwire.analysis.validation.legal_names import is_value_name, number_text
from graphwire.analysis.validation.program_rules import check, check_payload_names, validate
from graphwire.analysis.validation.save_checks import UNREADABLE, check_saved_program
from graphwire.analysis.validation.weight_checks import (
    TensorFacts,
    difference,
    mismatches,
    missing_values,
    plain_differences,
    tensor_facts,
    weight_problems,
)
