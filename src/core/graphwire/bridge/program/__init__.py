"""How is an `ExportedProgram` converted to a record and payloads, and back?"""

from graphwire.bridge.program.binding import bind_weights, check_are_tensors, tensors_from_store
from graphwire.bridge.program.module import decode_module
from graphwire.bridge.program.process_groups import check_process_groups
from graphwire.bridge.program.program import decode_program, encode_program, record_tables
from graphwire.bridge.program.program_check import check_is_exported_program
from graphwire.bridge.program.torch_operators import OperatorFacts, operator_facts
from graphwire.bridge.program.upgraded_check import signature_mismatches
from graphwire.bridge.program.weight_elements import ElementFacts, element_facts

__all__ = [
    "ElementFacts",
    "OperatorFacts",
    "bind_weights",
    "check_are_tensors",
    "check_is_exported_program",
    "check_process_groups",
    "decode_module",
    "decode_program",
    "element_facts",
    "encode_program",
    "operator_facts",
    "record_tables",
    "signature_mismatches",
    "tensors_from_store",
]
