"""Converts an `ExportedProgram` to and from a record and payloads."""

from graphwire.bridge.program.program import decode_program, encode_program, record_tables
from graphwire.bridge.program.program_check import check_exported
from graphwire.bridge.program.upgraded_check import signature_mismatches
