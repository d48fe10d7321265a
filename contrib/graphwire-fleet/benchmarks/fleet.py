"""Measures `graphwire fleet`: the rate with one worker and with two, with Ray, and the memory with ten times as many files.

    python contrib/graphwire-fleet/benchmarks/fleet.py [--files 2000] [--repeat 5] [--action inspect] [--url http://…]

Each number is of a new process with a new catalogue. Runs that are compared take turns, because other programs may use the same
processors, and the table shows the median and best of each, and the median of the ratios of neighbours. A processor that another
program uses makes two workers slower, and one not: `--repeat` more often then, or read the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

RUN = """
import json, os, resource, sys, time
from graphwire.cli import main
begin = time.monotonic()
code = main(sys.argv[1:])
# Not the maximum of `getrusage`, which a process inherits.
memory = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
own, children = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({
    "code": code, "seconds": time.monotonic() - begin, "memory": memory,
    "own": own.ru_utime + own.ru_stime, "workers": children.ru_utime + children.ru_stime,
}))
"""


class Run(NamedTuple):
    """What one run of a command took."""

    code: int
    seconds: float
    memory: int
    """The most bytes of memory of the process that was started, without its workers."""
    own: float
    """Processor seconds of that process."""
    workers: float
    """Processor seconds of its workers; 0 for those of a cluster."""


def make_archives(folder: Path, count: int) -> None:
    """Write different programs of 4 to 400 nodes, and fill a folder with links to them."""
    import torch

    import graphwire

    sources = folder / "sources"
    sources.mkdir(parents=True)
    for number in range(40):
        layers = [
            layer
            for _ in range(1 + number * number // 16)
            for layer in (torch.nn.Linear(16, 16), torch.nn.ReLU())
        ]
        program = torch.export.export(torch.nn.Sequential(*layers), (torch.ones(2, 16),))
        graphwire.save(program, sources / f"{number}.pt2", format=("json", "msgpack", "cbor")[number % 3])
    link_archives(folder, count)


def link_archives(folder: Path, count: int) -> None:
    """Fill a folder with links to the programs."""
    for number in range(count):
        path = folder / str(count) / f"{number // 500:03}" / f"{number:06}.pt2"
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / "sources" / f"{number * 7 % 40}.pt2", path)


def measured(words: Sequence[str], options: Sequence[str], catalogue: Path | None = None) -> Run:
    """Run an action, and return what it took."""
    with tempfile.TemporaryDirectory() as temporary:
        place = catalogue or Path(temporary, "catalogue")
        command = [sys.executable, "-c", RUN, "fleet", *words, "-o", str(place), "--quiet", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["code"]:
        sys.exit("a file failed: what is measured is not what is meant")
    return Run(**found)


def compared(words: Sequence[str], ways: dict[str, list[str]], repeat: int) -> dict[str, list[Run]]:
    """Run an action in several ways, in turns."""
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, options in ways.items():
            runs[name].append(measured(words, options))
    return runs


def show(runs: dict[str, list[Run]], files: int) -> None:
    """Print the runs, and the ratio of each way to the first."""
    first = next(iter(runs.values()))
    print(
        f"{'':16}{'median s':>10}{'best s':>8}{'files/s':>9}{'ratio':>7}{'CPU s own':>11}{'workers':>9}{'MiB':>6}"
    )
    for name, each in runs.items():
        seconds = [run.seconds for run in each]
        ratio = statistics.median(one.seconds / other.seconds for one, other in zip(first, each, strict=True))
        own, workers = (
            statistics.median(getattr(run, field) for run in each) for field in ("own", "workers")
        )
        median, best = statistics.median(seconds), min(seconds)
        memory = max(run.memory for run in each) >> 20
        print(
            f"{name:16}{median:10.2f}{best:8.2f}{files / median:9.0f}{ratio:7.2f}{own:11.2f}{workers:9.2f}{memory:6}"
        )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--action", default="inspect")
    parser.add_argument("--url", help="measure one and two workers on the files of this folder instead")
    parser.add_argument("--folder", type=Path, help="where archives are, or are made")
    arguments = parser.parse_args()
    ways = {f"{count} workers": ["--workers", str(count)] for count in (1, 2)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "sources").exists():
            make_archives(folder, arguments.files)
        elif not (folder / str(arguments.files)).exists():
            link_archives(folder, arguments.files)
        words = [arguments.action, arguments.url or str(folder / str(arguments.files))]
        show(compared(words, ways, arguments.repeat), arguments.files)
        if arguments.url:
            return
        print("\nRay")
        beside = {"pool": ways["2 workers"], "Ray": [*ways["2 workers"], "--ray", "local"]}
        show(compared(words, beside, arguments.repeat), arguments.files)
        print("\nMemory, and files that did not change")
        many = arguments.files * 10
        if not (folder / str(many)).exists():
            link_archives(folder, many)
        for count in (arguments.files, many):
            catalogue = Path(temporary, f"catalogue-{count}")
            words = [arguments.action, str(folder / str(count))]
            show({f"{count:,} files": [measured(words, ways["2 workers"], catalogue)]}, count)
            show({"unchanged": [measured(words, ways["2 workers"], catalogue)]}, count)


if __name__ == "__main__":
    begin = time.monotonic()
    main()
    print(f"\n{time.monotonic() - begin:.0f} s")
