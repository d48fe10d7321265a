"""The files of the specification that are derived from records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwire.schema import SCHEMA_VERSION
from graphwire.specification.cddl import cddl
from graphwire.specification.description import ROOTS, SUFFIXES, Description, describe
from graphwire.specification.json_schema import json_schema
from graphwire.specification.tables import records_page

_LANGUAGES: Final[dict[str, Callable[[Description, str], str]]] = {"json-schema": json_schema, "cddl": cddl}
RECORDS = "records.md"
"""The page with the tables of all records."""


def schema_text(kind: str, language: str) -> str:
    """Return the schema of a kind of document, a key of ROOTS, in a formal language, a key of SUFFIXES."""
    described = describe(kind)
    version = ".".join(map(str, SCHEMA_VERSION))
    title = f"graphwire {kind.replace('_', ' ')}, schema version {version}: {described.root.title}"
    return _LANGUAGES[language](described, title)


def specification_files() -> dict[str, str]:
    """Return the text of every derived file by name."""
    texts = {
        f"{kind}{suffix}": schema_text(kind, language)
        for kind in ROOTS
        for language, suffix in SUFFIXES.items()
    }
    return {RECORDS: records_page(), **texts}
