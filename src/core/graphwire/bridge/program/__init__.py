"""How is an `ExportedProgram` converted to a record and payloads, and back?"""

from graphwire.bridge.program.program import decode_program, encode_program, record_tables
from graphwire.bridge.program.program_check import check_exported
from graphwire.bridge.program.upgraded_check import signature_mismatches
