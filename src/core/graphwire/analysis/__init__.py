"""Validation, inspection, comparison and content hashes of programs, without torch."""
