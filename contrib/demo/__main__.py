"""Save and load three programs in every installed format, compare the outputs, and print a table of sizes and times.

    python contrib/demo [--runs N]

Exits with 1 if an output differs from the original by one bit or more.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from programs import Example
    from torch.export import ExportedProgram

TORCH = "torch.export"


class Way(NamedTuple):
    """A way to write a program to a file and read it back."""

    name: str
    save: Callable[[ExportedProgram, Path], object]
    load: Callable[[Path], ExportedProgram]


class Row(NamedTuple):
    """The measurements of one program saved in one way; times are medians in seconds."""

    program: str
    way: str
    program_bytes: int
    file_bytes: int
    save_seconds: float
    load_seconds: float
    equal: bool


def main() -> int:
    """Run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python contrib/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each save and load (default 5)")
    runs = max(1, parser.parse_args().runs)

    rows: list[Row] = []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("importing torch", total=None)
        # torch warns at import if NumPy is absent; the demo does not need it.
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
        from programs import PROGRAMS

        import graphwire

        ways = list(installed_ways())
        progress.update(task, total=len(PROGRAMS) * (1 + len(ways) * (runs + 2)), completed=0)
        for name, export in PROGRAMS.items():
            progress.update(task, description=f"{name}: exporting")
            example = export()
            progress.advance(task)
            with tempfile.TemporaryDirectory(prefix="graphwire-demo-") as folder:
                for step in measure(example, ways, Path(folder), runs, rows):
                    progress.update(task, description=f"{name}: {step}")
                    progress.advance(task)

    print_table(
        rows, f"graphwire {graphwire.__version__}: three programs, medians of {runs} interleaved runs"
    )
    wrong = [row for row in rows if not row.equal]
    for row in wrong:
        print(f"{row.program} saved as {row.way}: outputs differ from the original", file=sys.stderr)
    return 1 if wrong else 0


def installed_ways() -> Iterator[Way]:
    """Yield every installed wire format, then `torch.export.save` and `load`."""
    import torch
    from programs import Query, Span

    import graphwire

    for name in sorted(graphwire.Registry.discover().wire_formats):

        def save(program: ExportedProgram, file: Path, name: str = name) -> None:
            graphwire.save(program, file, format=name)

        yield Way(name, save, graphwire.load)

    def load(file: Path) -> ExportedProgram:
        # torch pickles the example inputs; without this list it would fall back to an unsafe unpickler.
        with torch.serialization.safe_globals([Query, Span]):
            return torch.export.load(file)

    yield Way(TORCH, torch.export.save, load)


def measure(example: Example, ways: list[Way], folder: Path, runs: int, rows: list[Row]) -> Iterator[str]:
    """Save and load `example` in every way, append a row for each to `rows`, and yield the name of each finished step.

    The ways are interleaved, so that a slow period of the machine affects all of them. The first run is a warm-up and does
    not count.
    """
    saves: dict[str, list[float]] = {way.name: [] for way in ways}
    loads: dict[str, list[float]] = {way.name: [] for way in ways}
    files = {way.name: folder / f"{way.name}.pt2" for way in ways}
    for run in range(runs + 1):
        for way in ways:
            gc.collect()  # Otherwise one way would pay for the garbage of another.
            started = time.perf_counter()
            way.save(example.program, files[way.name])
            saved = time.perf_counter()
            way.load(files[way.name])
            loaded = time.perf_counter()
            if run > 0:
                saves[way.name].append(saved - started)
                loads[way.name].append(loaded - saved)
            yield f"{way.name}, run {run} of {runs}"
    for way in ways:
        file = files[way.name]
        rows.append(
            Row(
                example.name,
                way.name,
                program_size(file),
                file.stat().st_size,
                statistics.median(saves[way.name]),
                statistics.median(loads[way.name]),
                same_outputs(example, way.load(file)),
            )
        )
        yield f"{way.name}, comparing outputs"


def program_size(file: Path) -> int:
    """Return the compressed size in bytes of everything under `models/`, which excludes weights."""
    with zipfile.ZipFile(file) as archive:
        return sum(
            member.compress_size
            for member in archive.infolist()
            if "models" in member.filename.split("/")[:-1]
        )


def same_outputs(example: Example, loaded: ExportedProgram) -> bool:
    """Return whether `loaded` returns the same structures and bits as the original, on every call of the example."""
    import torch
    from torch.utils._pytree import tree_flatten

    for args, kwargs in example.calls:
        expected, expected_structure = tree_flatten(example.program.module()(*args, **kwargs))
        actual, actual_structure = tree_flatten(loaded.module()(*args, **kwargs))
        if actual_structure != expected_structure or not all(map(torch.equal, expected, actual)):
            return False
    return True


def print_table(rows: list[Row], title: str) -> None:
    """Print the rows as a table with a section for each program."""
    table = Table(title=title)
    for column in ("program", "format"):
        table.add_column(column, no_wrap=True)
    for column in ("program bytes", "file bytes", "save ms", "load ms"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("outputs equal", justify="center", no_wrap=True)
    for index, row in enumerate(rows):
        table.add_row(
            row.program,
            row.way,
            f"{row.program_bytes:,}",
            f"{row.file_bytes:,}",
            f"{row.save_seconds * 1e3:,.1f}",
            f"{row.load_seconds * 1e3:,.1f}",
            "yes" if row.equal else "[bold red]NO[/]",
            style="dim" if row.way == TORCH else "",
            end_section=index + 1 == len(rows) or rows[index + 1].program != row.program,
        )
    # A pipe has no width, and a table cut to 80 columns would lose digits.
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)


if __name__ == "__main__":
    sys.exit(main())
