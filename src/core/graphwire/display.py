"""Sections of facts and tables, which commands print, and notebooks show as HTML: bounded, escaped, loading nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from graphwire.errors import escaped

MOST_ROWS: Final = 20
"""The maximum number of rows to show of a table."""
_MOST_TABLES = 24
_MOST_CHARACTERS = 160
"""The maximum length of a cell."""


class Section(NamedTuple):
    """A table with a title. Without rows it is not shown; a command prints no empty columns."""

    title: str
    """The title, above the table."""
    columns: Sequence[str] = ()
    """The column heads; if empty, none are shown."""
    rows: Sequence[Sequence[str]] = ()
    """A text for each column, row by row."""
    numbers: frozenset[int] = frozenset()
    """The indices of columns that a command aligns to the right."""


def size_text(count: int) -> str:
    """Return a number of bytes as text, such as `12.2 KiB`."""
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return f"{count / 1024**power:,.1f} {'KMGT'[power - 1]}iB" if power else f"{count} B"


def sections_html(title: str, sections: Iterable[Section]) -> str:
    """Return sections as HTML, below a title. The first is shown, the others unfold.

    Long texts, tables and lists of tables are cut, and say so."""
    shown = [section for section in sections if section.rows]
    parts = [f"<div><strong>{_text(title)}</strong>"]
    for index, section in enumerate(shown[:_MOST_TABLES]):
        rows = "".join(_rows(section))
        count = f" ({len(section.rows):,})" if section.columns else ""
        opened = "" if index else " open"
        parts.append(
            f"<details{opened}><summary>{_text(section.title)}{count}</summary><table>{rows}</table></details>"
        )
    if len(shown) > _MOST_TABLES:
        parts.append(f"<p>… and {len(shown) - _MOST_TABLES:,} more tables</p>")
    return "".join([*parts, "</div>"])


def _rows(section: Section) -> Iterator[str]:
    if section.columns:
        yield _row(section.columns, "th")
    yield from (_row(row, "td") for row in section.rows[:MOST_ROWS])
    if len(section.rows) > MOST_ROWS:
        yield f"<tr><td>… and {len(section.rows) - MOST_ROWS:,} more</td></tr>"


def _row(cells: Sequence[str], tag: str) -> str:
    style = ' style="text-align:left"'
    return f"<tr>{''.join(f'<{tag}{style}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    from html import escape  # commands do without it

    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}…"
    return escape(escaped(text))
