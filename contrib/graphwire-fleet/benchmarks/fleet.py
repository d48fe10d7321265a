"""Measures `graphwire fleet`: the rate with one worker and with two, with Ray, and the memory with ten times as many files.

    python contrib/graphwire-fleet/benchmarks/fleet.py [--files 2000] [--repeat 5] [--action inspect] [--delay 30]

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
import urllib.request
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


SERVE = """
import asyncio, sys
from aiohttp import web
folder, delay = sys.argv[1], float(sys.argv[2]) / 1000
count = 0
@web.middleware
async def wait(request, handler):
    global count
    count += 1
    await asyncio.sleep(delay)
    return await handler(request)
async def counted(request):
    return web.Response(text=str(count))
app = web.Application(middlewares=[wait])
app.router.add_get("/requests", counted)
app.router.add_static("/files", folder, show_index=True)
async def main():
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
"""A server of files, each of whose answers takes some milliseconds."""


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


def make_archives(folder: Path) -> None:
    """Write forty programs of 2 to 382 nodes."""
    import torch

    import graphwire

    folder.mkdir(parents=True)
    for number in range(40):
        layers = [
            layer
            for _ in range(1 + number * number // 8)
            for layer in (torch.nn.Linear(16, 16), torch.nn.ReLU())
        ]
        program = torch.export.export(torch.nn.Sequential(*layers), (torch.ones(2, 16),))
        graphwire.save(program, folder / f"{number}.pt2", format=("json", "msgpack", "cbor")[number % 3])


def link_archives(folder: Path, count: int, first: int = 40) -> Path:
    """Fill a folder with links to the first programs, 500 in each folder below it, and return it."""
    made = folder / f"{count}-of-{first}"
    if made.exists():
        return made
    for number in range(count):
        path = made / f"{number // 500:03}" / f"{number:06}.pt2"
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / "sources" / f"{number * 7 % first}.pt2", path)
    return made


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


def show_remote(action: str, folder: Path, delay: str) -> None:
    """Print what it takes to read the files of one folder behind a server, by the number of workers."""
    files = len(list(folder.iterdir()))
    server = subprocess.Popen([sys.executable, "-c", SERVE, folder, delay], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        for workers in (1, 4, 16):
            show(
                {f"{workers} workers": [measured([action, f"{url}/files/"], ["--workers", str(workers)])]},
                files,
            )
        with urllib.request.urlopen(f"{url}/requests") as answer:
            print(
                f"{(int(answer.read()) - 1) / files / 3:.1f} requests a file, those of the listing included"
            )
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--action", default="inspect")
    parser.add_argument(
        "--delay", help="instead, files behind an HTTP server whose answers take so many milliseconds"
    )
    parser.add_argument("--folder", type=Path, help="where archives are, or are made")
    arguments = parser.parse_args()
    ways = {f"{count} workers": ["--workers", str(count)] for count in (1, 2)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "sources").exists():
            make_archives(folder / "sources")
        words = [arguments.action, str(link_archives(folder, arguments.files))]
        if arguments.delay:
            show_remote(arguments.action, Path(words[1], "000"), arguments.delay)
            return
        show(compared(words, ways, arguments.repeat), arguments.files)
        beside = {"pool": ways["2 workers"], "Ray": [*ways["2 workers"], "--ray", "local"]}
        print("\nRay: its start, with 40 files, and then the others")
        begun = compared([arguments.action, str(link_archives(folder, 40))], beside, arguments.repeat)
        show(begun, 40)
        runs = compared(words, beside, arguments.repeat)
        show(runs, arguments.files)
        took = {
            name: min(run.seconds for run in runs[name]) - min(run.seconds for run in begun[name])
            for name in beside
        }
        print(f"without the start, by the best: {took['pool']:.1f} s and {took['Ray']:.1f} s")
        print("\nMemory, and files that did not change: the smallest program, in a new catalogue, and again")
        for count in (arguments.files, arguments.files * 10):
            catalogue = Path(temporary, f"catalogue-{count}")
            words = [arguments.action, str(link_archives(folder, count, first=1))]
            for name in (f"{count:,} files", "unchanged"):
                show({name: [measured(words, ways["2 workers"], catalogue)]}, count)


if __name__ == "__main__":
    begin = time.monotonic()
    main()
    print(f"\n{time.monotonic() - begin:.0f} s")
