"""Does a document obey the rules of its schema? Checks of records, and of weights against their graph."""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.analysis.validation.legal_names import is_value_name, number_text
    from graphwire.analysis.validation.program_rules import check_payload_names, check_valid, validate
    from graphwire.analysis.validation.save_checks import UNREADABLE, check_saved_program
    from graphwire.analysis.validation.weight_checks import (
        TensorFacts,
        mismatch_problems,
        missing_values,
        payload_differences,
        tensor_difference,
        tensor_facts,
        weight_problems,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".legal_names": "is_value_name number_text",
            ".program_rules": "check_payload_names check_valid validate",
            ".save_checks": "UNREADABLE check_saved_program",
            ".weight_checks": (
                "TensorFacts mismatch_problems missing_values payload_differences tensor_difference "
                "tensor_facts weight_problems"
            ),
        },
    )

__all__ = [
    "UNREADABLE",
    "TensorFacts",
    "check_payload_names",
    "check_saved_program",
    "check_valid",
    "is_value_name",
    "mismatch_problems",
    "missing_values",
    "number_text",
    "payload_differences",
    "tensor_difference",
    "tensor_facts",
    "validate",
    "weight_problems",
]
