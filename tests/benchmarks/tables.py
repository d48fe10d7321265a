"""What was measured, as rows and as the tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

__all__ = [
    "TORCH",
    "Comparison",
    "ProgramRow",
    "StepRow",
    "WeightsRow",
    "comparisons_table",
    "programs_table",
    "scaling_table",
    "steps_table",
    "weights_table",
]

TORCH = "torch.export"
"""The way that the others are compared with."""


@dataclass(frozen=True)
class ProgramRow:
    """A program saved and loaded one way. Times are medians in seconds."""

    program: str
    nodes: int
    way: str
    save_seconds: float
    """To a path."""
    keep_seconds: float
    """To a stream in memory."""
    load_seconds: float
    program_bytes: int
    """What the program takes in the archive, as stored, without weights."""


@dataclass(frozen=True)
class WeightsRow:
    """One action on a program that is nearly all weights. Times are medians in seconds."""

    action: str
    mebibytes: int
    graphwire_seconds: float
    torch_seconds: float
    write_seconds: float | None
    """A plain write of the same bytes, with fsync."""
    graphwire_extra_bytes: int | None
    torch_extra_bytes: int | None


@dataclass(frozen=True)
class MemoryRow:
    """The peak memory of one action on a graph of many nodes, each in a fresh process."""

    action: str
    nodes: int
    graphwire_extra_bytes: int | None
    torch_extra_bytes: int | None


@dataclass(frozen=True)
class StepRow:
    """One step of a save or load, or a floor under them. Times are medians in seconds."""

    program: str
    action: str
    """`save`, `load` or `floor`."""
    step: str
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """What graphwire takes for something, beside what something else takes. Times are medians in seconds."""

    what: str
    seconds: float
    against: str
    against_seconds: float


def memory_table(rows: list[MemoryRow]) -> Table:
    """Peaks beyond what the process had."""
    table = Table(title=f"memory of {rows[0].nodes:,} nodes")
    table.add_column("action", no_wrap=True)
    table.add_column("graphwire extra MiB", justify="right")
    table.add_column("torch extra MiB", justify="right")
    for row in rows:
        table.add_row(row.action, _mebibytes(row.graphwire_extra_bytes), _mebibytes(row.torch_extra_bytes))
    return table


def comparisons_table(rows: list[Comparison]) -> Table:
    """The ratio is the first time divided by the second."""
    table = Table(title="beside other things")
    table.add_column("graphwire", no_wrap=True)
    table.add_column("ms", justify="right")
    table.add_column("beside", no_wrap=True)
    table.add_column("ms", justify="right")
    table.add_column("ratio", justify="right")
    for row in rows:
        table.add_row(
            row.what,
            _milliseconds(row.seconds),
            row.against,
            _milliseconds(row.against_seconds),
            _ratio(row.seconds, row.against_seconds),
        )
    return table


def steps_table(rows: list[StepRow]) -> Table:
    """A section for save, for load and for the floors."""
    table = Table(title=f"steps: {rows[0].program}, JSON")
    table.add_column("")
    table.add_column("step", no_wrap=True)
    table.add_column("ms", justify="right")
    for index, row in enumerate(rows):
        first = index == 0 or rows[index - 1].action != row.action
        last = index + 1 == len(rows) or rows[index + 1].action != row.action
        table.add_row(row.action if first else "", row.step, f"{row.seconds * 1e3:,.2f}", end_section=last)
    return table


def programs_table(rows: list[ProgramRow], title: str) -> Table:
    """A section a program; every ratio is torch's number divided by ours, so more is better."""
    table = Table(title=f"torch.export ÷ graphwire: {title}")
    for column in ("program", "format"):
        table.add_column(column, no_wrap=True)
    for column in (
        "nodes",
        "save ratio",
        "in memory",
        "load ratio",
        "bytes ratio",
        "save ms",
        "load ms",
        "program bytes",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for row, theirs, last in _beside_torch(rows):
        ratios = [
            _ratio(theirs.save_seconds, row.save_seconds),
            _ratio(theirs.keep_seconds, row.keep_seconds),
            _ratio(theirs.load_seconds, row.load_seconds),
            _ratio(theirs.program_bytes, row.program_bytes),
        ]
        table.add_row(
            row.program,
            row.way,
            f"{row.nodes:,}",
            *([""] * 4 if row is theirs else ratios),
            _milliseconds(row.save_seconds),
            _milliseconds(row.load_seconds),
            f"{row.program_bytes:,}",
            style="dim" if row is theirs else "",
            end_section=last,
        )
    return table


def scaling_table(rows: list[ProgramRow]) -> Table:
    """As the table of programs; its last rows say how often the time of the smallest scale the largest takes."""
    table = programs_table(rows, "unbind, one node an output")
    for way in dict.fromkeys(row.way for row in rows):
        least, *_, most = (row for row in rows if row.way == way)
        table.add_row(
            "growth",
            way,
            _times(most.nodes, least.nodes),
            *[""] * 4,
            _times(most.save_seconds, least.save_seconds),
            _times(most.load_seconds, least.load_seconds),
            _times(most.program_bytes, least.program_bytes),
        )
    return table


def weights_table(rows: list[WeightsRow]) -> Table:
    """Every ratio of the first kind is torch's time divided by ours; the second is ours divided by the plain write's."""
    table = Table(title=f"{rows[0].mebibytes:,} MiB of weights")
    table.add_column("action", no_wrap=True)
    for column in (
        "torch ÷ ours",
        "ours ÷ write",
        "graphwire ms",
        "torch ms",
        "write + fsync ms",
        "graphwire extra MiB",
        "torch extra MiB",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.action,
            _ratio(row.torch_seconds, row.graphwire_seconds),
            "" if row.write_seconds is None else _ratio(row.graphwire_seconds, row.write_seconds),
            _milliseconds(row.graphwire_seconds),
            _milliseconds(row.torch_seconds),
            "" if row.write_seconds is None else _milliseconds(row.write_seconds),
            _mebibytes(row.graphwire_extra_bytes),
            _mebibytes(row.torch_extra_bytes),
        )
    return table


def _beside_torch(rows: list[ProgramRow]) -> Iterator[tuple[ProgramRow, ProgramRow, bool]]:
    """Each row, torch's row of the same program, and whether it is the program's last."""
    theirs = {row.program: row for row in rows if row.way == TORCH}
    for index, row in enumerate(rows):
        yield row, theirs[row.program], index + 1 == len(rows) or rows[index + 1].program != row.program


def _ratio(numerator: float, denominator: float) -> str:
    return (
        f"{numerator / denominator:,.2f}"
        if numerator < 10 * denominator
        else f"{numerator / denominator:,.1f}"
    )


def _times(most: float, least: float) -> str:
    return f"x {_ratio(most, least)}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f}"


def _mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:,.1f}"
