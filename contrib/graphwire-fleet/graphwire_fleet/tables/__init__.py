"""Which tables does a catalogue have, and how are rows encoded?"""

from graphwire_fleet.tables.columns import FILES, SCHEMA, TABLES, Column, Table
from graphwire_fleet.tables.encoding import decode_rows, encode_rows

__all__ = ["FILES", "SCHEMA", "TABLES", "Column", "Table", "decode_rows", "encode_rows"]
