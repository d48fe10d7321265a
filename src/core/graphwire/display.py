"""Tables as HTML that notebooks show: bounded in size, every text escaped, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from graphwire.errors import escaped

MOST_ROWS: Final = 20
"""The maximum number of rows to show of a table."""
_MOST_TABLES = 24
_MOST_CHARACTERS = 160
"""The maximum length of a cell."""


class Table(NamedTuple):
    """A table with a title. It is not shown without rows."""

    title: str
    rows: Sequence[Sequence[str]]
    heads: Sequence[str] = ()


def tables_html(title: str, tables: Sequence[Table]) -> str:
    """Return tables as HTML, below a title. The first table is shown, the others unfold.

    Long texts, tables and lists of tables are cut, and say so."""
    shown = [table for table in tables if table.rows]
    parts = [f"<div><strong>{_text(title)}</strong>"]
    for index, table in enumerate(shown[:_MOST_TABLES]):
        rows = "".join(_rows(table))
        count = f" ({len(table.rows):,})" if table.heads else ""
        opened = "" if index else " open"
        parts.append(
            f"<details{opened}><summary>{_text(table.title)}{count}</summary><table>{rows}</table></details>"
        )
    if len(shown) > _MOST_TABLES:
        parts.append(f"<p>… and {len(shown) - _MOST_TABLES:,} more tables</p>")
    return "".join([*parts, "</div>"])


def _rows(table: Table) -> Iterator[str]:
    if table.heads:
        yield _row(table.heads, "th")
    yield from (_row(row, "td") for row in table.rows[:MOST_ROWS])
    if len(table.rows) > MOST_ROWS:
        yield f"<tr><td>… and {len(table.rows) - MOST_ROWS:,} more</td></tr>"


def _row(cells: Sequence[str], tag: str) -> str:
    style = ' style="text-align:left"'
    return f"<tr>{''.join(f'<{tag}{style}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}…"
    return escape(escaped(text))
