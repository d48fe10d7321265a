"""Writes the tables of columns and questions into docs/fleet.md: `python contrib/graphwire-fleet/make_documentation.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphwire_fleet.questions import QUESTIONS
from graphwire_fleet.tables import TABLES

PAGE = Path(__file__).resolve().parents[2] / "docs/fleet.md"
_TYPES = {"string": "text", "int64": "integer", "double": "float", "bool": "boolean"}


def documented(page: str) -> str:
    """Return the page with its generated parts."""
    for name, lines in (("columns", columns()), ("questions", questions())):
        text = "\n".join(lines)
        page, count = re.subn(
            rf"(?s)<!-- {name} -->\n.*?<!-- /{name} -->",
            lambda _, name=name, text=text: f"<!-- {name} -->\n{text}\n<!-- /{name} -->",
            page,
        )
        if count != 1:
            raise ValueError(f"the page has no place for {name}")
    return page


def columns() -> Iterator[str]:
    for table in TABLES.values():
        yield f"\n`{table.name}`: {table.help}\n"
        yield "| column | type | |"
        yield "|---|---|---|"
        for each in table.columns:
            yield f"| `{each.name}` | {type_text(each.type)} | {each.help} |"
    yield ""


def type_text(type: Any) -> str:
    """Return a type as SQL shows it, in words."""
    import pyarrow as pa

    if pa.types.is_struct(type):
        return f"({', '.join(f'{each.name}' for each in type)})"
    if pa.types.is_map(type):
        return f"map of {type_text(type.key_type)} to {type_text(type.item_type)}"
    if pa.types.is_list(type):
        return f"list of {type_text(type.value_type)}"
    return _TYPES.get(str(type), "time")


def questions() -> Iterator[str]:
    yield "\n| command | answer |"
    yield "|---|---|"
    for name, each in QUESTIONS.items():
        places = ["CATALOGUE" if schema == "main" else schema.upper() for schema in each.catalogues]
        words = [
            f"[{parameter.name} {parameter.name[2:].upper()}]"
            if parameter.name.startswith("--")
            else parameter.name
            for parameter in each.parameters
        ]
        yield f"| `graphwire fleet {' '.join([name, *places, *words])}` | {each.help} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(documented(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
