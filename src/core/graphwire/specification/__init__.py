"""How do programs in other languages learn what a file contains? JSON Schema, CDDL and tables, derived from the records."""
