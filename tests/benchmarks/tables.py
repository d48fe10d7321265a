"""The tables that a person reads, made of the numbers of a run: for the terminal, and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from samples import Numbers

from graphwire.hooks import Section

__all__ = ["TABLES", "Table", "markdown", "section"]

TORCH = "torch.export"
SMALL = {
    "lenet": "LeNet-5",
    "graph-convolution": "graph convolution, two layers",
    "autoencoder": "variational autoencoder",
    "words": "bag of words",
    "alexnet": "AlexNet, narrow",
}
"""The programs of the second table, most of whose time is spent on weights."""
LARGE = {
    "programs/decoder-12-dynamic": "decoder, 12 layers, dynamic shapes",
    "programs/decoder-48-static": "decoder, 48 layers, static",
    "programs/convnet": "convnet",
    "scaling/unbind-1600": "`unbind` of 1,600",
    "scaling/unbind-16000": "`unbind` of 16,000",
    "compiled/decomposed": "decoder, 12 layers, decomposed to core operators",
    "compiled/joint": "decoder, 12 layers, forward and backward",
}
"""The programs of the first table."""
FLOORS = {
    "perceptron": "perceptron, three layers",
    "lenet": "LeNet-5",
    "decoder-12-dynamic": "decoder, 12 layers, dynamic shapes",
    "decoder-48-static": "decoder, 48 layers, static",
    "unbind-1600": "`unbind` of 1,600",
}
"""The programs whose loads are compared with the least that they can take."""
STARTS = ("a bare Python", "`import torch`")
"""The processes that the others after them are compared with."""
FORMATS = {"json": "JSON", "msgpack": "msgpack", "cbor": "CBOR"}


class Table(NamedTuple):
    """A table of texts. Numbers are right-aligned."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def programs(numbers: Numbers) -> Table:
    """torch's time divided by ours, of processor time, for each program and format."""
    rows = []
    for name, title in LARGE.items():
        nodes = numbers.median(name, "nodes", "1")
        for format, format_title in FORMATS.items():
            if nodes is None or numbers.median(f"{name}/{format}", "load") is None:
                continue
            ratios = [
                _ratio_of(numbers, f"{name}/{TORCH}", f"{name}/{format}", action, "cpu s")
                for action in ("save in memory", "save to a path", "load")
            ]
            ours, theirs = (numbers.median(f"{name}/{way}", "program", "B") for way in (format, TORCH))
            smaller = f"1/{theirs / ours:.0f}" if ours and theirs else ""
            first = (title, f"{nodes:,.0f}") if format == "json" else ("", "")
            rows.append((first[0], format_title, first[1], *ratios, smaller))
    header = (
        "program", "format", "nodes", "save, in memory", "save, to a path", "load", "program bytes"
    )  # fmt: skip
    return Table("torch.export ÷ graphwire, processor time", header, rows)


def small_programs(numbers: Numbers) -> Table:
    """torch's time divided by ours, of processor time, for programs with weights."""
    rows = []
    for name, title in SMALL.items():
        case = f"programs/{name}"
        nodes = numbers.median(case, "nodes", "1")
        if nodes is not None:
            ratios = [
                _ratio_of(numbers, f"{case}/{TORCH}", f"{case}/json", action, "cpu s")
                for action in ("save in memory", "save to a path", "load")
            ]
            held = numbers.median(case, "weights", "B")
            rows.append((title, f"{nodes:,.0f}", "" if held is None else _two_digits(held / 1e6), *ratios))
    header = ("program", "nodes", "weights, MB", "save, in memory", "save, to a path", "load")
    return Table("torch.export ÷ graphwire, processor time", header, rows)


def program_times(numbers: Numbers) -> Table:
    """The milliseconds behind the ratios."""
    rows = []
    for name in numbers.cases("programs/"):
        program, _, way = name.partition("/")
        if way:
            for action in numbers.metrics(f"programs/{name}", "s"):
                wall, cpu = (numbers.median(f"programs/{name}", action, unit) for unit in ("s", "cpu s"))
                rows.append((program, way, action, _milliseconds(wall), _milliseconds(cpu)))
    return Table("medians", ("program", "way", "action", "ms", "processor ms"), rows)


def weights(numbers: Numbers) -> Table:
    """Saves and loads of a program that is nearly all weights."""
    rows = []
    for case in numbers.cases("weights/"):
        size, _, library = case.partition("/")
        name = f"weights/{case}"
        for action in numbers.metrics(name, "s"):
            extra = numbers.median(name, f"{action}, extra memory", "B")
            seconds, cpu = (numbers.median(name, action, unit) for unit in ("s", "cpu s"))
            rows.append((f"{action}, {size}", library, _seconds(seconds), _seconds(cpu), _mebibytes(extra)))
    rows.sort(key=lambda row: row[0])
    return Table("weights", ("action", "library", "seconds", "processor seconds", "extra MiB"), rows)


def large_weights(numbers: Numbers) -> Table:
    """What a save and loads add to plain writing, reading and hashing, in seconds of processor time."""
    rows = []
    for size in dict.fromkeys(case.partition("/")[0] for case in numbers.cases("weights/")):
        for action, plain in _PLAIN.items():
            ours = numbers.median(f"weights/{size}/graphwire", action, "cpu s")
            theirs = numbers.median(f"weights/{size}/plain", plain, "cpu s")
            rows.append((f"{action}, {size}", _seconds(ours), plain, _seconds(theirs), _ratio(ours, theirs)))
    return Table("large weights", ("graphwire", "seconds", "beside", "seconds", "ratio"), rows)


_PLAIN = {"save": "write and hash", "load, verify": "read and hash", "load, copy": "read all and hash"}
"""What each action on large weights has to do at least."""


def stores(numbers: Numbers) -> Table:
    """Weights outside of the file, each action beside another library's, in seconds of processor time."""
    rows = []
    for case in numbers.cases("stores/"):
        (_, ours), (against, theirs) = _both(numbers, f"stores/{case}")
        rows.append((case.partition("/")[2], _seconds(ours), against, _seconds(theirs)))
    return Table("weights outside of the file", ("step", "seconds", "beside", "seconds"), rows)


def beside(numbers: Numbers) -> Table:
    """Each comparison, in milliseconds of processor time; the ratio is ours divided by the other's."""
    rows = []
    for case in numbers.cases("beside/"):
        (_, ours), (against, theirs) = _both(numbers, f"beside/{case}")
        rows.append((case, _milliseconds(ours), against, _milliseconds(theirs), _ratio(ours, theirs)))
    for action in ("save", "load"):
        few, many = (numbers.median(f"scaling/chain-{nodes}", action, "cpu s") for nodes in (10_000, 100_000))
        if few and many:
            what = f"{action} 100,000 nodes of a chain", _milliseconds(many), "10,000 nodes"
            rows.append((*what, _milliseconds(few), _ratio(many, few)))
    return Table("beside other things", ("graphwire", "ms", "beside", "ms", "ratio"), rows)


def _both(numbers: Numbers, name: str) -> list[tuple[str, float | None]]:
    """The two metrics of a comparison, each with its median."""
    return [(each, numbers.median(name, each, "cpu s")) for each in numbers.metrics(name, "cpu s")]


def memory(numbers: Numbers) -> Table:
    """What the peak of an action adds to the memory of a fresh process, for a graph of many nodes."""
    rows = []
    for case in numbers.cases("scaling/"):
        program, _, library = case.partition("/")
        for action in ("save", "load"):
            extra = numbers.median(f"scaling/{case}", f"{action}, extra memory", "B")
            if extra is not None:
                rows.append((f"{action}, {program}", library, _mebibytes(extra)))
    return Table("memory", ("action", "library", "extra MiB"), rows)


def steps(numbers: Numbers) -> Table:
    """What each step of a save and a load takes, in milliseconds of processor time, and the floors below them."""
    rows = []
    for case in numbers.cases("steps/"):
        action = case.rpartition("/")[2]
        for index, step in enumerate(numbers.metrics(f"steps/{case}", "s")):
            cpu = numbers.median(f"steps/{case}", step, "cpu s")
            title = step.strip() if step == step.strip() else f"· {step.strip()}"
            rows.append(("" if index else action, title, _milliseconds(cpu)))
    return Table("steps", ("", "step", "processor ms"), rows)


def floor(numbers: Numbers) -> Table:
    """The least that a load can take in Python, and the processor time of saves and loads divided by it."""
    header = ("program", "nodes", "floor, ms", "load ÷ floor", "save ÷ floor", "`torch.export.load` ÷ floor")
    rows = []
    for case, title in FLOORS.items():
        name = f"floor/{case}"
        least = numbers.median(name, "floor", "cpu s")
        if least is None:
            continue
        actions = ("load", "save to a path", "load of torch.export")
        ratios = [_ratio(numbers.median(name, action, "cpu s"), least) for action in actions]
        nodes = numbers.median(name, "nodes", "1")
        rows.append((title, f"{nodes:,.0f}", _milliseconds(least), *ratios))
    return Table("floor", header, rows)


def starts(numbers: Numbers) -> Table:
    """Whole processes, in seconds of processor time; the ratio is to what the group begins with."""
    rows = []
    first: float | None = None
    for case in numbers.cases("starts/"):
        seconds = numbers.median(f"starts/{case}", "process", "cpu s")
        if case in STARTS:
            first = seconds
        rows.append((case, _seconds(seconds), _ratio(seconds, first)))
    return Table("processes", ("process", "seconds", "ratio"), rows)


def many_nodes(numbers: Numbers) -> Table:
    """What each command takes on a program of many nodes."""
    return _large(numbers, lambda case: case.endswith("nodes"))


def many_weights(numbers: Numbers) -> Table:
    """What each command takes on weights of many times the memory."""
    return _large(numbers, lambda case: "GiB" in case)


def _large(numbers: Numbers, chosen: Callable[[str], bool]) -> Table:
    rows = []
    for case in filter(chosen, numbers.cases("large/")):
        name = f"large/{case}"
        for index, action in enumerate(numbers.metrics(name, "cpu s")):
            memory = _mebibytes(numbers.median(name, f"{action}, memory", "B"))
            rows.append(
                ("" if index else case, action, _seconds(numbers.median(name, action, "cpu s")), memory)
            )
    return Table("large programs", ("", "action", "seconds", "memory, MiB"), rows)


def environment(numbers: Numbers) -> Table:
    """The machine and the versions."""
    machine = numbers.machine
    rows = [
        ("processor", f"{machine['processor']}, {machine['processors']} of them, {machine['architecture']}"),
        ("memory", f"{machine['memory'] / 2**30:.0f} GiB"),
        ("system", str(machine["system"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in numbers.versions.items())),
    ]
    return Table("measured on", ("", ""), rows)


TABLES: dict[str, Callable[[Numbers], Table]] = {
    "programs": programs,
    "small programs": small_programs,
    "program times": program_times,
    "weights": weights,
    "large weights": large_weights,
    "stores": stores,
    "memory": memory,
    "steps": steps,
    "floor": floor,
    "beside": beside,
    "starts": starts,
    "many nodes": many_nodes,
    "many weights": many_weights,
    "environment": environment,
}
"""Every table, by the name that its marker in docs/performance.md has."""


def section(table: Table) -> Section:
    """The table for the terminal."""
    rows = [[text.replace("`", "") for text in row] for row in table.rows]
    numbers = [column for column, right in enumerate(_right_aligned(table)) if right]
    return Section(table.title, table.header, rows, frozenset(numbers))


def markdown(table: Table) -> Iterator[str]:
    """The lines of the table in Markdown."""
    yield _line(table.header)
    yield _line("---:" if right else "---" for right in _right_aligned(table))
    yield from map(_line, table.rows)


def _line(cells: Iterable[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def _right_aligned(table: Table) -> list[bool]:
    """Whether each column has numbers alone."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    return [any(cells) and all(not text or _is_number(text) for text in cells) for cells in columns]


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("/", "").isdigit()


def _ratio_of(numbers: Numbers, theirs: str, ours: str, metric: str, unit: str = "s") -> str:
    return _ratio(numbers.median(theirs, metric, unit), numbers.median(ours, metric, unit))


def _ratio(numerator: float | None, denominator: float | None) -> str:
    """Two digits; more would be noise."""
    return _two_digits(numerator / denominator) if numerator is not None and denominator else ""


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else _two_digits(seconds * 1e3)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else _two_digits(seconds)


def _mebibytes(count: float | None) -> str:
    return "" if count is None else _two_digits(count / 2**20)


def _two_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}" if number >= 1 else f"{number:.2g}"
