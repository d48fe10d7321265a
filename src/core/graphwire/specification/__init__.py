"""How do programs in other languages learn what a file contains? JSON Schema, CDDL and tables, derived from the records."""

from graphwire.specification.description import ROOTS, SUFFIXES, describe
from graphwire.specification.forms import schema_text, specification_files
from graphwire.specification.tables import records_page

__all__ = ["ROOTS", "SUFFIXES", "describe", "records_page", "schema_text", "specification_files"]
