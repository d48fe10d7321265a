"""Writes what is made from the table of operations: the tables of expressions.md, and that of graphwire-js."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from graphwire.schema.texts.operations import FUNCTIONS, OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/spec/expressions.md"
SCRIPT = ROOT / "contrib/graphwire-js/src/operations.ts"
ARITIES = {name: (row.least, row.most) for name, row in OPERATIONS.items()}


def table(arities: Mapping[str, tuple[int, int | None]]) -> str:
    """Return the lines of a table: for each number of operands the names."""
    found: dict[tuple[int, int | None], list[str]] = {}
    for name, arity in arities.items():
        found.setdefault(arity, []).append(name)
    lines = []
    for (least, most), names in sorted(found.items(), key=lambda row: (row[0][1] is None, row[0])):
        count = f"{least} or more" if most is None else f"{least} or {most}" if most > least else f"{least}"
        lines.append(f"| {count} | {' '.join(f'`{name}`' for name in sorted(names, key=str.lower))} |\n")
    return "".join(lines)


def page(text: str) -> str:
    """Return the page with the tables of [EXP-4] and [EXP-35] made again."""
    for rule, arities in (("EXP-4", ARITIES), ("EXP-35", FUNCTIONS)):
        pattern = rf"(\*\*\[{rule}\]\*\*(?:(?!\*\*\[).)*?\n\|---\|---\|\n)(?:\|[^\n]*\n)+"
        text = re.sub(pattern, lambda found, made=arities: found[1] + table(made), text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def script() -> str:
    """Return the module of graphwire-js."""

    def rows(given: Iterable[tuple[object, ...]]) -> str:
        return "".join(f"  [{', '.join(map(_literal, row))}],\n" for row in given)

    operations = rows((r.name, r.least, r.most, r.sign, r.call, r.binding) for r in OPERATIONS.values())
    functions = rows((name, *arity) for name, arity in FUNCTIONS.items())
    return f"""\
// `python docs/spec/make_operations.py` makes this file from src/core/graphwire/schema/texts/operations.py. Edit that.

/** The operations: their names, how many operands they take, their signs and calls in infix text, and how tightly calls bind. */
export const OPERATION_ROWS: readonly (readonly [
  name: string, least: number, most: number, sign: string, call: string, binding: number,
])[] = [
{operations}];

/** The functions of guards, and how many arguments they take. */
export const FUNCTION_ROWS: readonly (readonly [name: string, least: number, most: number])[] = [
{functions}];
"""


def _literal(value: object) -> str:
    return "Infinity" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def files() -> dict[Path, str]:
    """Return the text of each file."""
    return {PAGE: page(PAGE.read_text("utf-8")), SCRIPT: script()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
