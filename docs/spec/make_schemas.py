"""Writes the files of the specification that are derived from the records of graphwire: schemas, and the page of tables."""

from __future__ import annotations

from pathlib import Path

from graphwire.specification.tables import specification_files

if __name__ == "__main__":
    for name, text in specification_files().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
