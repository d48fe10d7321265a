"""Time, size and memory of graphwire against `torch.export.save` and `load`, in one process, as ratios.

    python tests/benchmarks/bench.py [--runs N] [--large] [--scaling] [--json FILE]
    python tests/benchmarks/bench.py --steps [--program NAME]
    python tests/benchmarks/bench.py --profile {save,load} [--program NAME] [--format FORMAT]

README.md says what each row means. Nothing is asserted: a ratio is to be read by somebody who knows the machine.
"""

from __future__ import annotations

import argparse
import cProfile
import ctypes
import io
import json
import os
import platform
import pstats
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from tables import (
    TORCH,
    Comparison,
    MemoryRow,
    ProgramRow,
    StepRow,
    WeightsRow,
    comparisons_table,
    memory_table,
    programs_table,
    scaling_table,
    steps_table,
    weights_table,
)

if TYPE_CHECKING:
    from torch.export import ExportedProgram

SMALL = ("lenet", "graph-convolution", "autoencoder", "words", "alexnet")
PROGRAMS = ("decoder-12-dynamic", "decoder-48-static", "convnet", *SMALL)
SCALES = (1_600, 16_000)
"""How many outputs the `unbind` has."""
CHAINS = (10_000, 100_000)
"""How many nodes the chains of operators have."""


class Bench(NamedTuple):
    """What all measurements need."""

    turns: int
    clock: Callable[[], float]
    collect: bool
    """Whether garbage is collected before each save and load of a program."""
    folder: Path
    progress: Progress


class Way(NamedTuple):
    """One way to write a program to a file and to read it back."""

    name: str
    save: Callable[[ExportedProgram, Path | BinaryIO], object]
    load: Callable[[Path], ExportedProgram]


def main() -> int:
    """Run what the arguments ask for; the exit code."""
    options = _arguments()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        tempfile.TemporaryDirectory(prefix="graphwire-bench-", dir=options.folder) as folder,
    ):
        with _task(progress, "importing torch"):
            # torch says so at import where NumPy is absent; nothing here needs it.
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
            from timing import CLOCKS

            bench = Bench(options.runs, CLOCKS[options.clock], options.collect, Path(folder), progress)
        if options.profile:
            profile = profiled(bench, options.profile, options.program[0], options.format)
        elif options.steps:
            steps = [measured_steps(bench, name) for name in options.program]
        else:
            programs = [row for name in options.program for row in measure_program(bench, name)]
            weights = [] if options.no_weights else measure_weights(bench, 1024 if options.large else 256)
            scaling = measure_scaling(bench) if options.scaling else []
            memory = measure_memory(bench, min(CHAINS)) if options.scaling else []
            compared = measure_comparisons(bench, 1024 if options.large else 256) if options.beside else []
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return 0
    # A pipe has no width of its own; a table cut to 80 columns would lose digits.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    if options.steps:
        for rows in steps:
            console.print(steps_table(rows))
        return 0
    console.print(
        programs_table(programs, f"medians of {options.runs} interleaved runs, {options.clock} time")
    )
    if weights:
        console.print(weights_table(weights))
    if scaling:
        console.print(scaling_table(scaling))
        console.print(memory_table(memory))
    if compared:
        console.print(comparisons_table(compared))
    if options.json:
        rows = {
            "programs": programs,
            "weights": weights,
            "scaling": scaling,
            "memory": memory,
            "beside": compared,
        }
        document = {
            "environment": environment(options),
            **{k: [asdict(row) for row in v] for k, v in rows.items()},
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="turns that are counted, after one that warms up (default 5)"
    )
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="what is measured (default wall)"
    )
    parser.add_argument(
        "--collect",
        action="store_true",
        help="collect garbage before each save and load of a program; by default the collector is left alone",
    )
    parser.add_argument(
        "--program", action="append", choices=PROGRAMS, help="only this program; may be repeated"
    )
    parser.add_argument("--no-weights", action="store_true", help="leave the weights out")
    parser.add_argument("--large", action="store_true", help="1 GiB of weights instead of 256 MiB")
    parser.add_argument(
        "--scaling",
        action="store_true",
        help="add unbind of 1,600 and of 16,000, and the memory of 10,000 nodes (minutes, for torch)",
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="add threads, large graphs, whole processes, and safetensors and ONNX where they are installed",
    )
    parser.add_argument(
        "--folder", type=Path, help="where files are written (default: the system's temporary folder)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all numbers to FILE, in seconds and bytes"
    )
    parser.add_argument(
        "--steps", action="store_true", help="print what each step of a save and a load costs"
    )
    parser.add_argument(
        "--profile", choices=["save", "load"], help="print the functions that one action spends most in"
    )
    parser.add_argument("--format", default="json", help="the wire format of the profile (default json)")
    options = parser.parse_args()
    options.runs = max(1, options.runs)
    options.program = options.program or list(PROGRAMS)
    return options


@contextmanager
def _task(progress: Progress, description: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A line of progress; the function that is given advances it and says what was done."""
    task = progress.add_task(description, total=total)
    yield lambda step: progress.update(task, advance=1, description=f"{description}: {step}")
    progress.remove_task(task)


def environment(options: argparse.Namespace) -> dict[str, Any]:
    """What the numbers depend on."""
    import torch

    import graphwire

    return {
        "graphwire": graphwire.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "processors": os.cpu_count(),
        "runs": options.runs,
        "clock": options.clock,
        "collect": options.collect,
    }


# --- programs -------------------------------------------------------------------------------------------------


def installed_ways() -> list[Way]:
    """torch's own pair, then every wire format that is installed here."""
    import torch

    import graphwire

    def way(format: str) -> Way:
        return Way(format, lambda program, file: graphwire.save(program, file, format=format), graphwire.load)

    formats = sorted(graphwire.Registry.discover().wire_formats)
    return [Way(TORCH, torch.export.save, torch.export.load), *map(way, formats)]


def measure_program(bench: Bench, name: str) -> list[ProgramRow]:
    """A row for each way."""
    from cases import PROGRAMS as MAKERS

    with _task(bench.progress, f"{name}: exporting"):
        program = MAKERS[name]()
    return _measure_ways(bench, name, program, installed_ways(), turns=bench.turns)


def _measure_ways(
    bench: Bench, name: str, program: ExportedProgram, ways: list[Way], *, turns: int, warm_up: bool = True
) -> list[ProgramRow]:
    from timing import Step, interleaved

    files = {way.name: bench.folder / f"{way.name}.pt2" for way in ways}
    steps = {}
    for way in ways:
        file = files[way.name]
        steps[f"save {way.name}"] = Step(lambda way=way, file=file: way.save(program, file))
        steps[f"keep {way.name}"] = Step(lambda way=way: way.save(program, io.BytesIO()))
        steps[f"load {way.name}"] = Step(lambda way=way, file=file: way.load(file))
    with _task(bench.progress, name, len(steps) * (turns + warm_up)) as done:
        seconds = interleaved(
            steps,
            turns=turns,
            clock=bench.clock,
            done=done,
            warm_up=warm_up,
            collect=bench.collect,
            shuffled=warm_up,  # in which the files were saved that are loaded
        )
    return [
        ProgramRow(
            name,
            len(program.graph.nodes),
            way.name,
            seconds[f"save {way.name}"],
            seconds[f"keep {way.name}"],
            seconds[f"load {way.name}"],
            program_size(files[way.name]),
        )
        for way in ways
    ]


def program_size(file: Path) -> int:
    """Bytes that the program takes in the archive, without weights: all that lies under `models/`."""
    with zipfile.ZipFile(file) as archive:
        return sum(
            member.compress_size
            for member in archive.infolist()
            if "models" in member.filename.split("/")[:-1]
        )


def measured_steps(bench: Bench, name: str) -> list[StepRow]:
    """What each step of saving and loading a program costs."""
    from cases import PROGRAMS as MAKERS
    from steps import measure_steps

    with _task(bench.progress, f"{name}: exporting"):
        program = MAKERS[name]()
    with _task(bench.progress, f"{name}: its steps"):
        return measure_steps(name, program, bench.folder / "steps.pt2", turns=bench.turns, now=bench.clock)


def profiled(bench: Bench, action: str, name: str, format: str) -> cProfile.Profile:
    """The profile of one save or load, after one that warms up."""
    from cases import PROGRAMS as MAKERS

    import graphwire

    with _task(bench.progress, f"{name}: exporting"):
        program = MAKERS[name]()
    file = bench.folder / "profiled.pt2"
    graphwire.save(program, file, format=format)
    graphwire.load(file)
    # Processor time: on a busy machine, whoever was interrupted would look slow.
    with cProfile.Profile(time.process_time) as profile:
        if action == "save":
            graphwire.save(program, file, format=format)
        else:
            graphwire.load(file)
    return profile


# --- weights --------------------------------------------------------------------------------------------------


def measure_weights(bench: Bench, mebibytes: int) -> list[WeightsRow]:
    """Save, load, and load with a look at every page, of a program that is nearly all weights."""
    import torch
    from cases import weighty
    from peak_memory import extra_bytes
    from timing import Step, interleaved

    import graphwire

    name = f"{mebibytes} MiB of weights"
    with _task(bench.progress, f"{name}: exporting"):
        program = weighty(mebibytes)
    plain, ours, theirs = (bench.folder / each for each in ("plain.bin", "graphwire.pt2", "torch.pt2"))

    def write() -> None:
        with plain.open("wb", buffering=0) as file:
            for tensor in program.state_dict.values():
                file.write(_memory(tensor))
            os.fsync(file.fileno())

    steps = {
        "plain write": Step(write, lambda: plain.unlink(missing_ok=True)),
        "graphwire save": Step(lambda: graphwire.save(program, ours), lambda: ours.unlink(missing_ok=True)),
        "torch save": Step(
            lambda: torch.export.save(program, theirs),
            lambda: theirs.unlink(missing_ok=True),
            lambda: _sync(theirs),
        ),
        "graphwire load": Step(lambda: graphwire.load(ours)),
        "torch load": Step(lambda: torch.export.load(theirs)),
        "graphwire load and read": Step(lambda: _read(graphwire.load(ours))),
        "torch load and read": Step(lambda: _read(torch.export.load(theirs))),
    }
    turns = min(bench.turns, 3)
    with _task(bench.progress, name, len(steps) * (turns + 1)) as done:
        seconds = interleaved(steps, turns=turns, clock=bench.clock, done=done)
    memory: dict[str, int | None] = {}
    with _task(bench.progress, f"{name}: peak memory", 4) as done:
        for library, file in (("graphwire", ours), ("torch", theirs)):
            for action in ("save", "load"):
                memory[f"{library} {action}"] = extra_bytes(library, action, f"weighty-{mebibytes}", file)
                done(f"{library} {action}")
    return [
        WeightsRow(
            action,
            mebibytes,
            seconds[f"graphwire {action}"],
            seconds[f"torch {action}"],
            seconds["plain write"] if action == "save" else None,
            memory.get(f"graphwire {action}"),
            memory.get(f"torch {action}"),
        )
        for action in ("save", "load", "load and read")
    ]


def _memory(tensor: Any) -> memoryview:
    """The bytes of a contiguous tensor, without a copy and without NumPy."""
    return memoryview((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def _read(program: ExportedProgram) -> float:
    """Touch every page of every weight: one number of each 4,096 bytes."""
    return sum(float(tensor.detach().flatten()[::1024].sum()) for tensor in program.state_dict.values())


def _sync(file: Path) -> None:
    """Have a file that was written on the disk now, so that the next step does not wait for it."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


# --- scaling --------------------------------------------------------------------------------------------------


def measure_scaling(bench: Bench) -> list[ProgramRow]:
    """Rows of `unbind`: graphwire at every scale; torch too, but at the largest only once, as it takes minutes."""
    from cases import unbind

    torch_way, json_way = (
        next(way for way in installed_ways() if way.name == name) for name in (TORCH, "json")
    )
    rows = []
    for outputs in SCALES:
        name = f"unbind-{outputs}"
        with _task(bench.progress, f"{name}: exporting"):
            program = unbind(outputs)
        once = outputs == max(SCALES)
        rows += _measure_ways(
            bench, name, program, [torch_way], turns=1 if once else bench.turns, warm_up=not once
        )
        rows += _measure_ways(bench, name, program, [json_way], turns=bench.turns)
    return rows


def measure_memory(bench: Bench, nodes: int) -> list[MemoryRow]:
    """The peak memory of a large graph: save and load, of graphwire and of torch."""
    from peak_memory import extra_bytes

    program = f"chain-{nodes}"
    peaks = {}
    with _task(bench.progress, f"{nodes:,} nodes: peak memory", 4) as done:
        for library in ("graphwire", "torch"):
            for action in ("save", "load"):
                peaks[library, action] = extra_bytes(
                    library, action, program, bench.folder / f"{library}-{program}"
                )
                done(f"{library} {action}")
    return [
        MemoryRow(action, nodes, peaks["graphwire", action], peaks["torch", action])
        for action in ("save", "load")
    ]


# --- beside other things --------------------------------------------------------------------------------------


def measure_comparisons(bench: Bench, mebibytes: int) -> list[Comparison]:
    """Rows of what stands alone: threads, large graphs, whole processes, other libraries."""
    from comparisons import (
        compare_chains,
        compare_modules,
        compare_others,
        compare_stores,
        compare_threads,
        compare_weights,
    )
    from timing import CLOCKS

    wall = CLOCKS["wall"]
    rows = []
    with _task(bench.progress, "beside other things") as done:
        rows += compare_threads(bench.folder, bench.turns, wall, done)
        rows += compare_modules(bench.folder, bench.turns, bench.clock, done)
        rows += compare_weights(bench.folder, mebibytes, bench.turns, wall, done)
        rows += compare_stores(bench.folder, mebibytes, bench.turns, wall, done)
        rows += compare_chains(bench.folder, CHAINS, 1, bench.clock, done)
        rows += compare_others(bench.folder, mebibytes, bench.turns, wall, done)
    return rows


if __name__ == "__main__":
    sys.exit(main())
