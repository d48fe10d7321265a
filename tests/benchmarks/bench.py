"""Time, size and memory of graphwire against `torch.export.save` and `load`, as samples in JSON and as tables.

    python tests/benchmarks/bench.py [SET ...] [--runs N] [--large] [--json FILE]
    python tests/benchmarks/bench.py --profile {save,load} [--program NAME] [--format FORMAT]

README.md says what each set measures. Nothing is asserted: a ratio is to be read by somebody who knows the machine.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from samples import Numbers, machine_facts, versions
from tables import TABLES, section
from timing import Bench

from graphwire.hooks import Output

__all__ = ["main"]

SETS = {
    "programs": "sets.programs",
    "steps": "sets.steps",
    "floor": "sets.floor",
    "weights": "sets.weights",
    "scaling": "sets.scaling",
    "beside": "sets.comparisons",
    "starts": "sets.starts",
    "large": "sets.large",
    "compiled": "sets.compiled",
}
"""The sets of measurements: the module of each has a function `measure` that gets a `Bench` and yields rows."""
PROGRAMS = (
    "decoder-12-dynamic",
    "decoder-48-static",
    "convnet",
    "lenet",
    "graph-convolution",
    "autoencoder",
    "words",
    "alexnet",
)


def main() -> int:
    """Run what the arguments ask for; the exit code."""
    options = _arguments()
    # torch says so at import where NumPy is absent; nothing here needs it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
    with tempfile.TemporaryDirectory(prefix="graphwire-bench-", dir=options.folder) as folder:
        bench = Bench(
            options.runs,
            options.collect,
            options.large,
            Path(folder),
            tuple(options.program),
            _show,
        )
        if options.profile:
            profile = _profiled(bench, options.profile, options.format)
        else:
            measured = _measured(bench, options.sets)
    _show("")
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return 0
    Output().sections(section(make(measured)) for make in TABLES.values())
    if options.json:
        kept = Numbers.read(options.json) if options.update and options.json.exists() else None
        (kept.updated(measured) if kept else measured).write(options.json)
    return 0


def _show(step: str) -> None:
    """What has been measured, in a line of the terminal that changes."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{step[:79]}", end="", file=sys.stderr, flush=True)


def _measured(bench: Bench, names: list[str]) -> Numbers:
    """The rows of the sets, in order."""
    numbers = Numbers(machine_facts(), versions())
    for name in names:
        numbers.rows.extend(import_module(SETS[name]).measure(bench))
    return numbers


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "sets",
        nargs="*",
        metavar="SET",
        help=f"what is measured: {', '.join(SETS)}, or `all` (default: programs and weights)",
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="turns that are counted, after one that warms up (default 5)"
    )
    parser.add_argument(
        "--collect",
        action="store_true",
        help="collect garbage before each save and load of a program; by default the collector is left alone",
    )
    parser.add_argument(
        "--program", action="append", choices=PROGRAMS, help="only this program; may be repeated"
    )
    parser.add_argument(
        "--large", action="store_true", help="the full sizes, such as 1 GiB of weights instead of 256 MiB"
    )
    parser.add_argument(
        "--folder", type=Path, help="where files are written (default: the system's temporary folder)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to FILE")
    parser.add_argument(
        "--update", action="store_true", help="keep those sets of FILE that are not measured now"
    )
    parser.add_argument(
        "--profile", choices=["save", "load"], help="print the functions that one action spends most in"
    )
    parser.add_argument("--format", default="json", help="the wire format of the profile (default json)")
    options = parser.parse_args()
    options.runs = max(1, options.runs)
    options.program = options.program or list(PROGRAMS)
    options.sets = list(SETS) if options.sets == ["all"] else options.sets or ["programs", "weights"]
    if unknown := [name for name in options.sets if name not in SETS]:
        parser.error(f"unknown sets: {', '.join(unknown)}; there are {', '.join(SETS)}")
    return options


def _profiled(bench: Bench, action: str, format: str) -> cProfile.Profile:
    """The profile of one save or load, after one that warms up."""
    from cases import PROGRAMS as MAKERS

    import graphwire

    program = MAKERS[bench.programs[0]]()
    file = bench.folder / "profiled.pt2"
    graphwire.save(program, file, format=format)
    graphwire.load(file)
    run: Callable[[], object] = (
        (lambda: graphwire.save(program, file, format=format))
        if action == "save"
        else (lambda: graphwire.load(file))
    )
    # Processor time: on a busy machine, whoever was interrupted would look slow.
    with cProfile.Profile(time.process_time) as profile:
        run()
    return profile


if __name__ == "__main__":
    sys.exit(main())
