"""How is an `ExportedProgram` converted to a record and payloads, and back?"""

from graphwire.bridge.program.binding import bind_weights, check_are_tensors, tensors_from_store
from graphwire.bridge.program.process_groups import check_process_groups
from graphwire.bridge.program.program import (
    check_entry,
    decode_context,
    decode_program,
    decode_values,
    encode_program,
    leave_out,
    record_tables,
    tell_omitted,
)
from graphwire.bridge.program.program_check import check_is_exported_program
from graphwire.bridge.program.torch_operators import OperatorFacts, operator_facts
from graphwire.bridge.program.upgraded_check import signature_mismatches
from graphwire.bridge.program.weight_elements import ElementFacts, element_facts

__all__ = [
    "ElementFacts",
    "OperatorFacts",
    "bind_weights",
    "check_are_tensors",
    "check_entry",
    "check_is_exported_program",
    "check_process_groups",
    "decode_context",
    "decode_program",
    "decode_values",
    "element_facts",
    "encode_program",
    "leave_out",
    "operator_facts",
    "record_tables",
    "signature_mismatches",
    "tell_omitted",
    "tensors_from_store",
]
