"""Sections of facts and tables, laid out as lines that fit a width.

The text comes from untrusted files, so it is escaped: no control character reaches the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from graphwire.errors import escaped, shortened

__all__ = ["Paint", "Section", "escaped", "section_lines", "size_text"]

Paint: TypeAlias = Callable[[str, str], str]
"""Returns a text in a style: `paint(text, "title")`."""

_LEAST = 12
"""Where a folded column would be narrower, a row is printed as a block of its own, with one line for each cell."""


class Section(NamedTuple):
    """A table with a title. Empty columns are not printed."""

    title: str
    columns: Sequence[str] = ()
    """The column heads; if empty, no heads are printed."""
    rows: Sequence[Sequence[str]] = ()
    numbers: frozenset[int] = frozenset()
    """The indices of right-aligned columns."""


def size_text(count: int) -> str:
    """Return a number of bytes as text, such as `12.2 KiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def section_lines(section: Section, width: int | None, paint: Paint) -> Iterator[str]:
    """Yield the lines of a section; none if it has no rows.

    Args:
        section: the section; its texts need not be escaped.
        width: the largest number of columns of a terminal that a line may take; None for any.
        paint: returns a text in a style.
    """
    if not section.rows:
        return
    shown = _without_empty_columns(section)
    if shown.title:
        yield from (paint(line, "title") for line in folded(shown.title, width))
    widths = [max(map(_width, column)) for column in zip(*_all_rows(shown), strict=True)]
    fitting = _fitting(widths, shown.numbers, width)
    if fitting is None:
        yield from _blocks(shown, width or 0, paint)
        return
    for index, row in enumerate(_all_rows(shown)):
        is_head = bool(shown.columns) and index == 0
        cells = [folded(cell, limit) for cell, limit in zip(row, fitting, strict=True)]
        for line in range(max(map(len, cells))):
            parts = []
            for column, (cell, limit) in enumerate(zip(cells, fitting, strict=True)):
                text = cell[line] if line < len(cell) else ""
                pad = " " * (limit - _width(text))
                style = "head" if is_head else "name" if not shown.columns and column == 0 else ""
                painted = paint(text, style) if text else ""
                parts.append(pad + painted if column in shown.numbers else painted + pad)
            yield f"  {'  '.join(parts)}".rstrip()


def _all_rows(section: Section) -> list[Sequence[str]]:
    return [section.columns, *section.rows] if section.columns else [*section.rows]


def _without_empty_columns(section: Section) -> Section:
    width = max([len(section.columns), *map(len, section.rows)])
    rows = [[escaped(shortened(cell)) for cell in row] + [""] * (width - len(row)) for row in section.rows]
    kept = [column for column in range(width) if any(row[column] for row in rows)] or [0]
    return Section(
        escaped(section.title),
        [section.columns[column] for column in kept] if section.columns else (),
        [[row[column] for column in kept] for row in rows],
        frozenset(place for place, column in enumerate(kept) if column in section.numbers),
    )


def _fitting(widths: Sequence[int], numbers: frozenset[int], width: int | None) -> list[int] | None:
    """Return the widths of columns that fit a terminal; None if a column would become too narrow to read.

    The widest columns are folded, all to one width. Numbers are not folded.
    """
    room = None if width is None else width - 2 * len(widths)
    if room is None or sum(widths) <= room:
        return [*widths]
    for limit in range(max(widths), _LEAST - 1, -1):
        fitting = [each if column in numbers else min(each, limit) for column, each in enumerate(widths)]
        if sum(fitting) <= room:
            return fitting
    return None


def _blocks(section: Section, width: int, paint: Paint) -> Iterator[str]:
    """Yield each row as a block: its first cell, and below it a line for each other cell, with the head of its column."""
    for row in section.rows:
        yield from (f"  {paint(line, 'name')}" for line in folded(row[0], max(width - 2, 1)))
        for column, cell in enumerate(row):
            if column and cell:
                head = f"{section.columns[column]}: " if section.columns else ""
                yield from (f"    {line}" for line in folded(f"{head}{cell}", max(width - 4, 1)))


def folded(text: str, width: int | None) -> list[str]:
    """Return a text as lines of at most `width` columns, broken behind spaces and commas; words that are longer than a line,
    such as the names of parameters and files, behind punctuation where they have any."""
    lines = []
    while width is not None and _width(text) > width:
        fitting, columns = 0, 0
        for character in text:
            columns += _columns(character)
            if columns > width:
                break
            fitting += 1
        fitting = max(fitting, 1)
        end = _line_end(text, fitting, width)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text] if text or not lines else lines


def _line_end(text: str, fitting: int, width: int) -> int:
    """Return where the first line of a text ends, of which `fitting` characters fit a line."""
    broken = max(text.rfind(" ", 0, fitting + 1), text.rfind(",", 0, fitting) + 1)
    word = text[broken:].lstrip().partition(" ")[0]
    if broken > 0 and (_width(word) <= width or broken > fitting // 2):
        return broken
    return max([text.rfind(mark, max(broken, 1), fitting) + 1 for mark in "._/-:="]) or fitting


def _width(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
