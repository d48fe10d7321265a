"""Print sections of facts and tables as plain text or, on a terminal, with rich.

The text comes from untrusted files, so it is escaped: no control character reaches the terminal. rich is imported only for
output to a terminal, because its import takes longer than the rest of a command.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TextIO

from graphwire.errors import escaped, shortened

__all__ = ["Section", "escaped", "print_json", "print_line", "print_sections", "size_text"]


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


def print_line(text: str, stream: TextIO) -> None:
    """Print one line; characters that the stream's encoding lacks are escaped."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def print_json(tree: Any, stream: TextIO) -> None:
    """Print plain data as JSON, in ASCII, so that nothing in it can control a terminal."""
    print_line(json.dumps(tree, indent=2), stream)


def print_sections(sections: Iterable[Section], stream: TextIO) -> None:
    """Print the non-empty sections, separated by blank lines."""
    shown = [_without_empty_columns(section) for section in sections if section.rows]
    if stream.isatty():
        _print_rich(shown, stream)
    else:
        for index, section in enumerate(shown):
            if index:
                print_line("", stream)
            for line in _plain_lines(section):
                print_line(line, stream)


def _without_empty_columns(section: Section) -> Section:
    width = max([len(section.columns), *map(len, section.rows)], default=0)
    rows = [[escaped(shortened(cell)) for cell in row] + [""] * (width - len(row)) for row in section.rows]
    kept = [column for column in range(width) if any(row[column] for row in rows)]
    return Section(
        escaped(section.title),
        [section.columns[column] for column in kept] if section.columns else (),
        [[row[column] for column in kept] for row in rows],
        frozenset(place for place, column in enumerate(kept) if column in section.numbers),
    )


def _plain_lines(section: Section) -> Iterable[str]:
    if section.title:
        yield section.title
    rows = [section.columns, *section.rows] if section.columns else section.rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if column in section.numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _print_rich(sections: Sequence[Section], stream: TextIO) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    for index, section in enumerate(sections):
        if index:
            console.print()
        if section.title:
            console.print(Text(section.title, style="bold"))
        box = SIMPLE_HEAD if section.columns else None
        table = Table(box=box, show_header=bool(section.columns), pad_edge=True, show_edge=False)
        for column, _ in enumerate(section.rows[0]):
            head = section.columns[column] if section.columns else ""
            style = "cyan" if not section.columns and column == 0 else ""
            justify = "right" if column in section.numbers else "left"
            table.add_column(Text(head), justify=justify, style=style, overflow="fold")  # type: ignore[arg-type]
        for row in section.rows:
            table.add_row(*map(Text, row))
        console.print(table)
